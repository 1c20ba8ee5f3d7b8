"""The launcher process: forks a child for each order."""
