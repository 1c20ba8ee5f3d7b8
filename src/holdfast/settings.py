"""Declarations of all settings, from which their keys, variables, checks and docs are derived."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from holdfast.errors import InvalidSettings
from holdfast.model.duration import duration, duration_text
from holdfast.portable.source.location import is_server

FILE_NAME: Final = "holdfast.toml"
VARIABLE_PREFIX: Final = "HOLDFAST__"
A_CENTURY: Final = 36_500
_TASKS_PER_CORE: Final = 16
_BYTES_PER_TASK: Final = 128 * 2**20
_LEAST_PARALLELISM: Final = 4


class Given(NamedTuple):
    """A value and its origin."""

    value: Any
    origin: str
    typed: bool
    """Whether the value has a type; False for the environment, where everything is text."""


def without_password(text: str) -> str:
    """Return a database URL with its password hidden."""
    # Greedy up to the last `@`: a password may contain `@`, `/` and `:`, and hiding more does no
    # harm.
    hidden = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", text)
    return re.sub(r"(?i)(\w*(?:passw|pwd|secret|token)\w*=)[^&\s]+", r"\1***", hidden)


def conf_text(conf: Mapping[str, str]) -> str:
    """Return settings of Spark as JSON with secrets hidden; empty where there are none."""
    secret = re.compile(r"(?i)secret|passw|token|access\.?key")
    shown = {name: "***" if secret.search(name) else text for name, text in conf.items()}
    return msgspec.json.encode(shown).decode() if conf else ""


def _hidden(text: str) -> str:
    return "***" if text else ""


class NotAllowed(ValueError):
    """An invalid value, with a reason that may be shown."""


def _server_url(given: Given) -> str:
    from holdfast.portable.transport import (
        parse_url,  # loaded when needed: with TLS it takes a while
    )

    text = msgspec.convert(given.value, str)
    return parse_url(text).url if text else ""


def _objects_url(given: Given) -> str:
    from holdfast.model.object_url import parse

    text = msgspec.convert(given.value, str)
    return str(parse(text)) if text else ""


def _logs_url(given: Given) -> str:
    text = _objects_url(given)
    if text.startswith("memory:"):
        raise ValueError("only this process could read them")
    return text


def _from_json(given: Given, empty: str) -> Any:
    if given.typed:
        return given.value
    try:
        return msgspec.json.decode(given.value or empty)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _former_urls(given: Given) -> tuple[str, ...]:
    from holdfast.model.object_url import parse

    value = _from_json(given, "[]")
    return tuple(str(parse(url)) for url in msgspec.convert(value, tuple[str, ...]))


def _spark_conf(given: Given) -> dict[str, str]:
    """Return Spark settings as flat text. Raise NotAllowed without values, which may be secret."""
    try:
        table = _from_json(given, "{}")
        return dict(_flat(table, ""))
    except (ValueError, TypeError) as error:
        raise NotAllowed(str(error)) from None


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield a table as flat settings: TOML reads `spark.driver.memory = "2g"` as nested tables."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif not name.startswith("spark."):
        raise ValueError(f"`{name}` is not a setting of Spark" if name else "it is not a table")
    elif isinstance(value, bool):
        yield name, str(value).lower()
    elif isinstance(value, (str, int, float)):
        yield name, str(value)
    else:
        raise TypeError(f"`{name}` is not text")


def _webhook_url(given: Given) -> str:
    from urllib.parse import urlsplit

    text = msgspec.convert(given.value, str)
    parts = urlsplit(text)
    plain = text.isprintable() and " " not in text and text.isascii()
    known = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    _ = parts.port  # raises ValueError for one that is no number
    if text and not (plain and known):
        raise ValueError("not a URL of a webhook")
    return text


def _dotted_name(given: Given) -> str:
    text = msgspec.convert(given.value, str)
    parts = text.split(".")
    if text and (len(parts) < 2 or not all(part.isidentifier() for part in parts)):
        raise ValueError("not the dotted name of a function")
    return text


def _late_assets(given: Given) -> dict[str, timedelta]:
    table = _from_json(given, "{}")
    if not isinstance(table, dict):
        raise NotAllowed("it is not a table")
    limits = {}
    for name, text in table.items():
        try:
            limits[name] = _length(msgspec.convert(text, str))
        except ValueError as error:
            raise NotAllowed(f"{text!r} for asset `{name}`: {error}") from None
        if not limits[name]:
            raise NotAllowed(f"asset `{name}` cannot have an event every 0 seconds")
    return limits


def _limits_text(limits: Mapping[str, timedelta]) -> str:
    shown = {name: duration_text(limit) for name, limit in limits.items()}
    return msgspec.json.encode(shown).decode() if shown else ""


def _length(text: str) -> timedelta:
    length = duration(text)
    if length > timedelta(days=A_CENTURY):
        raise ValueError("longer than a century")
    return length


class Special(NamedTuple):
    """Properties of a setting that its type does not express."""

    allowed: str = ""
    """The allowed values, in words."""
    parse: Callable[[Given], Any] | None = None
    """Parses the value. Raises ValueError for an invalid one."""
    show: Callable[[Any], Any] = lambda value: value
    """Returns the value without its secrets."""
    secret: bool = False
    """Whether an error must not show the given value."""
    withheld: bool = False
    """Whether the value is withheld from a task's process."""


