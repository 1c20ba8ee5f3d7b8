"""Commands and messages as bytes between processes."""
