"""The Spark data source `holdfast`: the part that runs where Holdfast need not be installed.

These modules also import PySpark and PyArrow, which every Spark worker has. If the store is a
database, they use `holdfast.spark.source`, on machines where Holdfast is installed.
"""
