"""Data files of lake tables, written and read on Spark's executors.

These modules also import PyArrow, which Spark's workers need for Arrow, and obstore for URLs.
"""
