"""The contract: every request to a store, one noun per file."""
