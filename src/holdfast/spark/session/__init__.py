"""Spark sessions and servers for tasks and commands."""
