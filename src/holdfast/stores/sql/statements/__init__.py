"""SQL statements, built once for each dialect and named like the operations that execute them."""
