"""Measurements of the store, side by side in one run: `python -m bench.store [--full]`."""