def _special(field: msgspec.structs.FieldInfo) -> Special:
    return next((each for each in get_args(field.type) if isinstance(each, Special)), Special())


class Section(msgspec.Struct, frozen=True):
    """A group of settings. Its repr may end up in a log, so it shows no secrets."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [
            (field.name, _special(field).show(getattr(self, field.name)))
            for field in msgspec.structs.fields(self)
        ]

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value!r}" for key, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


class Core(Section, frozen=True):
    home: Annotated[
        str,
        Meta(
            min_length=1,
            description="Directory of the embedded database. A relative path starts from the "
            "directory of the settings file, or from the current one where there is no file.",
        ),
    ] = ".holdfast"
    retry_window: Annotated[
        timedelta,
        Meta(
            description="How long a task waits for an unavailable database or server. Its attempt "
            "is then interrupted, and started again when the store is available. `0`: not at all."
        ),
    ] = timedelta(seconds=60)


class Database(Section, frozen=True):
    url: Annotated[
        str,
        Meta(
            description="The database: `sqlite:///…`, `postgresql://…` or `mysql://…`. Empty: "
            "`holdfast.db` under `core.home`. Commands and `connect()` may use a server instead: "
            "`https://…`, with a token in the variable `HOLDFAST_TOKEN`."
        ),
        Special(show=without_password, withheld=True),
    ] = ""
    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Maximum number of connections of one process. A connection that was "
            "idle for a minute is closed at the process's next query.",
        ),
    ] = 32


class StateStore(Section, frozen=True):
    backend: Annotated[
        str, Meta(min_length=1, description="The server-side backend, as `package.module.Class`.")
    ] = "holdfast.stores.backend.metastore.MetastoreStateBackend"
    default_retention_days: Annotated[
        int,
        Meta(
            ge=0,
            le=A_CENTURY,
            description="Days until a task entry without a retention of its own expires. 0: never.",
        ),
    ] = 30
    clear_on_success: Annotated[
        bool, Meta(description="Clear the task store of a task instance when it succeeds.")
    ] = False
    state_cleanup_batch_size: Annotated[
        int,
        Meta(
            ge=0,
            le=10**9,
            description="Rows that cleanup deletes in one transaction. 0: all in one statement.",
        ),
    ] = 0
    max_value_storage_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=10**9,
            description="Maximum size of a value's JSON: larger writes by people are refused, "
            "larger writes by tasks are logged as warnings. 0: no limit.",
        ),
    ] = 65535
    asset_history_limit: Annotated[
        int,
        Meta(ge=1, le=10**6, description="Number of versions in the history of each asset key."),
    ] = 100
    orphan_grace_days: Annotated[
        int,
        Meta(
            ge=0,
            le=A_CENTURY,
            description="Days until the state of an asset that no DAG declares any more is "
            "deleted. 0: at once.",
        ),
    ] = 7
    cleanup_interval: Annotated[
        timedelta,
        Meta(
            description="How often the scheduler removes expired entries, orphaned assets' state, "
            "and what `[retention]` names. `0`: never."
        ),
    ] = timedelta(hours=1)


class Retention(Section, frozen=True):
    runs: Annotated[
        timedelta,
        Meta(
            description="How long runs are kept after their end, with their task instances, "
            "attempts, results, task stores and logs. Runs that are still needed are kept "
            "longer, such as those with a task entry that has not expired. `0`: for ever; "
            "`90d` suits most."
        ),
    ] = timedelta(0)
    external_runs: Annotated[
        timedelta,
        Meta(
            description="How long external runs, which scripts and `state-store set` register, "
            "are kept after their last attempt or write. `0`: for ever; `90d` suits most."
        ),
    ] = timedelta(0)
    asset_events: Annotated[
        timedelta,
        Meta(
            description="How long asset events are kept. An event that a DAG has yet to consume, "
            "or that started a run that is kept, is kept longer. `0`: for ever; `90d` suits most."
        ),
    ] = timedelta(0)
    logs: Annotated[
        timedelta,
        Meta(
            description="How long log files are kept on the machine of a scheduler after they "
            "were last written to, even if their run is kept. `0`: as long as their run; `30d` "
            "suits most."
        ),
    ] = timedelta(0)


class Workers(Section, frozen=True):
    state_backend: Annotated[
        str,
        Meta(
            description="The worker-side backend, as `package.module.Class`: values are "
            "offloaded to the workers' own storage, and only references are sent "
            "to the server. `holdfast.sdk.state.ObjectStoreBackend` is included. "
            "Empty: values are sent to the server."
        ),
    ] = ""
    server_url: Annotated[
        str,
        Meta(
            description="The server through which supervisors reach the store, as "
            "`http://host:port`. Empty: they use the database."
        ),
        Special(show=without_password),
    ] = ""


class ObjectStore(Section, frozen=True):
    url: Annotated[
        str,
        Meta(
            description="Where `ObjectStoreBackend` stores values. Do not put credentials "
            "here: they come from the worker's environment or machine."
        ),
        Special(
            allowed="s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, "
            "file:///absolute/directory or memory://name, without credentials, `%`, `?` and `#`; "
            "or empty",
            parse=_objects_url,
            show=without_password,
        ),
    ] = ""
    former_urls: Annotated[
        tuple[str, ...],
        Meta(
            description="Earlier values of `url`: objects there are still read, and deleted "
            "when nothing refers to them. No other URL is used. In the "
            "environment: a JSON list."
        ),
        Special(
            allowed='a list of URLs such as ["s3://bucket/prefix"], each as in `url`',
            parse=_former_urls,
        ),
    ] = ()
    threshold_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=10**9,
            description="Size of a value's JSON below which the value is stored inline. 0: "
            "none is.",
        ),
    ] = 0
    compression: Annotated[
        Literal["none", "zstd", "gzip"],
        Meta(description="Compression of new objects; existing objects stay readable."),
    ] = "none"
    max_value_bytes: Annotated[
        int,
        Meta(
            ge=2**20,
            le=2**40,
            description="The largest value, as JSON, that any worker-side backend writes or reads.",
        ),
    ] = 2**30


class Api(Section, frozen=True):
    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="The address that the server listens on. `0.0.0.0`: all addresses.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port that it listens on. 0: any free port.")
    ] = 8793
    advertise_url: Annotated[
        str,
        Meta(
            description="Where Spark's executors and drivers on other hosts reach the server, as "
            "`http://host:port`. With it, `holdfast run` and scripts that give state to executors "
            "listen on `host` and `port` instead of on loopback. Empty: the address that is "
            "listened on."
        ),
        Special(allowed="a URL such as http://host:8793, or empty", parse=_server_url),
    ] = ""
    processes: Annotated[
        int, Meta(ge=1, le=256, description="Number of processes that answer requests.")
    ] = 1
    signing_key: Annotated[
        str,
        Meta(
            description="The secret that signs tokens, of 32 characters or more. Several are "
            "separated by commas: the first signs, and all are accepted. Empty: a "
            "key is created on first use, and stored in `signing-keys.json` under "
            "`core.home`."
        ),
        Special(show=_hidden, secret=True, withheld=True),
    ] = ""
    token_lifetime: Annotated[
        timedelta,
        Meta(
            description="How long the token of a task, watcher or worker is valid. The server "
            "renews a token before it expires, as long as it is used and its "
            "attempt is alive. Tokens of handles and jobs are valid for seven "
            "days, as long as their attempt or job is alive."
        ),
    ] = timedelta(minutes=10)
    tls_certificate: Annotated[
        str, Meta(description="A file with the server's certificate chain. Empty: plain HTTP.")
    ] = ""
    tls_key: Annotated[str, Meta(description="The file with the key of that certificate.")] = ""
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=2**31, description="The maximum size of a request's body.")
    ] = 16 * 2**20
    max_header_bytes: Annotated[
        int, Meta(ge=1024, le=2**20, description="The maximum size of a request's head.")
    ] = 32 * 2**10
    request_timeout: Annotated[
        timedelta,
        Meta(description="How long a client may take to send a request, and to read the response."),
    ] = timedelta(seconds=30)
    rate_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=10**6,
            description="Requests per second allowed for one token, in each process of the "
            "server. 0: no limit.",
        ),
    ] = 2000
    access_log: Annotated[bool, Meta(description="Log a line for each request.")] = True


class Dags(Section, frozen=True):
    stale_after: Annotated[
        timedelta,
        Meta(
            description="How long a DAG may be without a file that a scheduler sees until it "
            "becomes stale. If a scheduler has seen the file deleted, the DAG's "
            "assets then no longer count as declared by it. Its pause, its "
            "progress in its schedule and its pending events stay until a file "
            "defines it again."
        ),
    ] = timedelta(minutes=10)


class Runner(Section, frozen=True):
    parallelism: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Maximum number of tasks that one scheduler, or `holdfast run`, runs at "
            "once. 0: 16 for each core, but no more than fit into memory at 128 MB each, and at "
            "least 4.",
        ),
    ] = 0


class Logging(Section, frozen=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The lowest level that services log."),
    ] = "info"
    format: Annotated[
        Literal["text", "json"],
        Meta(description="`json`: one JSON object per line."),
    ] = "text"


class Alerts(Section, frozen=True):
    webhook_url: Annotated[
        str,
        Meta(
            description="Where alerts are sent as JSON with `POST`: failed runs, DAG files that "
            "cannot be used, and assets that are late. Empty: nowhere."
        ),
        Special(
            allowed="a URL such as https://host/path, without a user name; or empty",
            parse=_webhook_url,
            show=_hidden,
            secret=True,
            withheld=True,
        ),
    ] = ""
    callback: Annotated[
        str,
        Meta(
            description="The function that is called with each alert, as "
            "`package.module.function`. It is imported from the directory of the settings file, "
            "or from the installed packages. Empty: none."
        ),
        Special(
            allowed="a dotted name such as package.module.function, or empty", parse=_dotted_name
        ),
    ] = ""
    late_assets: Annotated[
        dict[str, timedelta],
        Meta(
            description="The longest time without an event by the name of the asset, after which "
            'the asset is late: a table such as `orders = "2h"`. In the environment: a JSON '
            "object."
        ),
        Special(
            allowed='a table of assets and durations such as orders = "2h"',
            parse=_late_assets,
            show=_limits_text,
        ),
    ] = {}


class Tracing(Section, frozen=True):
    enabled: Annotated[
        bool,
        Meta(
            description="Send OpenTelemetry traces of runs, attempts and commands of the store, as "
            "OpenTelemetry's own variables (`OTEL_…`) say. A process whose tracer provider "
            "something else has configured sends them in any case."
        ),
    ] = False


class Logs(Section, frozen=True):
    max_size: Annotated[
        int,
        Meta(
            ge=2**16,
            le=2**40,
            description="Maximum size in bytes of the log of an attempt, a watcher, callbacks or "
            "DAG files. Of a larger one, the beginning (a quarter of that) and the newest lines "
            "(half of it or more) are kept.",
        ),
    ] = 64 * 2**20
    url: Annotated[
        str,
        Meta(
            description="Where the logs of attempts are copied while they grow, so that they can "
            "be read from every machine. Do not put credentials here: they come from the "
            "environment or the machine, as for `object_store.url`. Empty: logs stay on the "
            "machine that ran the attempt."
        ),
        Special(
            allowed="s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or "
            "file:///absolute/directory, without credentials, `%`, `?` and `#`; or empty",
            parse=_logs_url,
            show=without_password,
        ),
    ] = ""


class Spark(Section, frozen=True):
    master: Annotated[
        str,
        Meta(
            description="The cluster that runs Spark tasks: `local[N]`, `spark://…`, `yarn` or "
            "`k8s://…`. Holdfast starts a driver on it for all tasks. Empty: `local[*]`, all "
            "cores of this machine."
        ),
    ] = ""
    remote: Annotated[
        str,
        Meta(
            description="A Spark Connect server to use instead, as `sc://host:port`, with its "
            "parameters such as `/;token=…`."
        ),
        Special(show=without_password),
    ] = ""
    conf: Annotated[
        dict[str, str],
        Meta(
            description="Spark's own settings for the Spark that Holdfast starts, such as "
            "`spark.driver.memory`. In the environment: a JSON object."
        ),
        Special(
            allowed="a table whose keys begin with `spark.`",
            parse=_spark_conf,
            show=conf_text,
            secret=True,
        ),
    ] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force, and the origin of each that is not a default."""

    core: Core = Core()
    database: Database = Database()
    state_store: StateStore = StateStore()
    retention: Retention = Retention()
    workers: Workers = Workers()
    object_store: ObjectStore = ObjectStore()
    api: Api = Api()
    dags: Dags = Dags()
    runner: Runner = Runner()
    logging: Logging = Logging()
    alerts: Alerts = Alerts()
    tracing: Tracing = Tracing()
    logs: Logs = Logs()
    spark: Spark = Spark()
    directory: Path = Path()
    origins: dict[str, str] = {}
    withheld: bool = False
    """Whether this is a task's process, from which the database's URL is withheld."""

    @property
    def home(self) -> Path:
        return self.directory / Path(self.core.home).expanduser()

    @property
    def database_url(self) -> str:
        if self.withheld and not self.database.url:
            raise InvalidSettings(
                "a task's process does not know the database's URL",
                hint='use context["task_store"] and context["asset_store"]; for other state, '
                "connect(url, token=…) to a server",
            )
        if self.server_url:
            shown = without_password(self.server_url)
            raise InvalidSettings(
                f"this needs the database, and database.url is the server {shown}",
                hint="run it where the server runs, or set database.url to the server's database",
            )
        return self.store_url

    @property
    def server_url(self) -> str:
        """The server in place of a database; usually empty."""
        return self.database.url if is_server(self.database.url) else ""

    @property
    def store_url(self) -> str:
        """The database, or the server in its place."""
        return self.database.url or f"sqlite:///{self.home / 'holdfast.db'}"

    @property
    def parallelism(self) -> int:
        from holdfast.process import cores, memory_bytes

        fitting = min(_TASKS_PER_CORE * cores(), memory_bytes() // _BYTES_PER_TASK)
        return self.runner.parallelism or max(_LEAST_PARALLELISM, fitting)


SECTIONS: Final[Mapping[str, type[Section]]] = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Section)
}


