"""What Spark ships by value to executors and drivers, where nothing of Holdfast is installed.

Modules in here import the standard library, `holdfast.errors` and each other alone; `source` also
PySpark and PyArrow. What else a function needs, it imports itself, and says so where it is missing.
"""
