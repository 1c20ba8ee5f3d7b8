"""Server-side backends: the contract for third parties, its adapter, and the default backend."""
