"""Prometheus' rules, with their tests, and the dashboard: syntax, metrics and labels."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
import yaml
from artefacts import DEPLOY, ROOT, tool

from holdfast.connection import open_store
from holdfast.server import metrics
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load

PROMETHEUS = DEPLOY / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana" / "holdfast.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$job": "holdfast", "$dag_id": ".*"}
OF_PROMETHEUS = {"up": set[str]()}
"""Metrics that Prometheus makes itself, with their labels beside `job` and `instance`."""


class Selected(NamedTuple):
    """A metric with the labels that an expression uses of it."""

    metric: str
    labels: set[str]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the labels of each metric that a real server exports, by the names of its series."""
    own: list[Any] = list(metrics._REGISTRY._collector_to_names)
    labels = {one._name: set(one._labelnames) for one in own}
    expose = metrics._exposed

    def spy(found: Iterable[Any]) -> bytes:
        listed = list(found)
        labels.update({one.name: set(one._labelnames) for one in listed})
        return expose(listed)

    settings = load(tmp_path_factory.mktemp("home"), {})
    with pytest.MonkeyPatch.context() as patch, open_store(settings) as store:
        patch.setattr(metrics, "_exposed", spy)
        server = EmbeddedServer(store, settings)
        text = urllib.request.urlopen(f"{server.url}/metrics").read().decode()
        server.close()
    known = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if name.endswith("_created"):
            continue
        found = labels[name.removesuffix("_total")]
        known[name] = found
        if kind in {"histogram", "summary"}:
            known |= {f"{name}_sum": found, f"{name}_count": found}
        if kind == "histogram":
            known[f"{name}_bucket"] = found | {"le"}
    return known


def filled(expression: str) -> str:
    """Replace Grafana's variables by values."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def selections(node: Any) -> Iterator[Selected]:
    """Yield the metrics of an expression with the labels that it selects by."""
    if isinstance(node, promql.VectorSelector):
        yield Selected(node.name, {one.name for one in node.matchers.matchers})
    for child in _children(node):
        yield from selections(child)


def groupings(node: Any) -> Iterator[Selected]:
    """Yield each metric with the labels that the aggregations above it group by."""
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        for one in selections(node.expr):
            yield Selected(one.metric, set(node.modifier.labels))
    for child in _children(node):
        yield from groupings(child)


def _children(node: Any) -> list[Any]:
    found = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "vs")]
    return [one for one in [*found, *getattr(node, "args", [])] if one is not None]


EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *((title, filled(target["expr"])) for title, target in TARGETS),
]


@pytest.mark.parametrize("expression", [one for _, one in EXPRESSIONS])
def test_metrics_and_labels_exist(expression: str, exported: dict[str, set[str]]) -> None:
    known = exported | OF_PROMETHEUS
    parsed = promql.parse(expression)
    found = [*selections(parsed), *groupings(parsed)]

    assert len(found) >= expression.count("holdfast_") > 0 or found[0].metric in OF_PROMETHEUS
    for metric, labels in found:
        assert metric in known, metric
        assert labels <= known[metric] | {"job", "instance"}, metric


def test_every_metric_is_on_the_dashboard(exported: dict[str, set[str]]) -> None:
    text = "".join(target["expr"] for _, target in TARGETS)
    roots = {re.sub(r"_(sum|count|bucket)$", "", name) for name in exported}

    assert {name for name in roots if name not in text} == set()


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[title for title, _ in TARGETS])
def test_legends_name_labels_that_are_left(title: str, target: dict[str, Any]) -> None:
    legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    last = promql.parse(filled(target["expr"]))

    assert legend <= {label for one in groupings(last) for label in one.labels}


def test_the_dashboard_has_no_panel_over_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]

    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(one["x"] + one["w"] <= 24 for one in places)
    assert not [pair for pair in combinations(places, 2) if _overlap(*pair)]


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    across = one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
    return across and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"]


def test_the_variables_of_the_dashboard_are_declared(exported: dict[str, set[str]]) -> None:
    declared = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))

    assert used - {"__rate_interval", "__range", "__all"} == declared.keys()
    for name in ("job", "dag_id"):
        query = re.fullmatch(r"label_values\((\w+), (\w+)\)", declared[name]["query"])
        assert query is not None
        assert query[2] in exported[query[1]] | {"job"}


def test_every_alert_has_a_test() -> None:
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yaml").read_text())["tests"]
    fired = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    silent = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if not case.get("exp_alerts")
    }

    assert fired == silent == {rule["alert"] for rule in RULES}


def test_the_series_of_the_tests_are_those_of_a_server(exported: dict[str, set[str]]) -> None:
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yaml").read_text())["tests"]
    for series in {one["series"] for test in tests for one in test["input_series"]}:
        parsed = promql.parse(series)
        assert isinstance(parsed, promql.VectorSelector)
        labels = {one.name for one in parsed.matchers.matchers}
        assert labels == (exported | OF_PROMETHEUS)[parsed.name] | {"job", "instance"}, series


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool("check", "rules", "rules.yaml")
    promtool("check", "config", "prometheus.yaml")
    promtool("test", "rules", "rules_test.yaml")


def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": filled(target["expr"])}
        for number, (_, target) in enumerate(TARGETS)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    assert f"{len(TARGETS)} rules found" in promtool("check", "rules", str(file))


@pytest.mark.full
def test_promtool_fails_if_a_threshold_changes(tmp_path: Path) -> None:
    text = (PROMETHEUS / "rules.yaml").read_text()
    (tmp_path / "rules.yaml").write_text(text.replace("< 1e9", "< 1e6"))
    tests = (PROMETHEUS / "rules_test.yaml").read_text()
    (tmp_path / "rules_test.yaml").write_text(tests)
    done = subprocess.run(
        [tool("promtool"), "test", "rules", "rules_test.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "HoldfastDiskIsFilling" in done.stdout + done.stderr


def test_the_monitoring_page_does_not_repeat_the_rules() -> None:
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()

    assert "../../deploy/prometheus/rules.yaml" in page
    assert "- alert:" not in page


def test_the_monitoring_page_lists_every_alert() -> None:
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()

    listed = re.findall(r"^\| `(Holdfast\w+)` \|", page, re.MULTILINE)

    assert listed == [rule["alert"] for rule in RULES]


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [tool("promtool"), *arguments],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
