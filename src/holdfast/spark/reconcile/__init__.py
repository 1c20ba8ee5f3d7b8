"""Comparison on Spark of objects in the workers' storage with references in the store.

The executors list the storage, so they need Holdfast with its dependencies for objects.
"""
