"""The command contract: every request to a store, one noun per file.

Each command is a value, typed by its answer, and everything that answers one is a Store.
"""

from __future__ import annotations

from holdfast.commands.activity import *
from holdfast.commands.alerts import *
from holdfast.commands.assets import *
from holdfast.commands.attempts import *
from holdfast.commands.base import *
from holdfast.commands.bulk import *
from holdfast.commands.cleanup import *
from holdfast.commands.counting import *
from holdfast.commands.dags import *
from holdfast.commands.entries import *
from holdfast.commands.history import *
from holdfast.commands.pools import *
from holdfast.commands.purge_queue import *
from holdfast.commands.results import *
from holdfast.commands.retention import *
from holdfast.commands.runs import *
from holdfast.commands.services import *
from holdfast.commands.table_scans import *
from holdfast.commands.tasks import *
from holdfast.commands.watches import *
from holdfast.commands.wrappers import *
