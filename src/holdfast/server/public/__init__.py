"""The public API under /api/v2, for people and tools with a user's token; one format of errors."""