class Declared(NamedTuple):
    """A setting as declared above."""

    section: str
    key: str
    kind: type
    rules: Meta
    special: Special
    annotated: Any
    default: Any

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{VARIABLE_PREFIX}{self.section}__{self.key}".upper()

    @property
    def description(self) -> str:
        return self.rules.description or ""

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.special.allowed:
            return self.special.allowed
        if self.kind is bool:
            return "true or false"
        if self.kind is int:
            return f"a whole number from {self.rules.ge} to {self.rules.le}"
        if self.kind is timedelta:
            return f"a duration such as 30s, 5m, 1h or 7d, or 0; at most {A_CENTURY}d"
        if get_origin(self.kind) is Literal:
            return f"one of {', '.join(get_args(self.kind))}"
        return "text that is not empty" if self.rules.min_length else "text"


class Row(msgspec.Struct, frozen=True):
    """A setting in force, as `config list` shows it."""

    name: str
    value: str | int | bool
    origin: str
    description: str


def declared() -> Iterator[Declared]:
    """Yield every setting, in order."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            bare, rules, *_ = get_args(field.type)
            default = {} if field.default is msgspec.NODEFAULT else field.default
            facts = (bare, rules, _special(field), field.type, default)
            yield Declared(section, field.name, *facts)


_withholding = False


def withhold_secrets() -> None:
    """Make `load` omit, from now on in this process, settings that give access to the database."""
    global _withholding
    _withholding = True


def load(directory: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in force in a directory (default: the current one).

    They come from the nearest `holdfast.toml`, or `pyproject.toml` with `[tool.holdfast]`, in it or
    above it, and from the environment, which overrides the file.
    """
    try:
        start = (directory or Path.cwd()).absolute()
    except FileNotFoundError:
        raise InvalidSettings(
            "the current directory no longer exists", hint="change to another one: cd ~"
        ) from None
    file, tables = _find(start)
    given = _from_file(file, tables) if file else {}
    given |= _from_environment(os.environ if environ is None else environ)
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for setting in declared():
        if _withholding and setting.special.withheld:
            given.pop(setting.name, None)
        if setting.name in given:
            values[setting.section][setting.key] = _checked(setting, given[setting.name])
    sections: dict[str, Any] = {name: kind(**values[name]) for name, kind in SECTIONS.items()}
    return Settings(
        **sections,
        directory=file.parent if file else start,
        origins={name: source.origin for name, source in given.items()},
        withheld=_withholding,
    )


