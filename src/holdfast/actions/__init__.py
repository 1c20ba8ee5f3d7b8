"""Actions of people on runs and tasks, shared by the command line and the API."""
