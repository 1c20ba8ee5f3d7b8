"""Requests and responses: limits, authentication, errors."""
