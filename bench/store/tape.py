"""The driver alone: what the store sends for a command, recorded once and sent again."""

from __future__ import annotations

from typing import Any

from holdfast.command import Command
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import make_engine, parse_url
from holdfast.stores.sql.operations import BEGIN, OPERATIONS, Context
from holdfast.stores.sql.store import _clock
