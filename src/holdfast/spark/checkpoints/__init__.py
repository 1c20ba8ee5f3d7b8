"""Checkpointed work: a later attempt does only the remaining steps."""
