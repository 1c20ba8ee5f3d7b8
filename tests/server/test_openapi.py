"""The description in /openapi.json, compared with the server's responses."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pipeline
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from public_client import STATE, Api, serving
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from servers import ServerDatabase
from talk import ADMIN, ORDERS

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.actions.logs import log_path
from holdfast.model.scope import AssetScope, TaskScope

LOADING = TaskScope("etl", "r1", "load", 2)
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "allow_header_conformance",
    "ignored_auth",
)


@pytest.fixture(scope="module")
def api(
    postgres_database: ServerDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("home")
    log = log_path(home / ".holdfast", TaskScope("etl", "r1", "extract"), 1)
    log.parent.mkdir(parents=True)
    log.write_text("text\n")
    with serving(postgres_database.url, home) as api:
        yield api


class Known:
    """Existing objects for requests, recreated for each operation, as some of them delete it."""

    def __init__(self, api: Api, database: ServerDatabase) -> None:
        database.empty()
        pipeline.half_way(api.store)
        asset = api.store.execute(c.GetAsset(AssetScope(name="orders")))
        attempt = api.store.execute(c.StartAttempt(LOADING))
        api.store.execute(c.SetPool(name="warehouse", slots=1))
        api.put(f"{STATE}/k", 1)
        api.put(f"/assets/{asset.asset_id}/state-store/k", 1)
        self.task = TaskIdentity(LOADING, attempt, (ORDERS,))
        self.values = {
            "dag_id": "etl",
            "run_id": "r1",
            "task_id": "extract",
            "try_number": 1,
            "asset_id": asset.asset_id,
            "ti_id": LOADING.ti_text,
            "name": "orders",
            "uri": "s3://lake/orders",
            "key": "k",
            "pool_name": "warehouse",
        }


def cases(operation: Any, known: Known) -> st.SearchStrategy[Any]:
    """Return valid and invalid requests, for arbitrary and for existing objects."""
    of_anything: st.SearchStrategy[Any] = operation.as_strategy(GenerationMode.POSITIVE)
    given = [parameter.name for parameter in operation.path_parameters]
    asked = [parameter.name for parameter in operation.query]
    if not varies(operation):
        return of_anything
    of_what_there_is = operation.as_strategy(
        GenerationMode.POSITIVE,
        path_parameters={name: known.values[name] for name in given},
        query={name: known.values[name] for name in asked if name in known.values},
    )
    return of_anything | of_what_there_is | operation.as_strategy(GenerationMode.NEGATIVE)


def answers(requests: st.SearchStrategy[Any], token: str, count: int) -> Counter[int]:
    """Send that many requests, check each response, and return the statuses."""
    statuses = Counter[int]()
    checks = CHECKS.get_by_names(CHECKED)

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=requests)
    def ask(case: Any) -> None:
        # An empty value is not sent, so a request that is invalid for it is valid.
        assume(all(value not in (None, [], {}) for value in (case.query or {}).values()))
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call_and_validate(headers=headers, checks=checks)
        statuses[response.status_code] += 1

    ask()
    return statuses


def varies(operation: Any) -> bool:
    """Return whether the operation has parameters or a body."""
    return bool([*operation.path_parameters, *operation.query, *operation.body])


@pytest.fixture(scope="module")
def description(api: Api) -> dict[str, Any]:
    with urlopen(f"{api.server.url}/openapi.json") as response:
        return dict(json.load(response))


def operations_in(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in description["paths"].items():
        for operation in operations.values():
            yield path, operation


@pytest.mark.full
def test_the_description_is_valid(description: dict[str, Any]) -> None:
    schemathesis.openapi.from_dict(description).validate()


def test_every_operation_has_a_unique_id(description: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations_in(description)]

    assert len(set(names)) == len(names) > 40
    assert all(name.isidentifier() and name.islower() for name in names)


def test_every_operation_has_a_summary_and_a_tag(
    description: dict[str, Any],
) -> None:
    for path, operation in operations_in(description):
        assert operation["description"], path
        assert len(operation["tags"]) == 1, path


def test_every_error_has_the_same_schema(description: dict[str, Any]) -> None:
    for path, operation in operations_in(description):
        for status, response in operation["responses"].items():
            if int(status) >= 400 and not path.startswith("/health"):
                [content] = response["content"].values()
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, path


def test_operations_that_need_a_token_declare_it(description: dict[str, Any]) -> None:
    for path, operation in operations_in(description):
        guarded = path.startswith(("/api/", "/execution/"))
        assert ("security" in operation) == guarded, path
        assert not guarded or {"401", "403", "422", "429", "503"} <= set(operation["responses"])


def test_the_operations_of_workers_declare_their_errors_and_aliases(
    description: dict[str, Any],
) -> None:
    for path, operation in operations_in(description):
        if path.startswith("/execution/store/"):
            assert "409" in operation["responses"], path
            assert "`/execution/state/…`" in operation["description"], path


def test_every_required_field_of_an_object_is_described(description: dict[str, Any]) -> None:
    def check(part: Any) -> None:
        if isinstance(part, dict) and part.get("additionalProperties") is False:
            assert set(part.get("required", ())) <= set(part.get("properties", ())), part
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                check(inner)

    check(description)


def test_responses_with_a_renewed_token_declare_its_header(description: dict[str, Any]) -> None:
    for path, operation in operations_in(description):
        told = {
            int(status)
            for status, response in operation["responses"].items()
            if "Refreshed-API-Token" in response.get("headers", {})
        }
        asks_the_store = path.startswith("/execution/") and operation["operationId"] != (
            "list_commands"
        )
        possible = {int(status) for status in operation["responses"]} & {200, 204, 404, 409}
        assert told == (possible if asks_the_store else set()), path


def test_bodies_take_no_unknown_fields(description: dict[str, Any]) -> None:
    bodies = [name for name in description["components"]["schemas"] if name.endswith("Body")]

    assert len(bodies) > 5
    for name in bodies:
        assert description["components"]["schemas"][name]["additionalProperties"] is False, name


def test_no_schema_is_unsupported_by_client_generators(
    description: dict[str, Any],
) -> None:
    def check(part: Any) -> None:
        if isinstance(part, dict):
            assert isinstance(part.get("items", {}), dict), part
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                check(inner)

    check(description)


@pytest.mark.chaos
def test_every_answer_is_as_the_description_says(
    api: Api, postgres_database: ServerDatabase, rounds: int
) -> None:
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{api.server.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    wanted = 500 if rounds == 1 else 5000
    each = math.ceil(wanted / sum(map(varies, operations)))
    answered: dict[str, Counter[int]] = {}

    for operation in operations:
        known = Known(api, postgres_database)
        bearer = known.task if operation.path.startswith("/execution/store") else ADMIN
        token = api.server.tokens.issue(bearer)
        answered[operation.label] = answers(cases(operation, known), token, each)

    told = sum(answered.values(), Counter[int]())
    assert told.total() >= wanted, answered
    assert sum(count for status, count in told.items() if status < 300) > wanted / 10, answered
