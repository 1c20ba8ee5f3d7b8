"""Opening of obstore stores, and their timeouts and retries.

Credentials come from where each cloud's tools look for them, on the worker alone:

- S3: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, a web
  identity (EKS), the container's role (ECS), the machine's role (EC2). `AWS_ENDPOINT_URL` or
  `AWS_ENDPOINT_URL_S3` for other servers that speak S3. The files under `~/.aws` are not read:
  `aws configure export-credentials --format env` turns a profile into variables.
- Google: `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT`, what `gcloud auth
  application-default login` leaves, the machine's role.
- Azure: `AZURE_STORAGE_ACCOUNT_NAME` with `AZURE_STORAGE_ACCOUNT_KEY`, a SAS token, a client
  secret, a federated token, the managed identity, or `AZURE_USE_AZURE_CLI`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import BackendFailed, MissingDependency
from holdfast.model.object_url import Address

if TYPE_CHECKING:
    from obstore.store import ClientConfig, MemoryStore, ObjectStore, RetryConfig

CONNECT_TIMEOUT: Final = timedelta(seconds=5)
SILENCE_TIMEOUT: Final = timedelta(seconds=30)
"""Read timeout: time without a response to a request of a few megabytes, or without more of it."""
REQUEST_TIMEOUT: Final = timedelta(hours=1)
"""Timeout for a whole request. A large value may take that long while its bytes arrive."""
RETRY_TIMEOUT: Final = timedelta(seconds=30)
MAX_RETRIES: Final = 6

_ENDPOINTS: Final = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "GOOGLE_BASE_URL",
)
_memory: dict[str, MemoryStore] = {}
_process: int | None = None


def check_installed(user: str = "ObjectStoreBackend") -> None:
    """Raise MissingDependency, which names the user, if obstore is not installed."""
    if find_spec("obstore") is None:
        raise MissingDependency(
            f"{user} needs the package obstore, which is not installed",
            hint='pip install "holdfast-state[objects]"',
        )


def open_store(address: Address, *, tidy: bool) -> ObjectStore:
    """Return the store of a URL. With `tidy`, a directory store deletes directories left empty."""
    from obstore import store as kinds

    options: dict[str, Any] = {
        "prefix": address.path or None,
        "client_options": _client(),
        "retry_config": _retries(),
    }
    match address.scheme:
        case "s3":
            return kinds.S3Store(address.bucket, **options)
        case "gs":
            return kinds.GCSStore(address.bucket, **options)
        case "az":
            return kinds.AzureStore(address.bucket, **options)
        case "file":
            return kinds.LocalStore(f"/{address.path}", automatic_cleanup=tidy)
    return _memory.setdefault(str(address), kinds.MemoryStore())


def check_process() -> None:
    """Raise BackendFailed in a fork of a process that has used obstore: the fork lacks its threads,
    so the first call would block forever."""
    global _process
    if _process not in (None, os.getpid()):
        raise BackendFailed(
            "object storage cannot be used in this process: it was forked from a process that had "
            "already used it",
            hint="start it with multiprocessing's `spawn` or `forkserver`, or fork before the "
            "first value is read or written",
        )
    _process = os.getpid()


def _client() -> ClientConfig:
    # Options given here override the environment, so AWS_ALLOW_HTTP has to be repeated.
    plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    allowed = ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "AZURE_ALLOW_HTTP")
    return {
        "allow_http": plain or any(os.environ.get(name, "").lower() == "true" for name in allowed),
        "connect_timeout": CONNECT_TIMEOUT,
        "read_timeout": SILENCE_TIMEOUT,
        "timeout": REQUEST_TIMEOUT,
    }


def _retries() -> RetryConfig:
    return {
        "max_retries": MAX_RETRIES,
        "retry_timeout": RETRY_TIMEOUT,
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }
