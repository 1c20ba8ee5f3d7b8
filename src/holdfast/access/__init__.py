"""Identities, and the permissions of each."""
