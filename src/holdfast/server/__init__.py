"""The server: the store over HTTP, for workers, people and tools."""
