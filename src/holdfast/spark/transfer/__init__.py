"""Transfer of entries: to Parquet and back, and from one database to another."""
