"""Values in the workers' own storage, behind references."""
