"""Backends on the server side: the contract for third parties, its adapter, and the default."""
