"""Runner of DAGs, which supervises each attempt in its own process."""
