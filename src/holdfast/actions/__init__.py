"""Actions that command line, API and services share: on DAGs, runs, tasks, pools, loads, logs and
alerts."""
