"""Logs of tasks: bounded files, their copies in object storage, and reading of both."""
