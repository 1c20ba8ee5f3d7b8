"""Measurements of the server, beside Airflow's in one run: `python -m bench.server [--full]`."""
