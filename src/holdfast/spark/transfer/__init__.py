"""Entries on their way: to Parquet and back, and from one database to another."""
