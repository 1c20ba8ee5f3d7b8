"""The Spark data source `holdfast`, as far as it runs where nothing of Holdfast need be installed.

These modules import PySpark and PyArrow, too, which every worker of Spark has. Where the store is a
database, they go on with `holdfast.spark.source`, on machines that have Holdfast.
"""
