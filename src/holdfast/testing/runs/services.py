"""Signs of life of services, and the sum of their figures."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from holdfast import commands as c
from holdfast.model.figures import MOST_SERIES, OTHER, Family, Figures
from holdfast.model.run import Process
from holdfast.model.service import ServiceKind
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import FIRST, MINUTE, SECOND, at_once

ENDS = Family("ends", "Ends of tasks.", ("dag_id", "state"))
SECONDS = Family("seconds", "Durations.", ("dag_id",), (1, 10))


def counted(ends: int, *seconds: float) -> Figures:
    figures = Figures()
    for _ in range(ends):
        figures.count(ENDS, "sales", "success")
    for value in seconds:
        figures.observe(SECONDS, value, "sales")
    return figures


def report(
    store: Store,
    process: Process = FIRST,
    figures: Figures | None = None,
    *,
    first: bool = False,
    kind: ServiceKind = ServiceKind.SCHEDULER,
) -> bool:
    sign = c.ReportService(process=process, kind=kind, lease=MINUTE, first=first, figures=figures)
    return store.execute(sign)


def ends(store: Store) -> list[float]:
    return [values[0] for _, values in store.execute(c.SumFigures()).of(ENDS)]


class Services(RunFixtures):
    def test_a_service_is_alive_until_its_lease_has_passed(
        self, store: Store, clock: Clock
    ) -> None:
        report(store, first=True)
        [begun] = store.execute(c.ListServices())
        clock.forward(MINUTE / 2)
        report(store)
        [seen] = store.execute(c.ListServices())
        clock.forward(MINUTE)
        [lost] = store.execute(c.ListServices())

        assert (begun.kind, begun.process, begun.lease) == (ServiceKind.SCHEDULER, FIRST, MINUTE)
        assert seen.started_at == begun.started_at
        assert seen.seen_at == begun.seen_at + MINUTE / 2
        assert (begun.alive, seen.alive, lost.alive) == (True, True, False)
        assert lost.age == MINUTE

    def test_services_are_listed_with_the_one_that_was_seen_last_first(
        self, store: Store, clock: Clock
    ) -> None:
        report(store, first=True)
        clock.forward(MINUTE)
        report(store, SECOND, first=True, kind=ServiceKind.TRIGGERER)

        kinds = [one.kind for one in store.execute(c.ListServices())]

        assert kinds == [ServiceKind.TRIGGERER, ServiceKind.SCHEDULER]

    def test_a_service_that_ends_in_order_is_gone_and_its_figures_stay(self, store: Store) -> None:
        report(store, figures=counted(2), first=True)
        report(store, SECOND, counted(1), first=True)
        report(store)  # without figures: those of the last report
        before = ends(store)

        for _ in range(2):  # the response to the first may be lost
            store.execute(c.EndService(FIRST, counted(3)))

        assert [one.process for one in store.execute(c.ListServices())] == [SECOND]
        assert (before, ends(store)) == ([3], [4])

    def test_figures_are_those_of_the_last_report_and_not_added_to_it(self, store: Store) -> None:
        report(store, figures=counted(1, 0.5), first=True)
        report(store, figures=counted(2, 0.5, 5.0, 50.0))
        store.execute(c.EndService(FIRST, counted(2, 0.5, 5.0, 50.0)))
        report(store, SECOND, counted(0, 7.0), first=True)

        [(labels, values)] = store.execute(c.SumFigures()).of(SECONDS)

        assert (labels, values) == (("sales",), [1, 2, 1, 62.5])

    def test_a_lost_service_is_given_up_after_a_day_and_then_begins_anew(
        self, store: Store, clock: Clock
    ) -> None:
        report(store, figures=counted(2), first=True)
        clock.forward(timedelta(days=1, seconds=1))
        report(store, SECOND, first=True)
        given_up = [one.process for one in store.execute(c.ListServices())]

        refused = report(store, figures=counted(2))
        again = report(store, figures=counted(0), first=True)

        assert given_up == [SECOND]
        assert (refused, again) == (False, True)
        assert ends(store) == [2]

    def test_concurrent_ends_lose_no_figures(self, store: Store) -> None:
        processes = [Process("here", pid, "t0") for pid in range(6)]
        for process in processes:
            report(store, process, counted(1), first=True)

        at_once(
            [partial(store.execute, c.EndService(process, counted(1))) for process in processes]
        )

        assert (ends(store), store.execute(c.ListServices())) == ([6], ())

    def test_the_number_of_series_is_limited(self, store: Store) -> None:
        figures = Figures()
        for number in range(MOST_SERIES + 10):
            figures.count(ENDS, f"dag_{number}", "success")
        report(store, figures=figures, first=True)

        found = dict(store.execute(c.SumFigures()).of(ENDS))

        assert len(found) == MOST_SERIES + 1
        assert found[OTHER, "success"] == [10]
