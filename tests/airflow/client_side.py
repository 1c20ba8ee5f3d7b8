"""Airflow's own client, run by the Python of Airflow's environment: it makes the calls it is told.

Reads one JSON request a line, and answers each with what the call returned or raised.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import sys
from operator import attrgetter
from typing import Any

import httpx
from airflow.sdk.api.client import Client
from pydantic import BaseModel

clients: list[Client] = []


def open_client(base_url: str, token: str) -> dict[str, Any]:
    clients.append(Client(base_url=base_url, token=token))
    return {"number": len(clients) - 1}


def call(number: int, operation: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = attrgetter(operation)(clients[number])(*args, **kwargs)
    except httpx.HTTPStatusError as error:
        detail = getattr(error, "detail", None)
        return {"raised": type(error).__name__, "status": error.response.status_code} | {
            "detail": detail
        }
    except httpx.HTTPError as error:
        return {"raised": type(error).__name__, "status": None, "detail": str(error)}
    if isinstance(answer, BaseModel):
        return {"type": type(answer).__name__, **answer.model_dump(mode="json")}
    return {"type": type(answer).__name__, "status": answer.status_code, "text": answer.text}


def token(number: int) -> dict[str, Any]:
    """The one that its next request will have."""
    return {"token": clients[number].auth.token}


def main() -> None:
    # What Airflow prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    verbs = {"open": open_client, "call": call, "token": token}
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(verbs[request.pop("do")](**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
