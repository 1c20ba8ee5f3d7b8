"""The scheduler process: decides which runs and tasks are due."""
