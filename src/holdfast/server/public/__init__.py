"""What people and tools ask, under /api/v2: with a user's token, and errors in the one shape."""
