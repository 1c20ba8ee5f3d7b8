"""Identities, and what each may ask for."""
