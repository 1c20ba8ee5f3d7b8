"""Values: scopes, entries, runs, DAGs and their rules."""
