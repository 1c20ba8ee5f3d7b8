"""Object storage for offloaded values."""
