"""Objects in the workers' storage held against the references in the store, on Spark.

The executors list the storage, so they need Holdfast and what it needs for objects.
"""
