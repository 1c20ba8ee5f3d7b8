"""The supervisor process: attempts and watchers, each in a child of its own."""
