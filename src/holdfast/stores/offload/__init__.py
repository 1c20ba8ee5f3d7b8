"""Offloading: values in the workers' own storage, with references in the store."""
