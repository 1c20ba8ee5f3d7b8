"""Where pipelines written for Airflow import some names from."""
