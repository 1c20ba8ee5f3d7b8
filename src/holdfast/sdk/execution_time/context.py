"""Names that Airflow has in its module of the same name."""

from holdfast.portable.retention import NEVER_EXPIRE

__all__ = ["NEVER_EXPIRE"]
