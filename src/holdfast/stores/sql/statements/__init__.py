"""SQL statements, built once for each dialect; the nouns are those of the operations."""
