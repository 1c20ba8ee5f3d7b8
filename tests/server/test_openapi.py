"""What the server says of itself in /openapi.json, held against what it does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from public_client import STATE, Api, serving
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

import pipeline
from holdfast import command as c
from holdfast.authority import TaskIdentity
from holdfast.scope import AssetScope, TaskScope
from served import ADMIN, ORDERS
from servers import ServerDatabase

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
    with serving(postgres_database.url, tmp_path_factory.mktemp("home")) as api:
        yield api


class Known:
    """What there is for requests to hit, made anew for each operation: some of them delete it."""

    def __init__(self, api: Api, database: ServerDatabase) -> None:
        database.empty()
        pipeline.half_way(api.store)
        asset = api.store.execute(c.GetAsset(AssetScope(name="orders")))
        attempt = api.store.execute(c.StartAttempt(LOADING))
        api.put(f"{STATE}/k", 1)
        api.put(f"/assets/{asset.asset_id}/state-store/k", 1)
        self.task = TaskIdentity(LOADING, attempt, (ORDERS,))
        self.values = {
            "dag_id": "etl",
            "run_id": "r1",
            "task_id": "extract",
            "asset_id": asset.asset_id,
            "ti_id": LOADING.ti_text,
            "name": "orders",
            "uri": "s3://lake/orders",
            "key": "k",
        }


def cases(operation: Any, known: Known) -> st.SearchStrategy[Any]:
    """Requests as they should be and as they should not, of anything and of what there is."""
    of_anything: st.SearchStrategy[Any] = operation.as_strategy(GenerationMode.POSITIVE)
    given = [parameter.name for parameter in operation.path_parameters]
    asked = [parameter.name for parameter in operation.query]
    if not (given or asked or operation.body):
        return of_anything
    of_what_there_is = operation.as_strategy(
        GenerationMode.POSITIVE,
        path_parameters={name: known.values[name] for name in given},
        query={name: known.values[name] for name in asked if name in known.values},
    )
    return of_anything | of_what_there_is | operation.as_strategy(GenerationMode.NEGATIVE)


def answers(requests: st.SearchStrategy[Any], token: str, count: int) -> Counter[int]:
    """The statuses that so many requests get; each answer is checked."""
    statuses = Counter[int]()
    checks = CHECKS.get_by_names(CHECKED)

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=requests)
    def ask(case: Any) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call_and_validate(headers=headers, checks=checks)
        statuses[response.status_code] += 1

    ask()
    return statuses


@pytest.mark.chaos
def test_every_answer_is_as_the_description_says(
    api: Api, postgres_database: ServerDatabase, rounds: int
) -> None:
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{api.server.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    wanted = 500 if rounds == 1 else 5000
    answered: dict[str, Counter[int]] = {}

    for operation in operations:
        known = Known(api, postgres_database)
        bearer = known.task if operation.path.startswith("/execution/store") else ADMIN
        answered[operation.label] = answers(
            cases(operation, known),
            api.server.tokens.issue(bearer),
            math.ceil(wanted / len(operations)),
        )

    print({k: dict(v) for k, v in answered.items()})
    told = sum(answered.values(), Counter[int]())
    assert told.total() >= wanted, answered
    assert sum(count for status, count in told.items() if status < 300) > wanted / 5, answered
