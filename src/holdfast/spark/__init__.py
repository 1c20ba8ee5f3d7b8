"""Spark for the tasks of a run: the server that they share, and a session for each attempt."""
