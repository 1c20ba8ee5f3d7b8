"""The task process: imports a DAG file, runs a task, a callback or a watcher."""
