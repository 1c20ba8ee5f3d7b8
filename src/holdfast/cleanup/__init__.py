"""Time-based cleanup: expired task entries, and the state of assets that no DAG declares."""
