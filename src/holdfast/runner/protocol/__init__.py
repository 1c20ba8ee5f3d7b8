"""Messages between the processes of the runner."""
