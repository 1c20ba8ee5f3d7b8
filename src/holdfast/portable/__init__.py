"""Code that Spark ships by value to executors and drivers where Holdfast is not installed.

The modules import only the standard library, `holdfast.errors` and each other; `source` also
imports PySpark and PyArrow, `lake` PyArrow. A function that needs anything else imports it itself,
and raises an error that names it where it is missing.
"""
