"""The scheduler process: which runs and tasks are due."""
