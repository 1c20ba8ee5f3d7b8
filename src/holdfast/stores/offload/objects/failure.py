"""Translation of object storage errors: what failed, where, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from holdfast.errors import BackendFailed, HoldfastError, ObjectMissing


class FailureKind(NamedTuple):
    """Kind of failure, recognised by a pattern in the error message."""

    sign: re.Pattern[str]
    why: str
    hint: str
    affects_all: bool = False
    """Whether the failure concerns the storage as a whole, so that other objects would fail too."""


def _kind(sign: str, why: str, hint: str, affects_all: bool = False) -> FailureKind:
    return FailureKind(re.compile(sign), why, hint, affects_all)


def _code(*codes: str) -> str:
    """Return a pattern for servers' error codes. Our paths have no `<` or space, so none match."""
    return f"(<Code>|code: )({'|'.join(codes)})\\b"


FAILURE_KINDS: Final = (
    _kind(
        _code("NoSuchBucket", "ContainerNotFound")
        + "|bucket does not exist|performing (PUT|POST) .* status code: 404",
        "the bucket does not exist",
        "create it, or correct [object_store] url, or [logs] url for logs",
        affects_all=True,
    ),
    _kind(
        _code("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed")
        + "|status code: 30[1278]|redirect without LOCATION",
        "the bucket is in another region",
        "set AWS_REGION to the region of the bucket on every worker",
        affects_all=True,
    ),
    _kind(
        _code("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
        + "|Missing AccessKeyId|Missing SecretAccessKey|must be specified"
        r"|://(169\.254\.|metadata\.google|login\.microsoft|sts\.)",
        "the credentials are missing or not accepted",
        "set them in the worker's environment or on its machine: AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and "
        "AZURE_STORAGE_ACCOUNT_KEY, or the role of the machine or pod",
        affects_all=True,
    ),
    _kind(
        _code("AccessDenied", "AuthorizationFailure")
        + r"|status code: 40[13]\b|(os error |Errno )(1|13|30)\b",
        "permission denied",
        "the credentials of this worker need the right to list, read, write and delete there",
    ),
    _kind(
        r"(os error |Errno )(27|28|122)\b",
        "no space left",
        "free some space; values stored before are unchanged",
        affects_all=True,
    ),
    _kind(
        r"status code: (5\d\d|429)\b|HTTP error|timed out|response body",
        "the storage does not answer, or reports that it is unavailable",
        "check that it is running and reachable from this worker, then try again; values stored "
        "before are unchanged",
        affects_all=True,
    ),
)
_STATUS: Final = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE: Final = re.compile(r"<Code>([^<]{1,100})</Code>")


def classify(error: Exception) -> FailureKind:
    """Return the kind of failure."""
    text = _without_debugging(error)
    for known in FAILURE_KINDS:
        if known.sign.search(text):
            return known
    # A URL may contain a signature.
    first = re.sub(r"\w+://\S+", "…", text.strip().partition("\n")[0])
    return FailureKind(
        re.compile(""), first or type(error).__name__, "values stored before are unchanged"
    )


def was_interrupted(error: Exception) -> bool:
    """Return whether an immediate retry may succeed: the connection broke, or a directory was
    removed by a cleanup just before it was used."""
    text = _without_debugging(error)
    return re.search(r"error sending request|Unable to .* \(os error 2\)", text) is not None


def reason(error: Exception) -> str:
    """Return the reason for the failure in one line, without URLs or secrets."""
    text = _without_debugging(error)
    said = [found[1].strip() for found in (_STATUS.search(text), _CODE.search(text)) if found]
    why = classify(error).why
    return f"{why} ({', '.join(said)})" if said else why


@contextmanager
def translated(doing: str, where: str) -> Iterator[None]:
    """Raise BackendFailed or ObjectMissing for errors of the storage; Holdfast's own pass through.
    The original error is not chained, since the URLs in it may be signed."""
    from obstore.exceptions import BaseError

    try:
        yield
    except HoldfastError:
        raise
    except FileNotFoundError as error:
        if doing == "read" and classify(error) not in FAILURE_KINDS:
            raise ObjectMissing(
                f"the object {where} does not exist",
                hint="it was deleted by another program, or is on a disk that this machine does "
                "not have; `holdfast state-store reconcile` lists all such references",
            ) from None
        raise _failed(doing, where, error) from None
    except (BaseError, NotImplementedError, ValueError, OSError) as error:
        raise _failed(doing, where, error) from None


def _failed(doing: str, where: str, error: Exception) -> BackendFailed:
    return BackendFailed(f"cannot {doing} {where}: {reason(error)}", hint=classify(error).hint)


def _without_debugging(error: Exception) -> str:
    return str(error).partition("\n\nDebug source")[0]