def rows(settings: Settings) -> Iterator[Row]:
    """Yield each setting with its value and origin. Passwords are hidden."""
    for setting in declared():
        value = getattr(getattr(settings, setting.section), setting.key)
        if setting.name == "database.url":
            value = settings.store_url
        elif setting.name == "runner.parallelism":
            value = settings.parallelism
        elif isinstance(value, timedelta):
            value = duration_text(value)
        elif isinstance(value, tuple):
            value = msgspec.json.encode(value).decode() if value else ""
        value = setting.special.show(value)
        origin = settings.origins.get(setting.name, "default")
        yield Row(setting.name, value, origin, setting.description)


def _find(start: Path) -> tuple[Path | None, Any]:
    """Return the nearest settings file, upward, and its content."""
    for directory in (start, *start.parents):
        file = directory / FILE_NAME
        if file.is_file():
            return file, _read(file)
        file = directory / "pyproject.toml"
        if file.is_file():
            tool = _read(file).get("tool")
            if isinstance(tool, dict) and "holdfast" in tool:
                return file, tool["holdfast"]
    return None, None


def _read(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(
            f"{file} cannot be read: {error}", hint="check that it is a file that you may read"
        ) from None
    except ValueError as error:
        raise InvalidSettings(
            f"{file} is not TOML: {error}",
            hint='write a section as [workers], a setting as state_backend = "…", text in '
            "quotes and numbers without",
        ) from None


def _from_file(file: Path, tables: Any) -> dict[str, Given]:
    if not isinstance(tables, dict):
        raise InvalidSettings(f"holdfast in {file} is not a section", hint="write [tool.holdfast]")
    names = [setting.name for setting in declared()]
    given = {}
    for section, keys in tables.items():
        if section not in SECTIONS:
            raise _unknown(f"[{section}]", str(file), section, list(SECTIONS))
        if not isinstance(keys, dict):
            raise InvalidSettings(
                f"{section} in {file} is not a section",
                hint=f"write [{section}] on a line of its own, and its settings below",
            )
        for key, value in keys.items():
            name = f"{section}.{key}"
            if name not in names:
                raise _unknown(name, str(file), name, names)
            given[name] = Given(value, str(file), typed=True)
    return given


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    names = {setting.variable: setting.name for setting in declared()}
    given = {}
    for variable, text in environ.items():
        if variable.startswith(VARIABLE_PREFIX):
            if variable not in names:
                raise _unknown(variable, "the environment", variable, list(names))
            given[names[variable]] = Given(text, variable, typed=False)
    return given


def _unknown(what: str, where: str, sought: str, known: list[str]) -> InvalidSettings:
    shown = get_close_matches(sought, known, n=3) or known
    return InvalidSettings(
        f"there is no setting {what}, found in {where}", hint=f"known: {', '.join(shown)}"
    )


def _checked(setting: Declared, given: Given) -> Any:
    try:
        if setting.special.parse is not None:
            return setting.special.parse(given)
        if setting.kind is timedelta:
            return _length(str(given.value))
        return msgspec.convert(given.value, setting.annotated, strict=given.typed)
    except ValueError as error:
        shown = "***" if setting.special.secret else without_password(repr(given.value))
        why = f": {error}" if isinstance(error, NotAllowed) else f" may not be {shown}"
        raise InvalidSettings(
            f"{setting.name}{why}, found in {given.origin}", hint=f"give {setting.allowed}"
        ) from None
