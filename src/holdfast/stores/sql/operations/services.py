"""Signs of life of services: reported, listed, and their figures added up."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from holdfast import commands as c
from holdfast.model.figures import Figures
from holdfast.model.run import Process
from holdfast.model.service import Service, ServiceKind
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import services as s

GIVEN_UP_AFTER: Final = timedelta(days=1)
_TOTAL: Final = rows.digest(s.TOTAL)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Figures).decode


def report_service(context: Context, command: c.ReportService) -> Steps[bool]:
    yield BEGIN
    figures = None if command.figures is None else _encode(command.figures).decode()
    digest = _digest(command.process)
    if not command.first:
        params = {"service": digest} | ({} if figures is None else {"figures": figures})
        return bool((yield s.see(figures is not None), params))
    for (lost,) in (yield s.long_unseen(), {"age": rows.microseconds(GIVEN_UP_AFTER)}):
        yield from _remove(context, lost, None)
    row = {
        "digest": digest,
        "kind": command.kind.value,
        "process": run_rows.process_column(command.process),
        "lease": rows.microseconds(command.lease),
        "figures": figures,
    }
    yield s.put(type(context.dialect)), row
    return True


def end_service(context: Context, command: c.EndService) -> Steps[None]:
    yield BEGIN
    yield from _remove(context, _digest(command.process), command.figures)


def _remove(context: Context, digest: str, last: Figures | None) -> Steps[None]:
    """Remove a service, and add its figures to those of all that are gone."""
    yield s.add_total(type(context.dialect)), {"digest": _TOTAL}
    # Locked first by everybody, so that no two processes wait for each other.
    [(sums,)] = yield s.lock(), {"service": _TOTAL}
    found = yield s.lock(), {"service": digest}
    if not found:
        return  # removed before, and only the response was lost
    total = _figures(sums)
    total.add(last if last is not None else _figures(found[0][0]))
    yield s.see(with_figures=True), {"service": _TOTAL, "figures": _encode(total).decode()}
    yield s.delete(), {"service": digest}


def list_services(context: Context, command: c.ListServices) -> Steps[tuple[Service, ...]]:
    return tuple(map(_service, (yield s.services(), {})))


def sum_figures(context: Context, command: c.SumFigures) -> Steps[Figures]:
    total = Figures()
    for (text,) in (yield s.figures(), {}):
        total.add(_figures(text))
    return total


def _digest(process: Process) -> str:
    return rows.digest(run_rows.process_column(process) or "")


def _figures(text: str | None) -> Figures:
    return _decode(text) if text else Figures()


def _service(row: rows.Row) -> Service:
    kind, process, started_at, seen_at, lease, age = row
    who = run_rows.process(process)
    assert who is not None
    return Service(
        kind=ServiceKind(kind),
        process=who,
        started_at=rows.instant(started_at),
        seen_at=rows.instant(seen_at),
        lease=timedelta(microseconds=lease),
        age=timedelta(microseconds=max(0, int(age))),
    )
