"""Runs what the sdk describes: each attempt in a process of its own, supervised."""
