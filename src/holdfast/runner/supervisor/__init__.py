"""The supervisor process: runs attempts and watchers, each in its own child process."""
