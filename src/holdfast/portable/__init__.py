"""Modules that Spark ships by value to executors and drivers: the standard library and our errors only."""
