"""Measurements of runs, side by side in one run: `python -m bench.runner [--full]`."""
