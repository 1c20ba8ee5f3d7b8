"""Lake tables: exactly-once appends to Delta and Iceberg tables, and incremental reads of them."""
