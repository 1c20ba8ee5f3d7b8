"""Import path of some names for pipelines written for Airflow."""
