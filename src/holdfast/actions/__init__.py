"""What people do with runs and tasks: the steps that the command line and the API share."""
