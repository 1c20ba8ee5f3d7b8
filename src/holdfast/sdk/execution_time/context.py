"""Names from Airflow's module of the same name."""

from holdfast.portable.retention import NEVER_EXPIRE

__all__ = ["NEVER_EXPIRE"]
