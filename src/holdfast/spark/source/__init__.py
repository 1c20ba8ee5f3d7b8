"""The Spark data source `holdfast`: state as DataFrames, and DataFrames as state.

Modules named in `shipping.SHIPPED` travel to Spark's workers by value, since nothing of Holdfast
need be installed there. At their top level they import the standard library, PySpark, PyArrow and
each other alone; whatever else they need, they import in the function that needs it, and only
where the store is a database, which is reached from machines that have Holdfast.
"""
