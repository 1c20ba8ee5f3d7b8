"""One `set` or `get` at a time, and `set_many`: the store, the driver alone, Airflow's store."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from bench.store.airflow import Airflow
from bench.store.databases import Databases
from bench.store.driver import Driver, Sent, listening
from bench.store.rounds import Contender, rates, timed
from bench.store.workload import KEYS, SCOPE, TEXTS, VALUES, expiry
from holdfast.accessor import TaskStore
from holdfast.command import Get, RegisterTask, Set, StartAttempt
from holdfast.entry import TaskWriter
from holdfast.stores.sql import SqlStore

