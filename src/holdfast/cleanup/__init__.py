"""Time-based cleanup: plans for expired entries, orphaned assets, old runs and events, and their
periodic execution."""
