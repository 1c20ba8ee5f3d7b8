"""SparkJob: a task that submits a Spark application and waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.errors import HoldfastError, InvalidDag
from holdfast.portable.backoff import Backoff
from holdfast.sdk.operator import BaseOperator
from holdfast.sdk.resumable import ResumableJobMixin
from holdfast.spark.handles import job_endpoint
from holdfast.spark.jobs.claim import claim_key
from holdfast.spark.jobs.clusters import Cluster, State
from holdfast.spark.jobs.log import DriverLog
from holdfast.spark.jobs.submission import Submission, as_text, located
from holdfast.spark.jobs.ticket import Ticket
from holdfast.spark.jobs.watch import Watch

if TYPE_CHECKING:
    from holdfast.sdk.context import Context

FIRST_PAUSE: Final = 0.5


class SparkJobFailed(HoldfastError):
    """The application that a task submitted has failed, or was cancelled."""

    code = "spark_job_failed"


class SparkJob(ResumableJobMixin, BaseOperator):
    """Submits an application once, whichever process dies meanwhile, and waits for its end.

    The task's result is the id of the driver that did the work.
    """

    external_id_key = "spark_job"
    template_fields = (
        *("application", "main_class", "args", "conf", "name", "master"),
        *("files", "py_files", "jars", "archives"),
    )

    def __init__(
        self,
        *,
        application: str | os.PathLike[str],
        main_class: str = "",
        args: Sequence[object] = (),
        conf: Mapping[str, object] | None = None,
        files: Sequence[str] = (),
        py_files: Sequence[str] = (),
        jars: Sequence[str] = (),
        archives: Sequence[str] = (),
        name: str = "",
        master: str = "local[*]",
        deploy_mode: Literal["client", "cluster"] = "client",
        rest_url: str | None = None,
        page_url: str | None = None,
        poll_interval: float = 10.0,
        **arguments: Any,
    ) -> None:
        """`application` is a Python file, or a jar with its `main_class`; as a path or a URL.

        The driver runs on this machine, whatever `master` its executors have, or with
        `deploy_mode="cluster"` on the standalone cluster that `master` names: `spark://host:port`.
        `rest_url` is the URL of its REST server and `page_url` that of its master's page, if not at
        the default ports.
        """
        super().__init__(**arguments)
        self.application = os.fspath(application)
        self.main_class = main_class
        self.args = args
        self.conf = conf or {}
        self.files = files
        self.py_files = py_files
        self.jars = jars
        self.archives = archives
        self.name = name or self.task_id
        self.master = master
        self.deploy_mode = deploy_mode
        self.rest_url = rest_url
        self.page_url = page_url
        self.poll_interval = poll_interval
        if not isinstance(poll_interval, int | float) or not poll_interval > 0:
            raise InvalidDag(
                f"task `{self.task_id}`: poll_interval is {poll_interval!r}",
                hint="give a number of seconds",
            )
        if not self.durable:
            raise InvalidDag(
                f"task `{self.task_id}`: a SparkJob cannot have durable=False",
                hint="leave it out: a retry continues the running job",
            )
        self._watch: Watch | None = None

    def execute(self, context: Context) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Context) -> str:
        watch = self._watching(context)
        submission = self._submission(context, watch.cluster)
        driver = watch.cluster.submit(submission)
        self.log.info("submitted %s to %s as %s", self.application, self.master, driver)
        return driver

    def find_job(self, intent: str, context: Context) -> str | None:
        watch = self._watching(context)
        claim, _ = watch.claims.read()
        if claim is not None and watch.cluster.is_driver_of(claim.driver, intent):
            return claim.driver
        return watch.cluster.find(intent)

    def get_job_status(self, external_id: str, context: Context) -> State:
        return self._watching(context).look(external_id).state

    def is_job_active(self, status: str) -> bool:
        return State(status).active

    def is_job_succeeded(self, status: str) -> bool:
        return status == State.SUCCEEDED

    def poll_until_complete(self, external_id: str, context: Context) -> None:
        watch = self._watching(context)
        backoff = Backoff(FIRST_PAUSE, self.poll_interval, 1.5)
        log = DriverLog(watch.cluster, external_id)
        said: tuple[str, str] = ("", "")
        while True:
            status = watch.look(external_id)
            if watch.driver != log.driver:
                self.log.info("following driver %s, which runs the job", watch.driver)
                log = DriverLog(watch.cluster, watch.driver)
            if said != (said := (status.state, status.detail)):
                self.log.info("driver %s: %s %s", watch.driver, status.state, status.detail)
            for line in log.new_lines():
                self.log.info("| %s", line)
            if not status.state.active:
                break
            time.sleep(backoff.pause())
        if status.state is not State.SUCCEEDED:
            reason = log.reason()
            raise SparkJobFailed(
                f"driver {watch.driver} of {self.application} {status.state}"
                f"{status.detail and f' ({status.detail})'}{reason and f': {reason}'}",
                hint=f"the full log is in {watch.cluster.where_logs_are(watch.driver)}",
            )

    def get_job_result(self, external_id: str, context: Context) -> str:
        claim, _ = self._watching(context).claims.read()
        if claim is None or not claim.driver:
            return external_id
        # It did not expire while the job was active; from now on it expires like other entries.
        store = context["task_store"].inline()
        store.set(claim_key(self.external_id_key), msgspec.to_builtins(claim))
        return claim.driver

    def cancel_job(self, external_id: str, context: Context) -> None:
        self._watching(context).cancel(external_id)

    def _watching(self, context: Context) -> Watch:
        intent = context["job_intent"]
        if self._watch is None or self._watch.intent != intent:
            cluster = cluster_of(self)
            self._watch = Watch(cluster, context["task_store"], self.external_id_key, intent)
        return self._watch

    def _submission(self, context: Context, cluster: Cluster) -> Submission:
        where = f"task `{self.task_id}`"
        application = located(f"{where}: the application", self.application)
        if application.endswith(".py") == bool(self.main_class):
            raise InvalidDag(
                f"{where}: {self.application} has {'a' if self.main_class else 'no'} main_class",
                hint="give main_class= for a jar, and leave it out for a Python file (.py)",
            )
        paths = {
            name: tuple(
                located(f"{where}: in {name},", path)
                for path in as_text(f"{where}: {name}", getattr(self, name))
            )
            for name in ("files", "py_files", "jars", "archives")
        }
        return Submission(
            name=self.name,
            intent=context["job_intent"],
            application=application,
            main_class=self.main_class,
            args=as_text(f"{where}: args", self.args),
            conf=settings_of(where, self.conf),
            environment=self._ticket(context, cluster).environment(),
            **paths,
        )

    def _ticket(self, context: Context, cluster: Cluster) -> Ticket:
        store, intent = context["task_store"], context["job_intent"]
        endpoint = job_endpoint(store, self._intent_key, intent)
        return Ticket(
            url=endpoint.url,
            token=endpoint.token,
            scope=store.binding.scope,
            key=self.external_id_key,
            intent=intent,
            rules=store.binding.rules,
            retry_window=endpoint.retry_window,
            driver=cluster.driver_id(intent),
        )


def cluster_of(job: SparkJob) -> Cluster:
    """Return the cluster that a job's arguments name; raise InvalidDag if there is none."""
    if job.deploy_mode == "client":
        from holdfast.settings import load
        from holdfast.spark.jobs.clusters.local import LocalSubmit

        return LocalSubmit(job.master, load().home)
    if job.deploy_mode == "cluster" and job.master.startswith("spark:"):
        from holdfast.spark.jobs.clusters.standalone import StandaloneCluster

        return StandaloneCluster(job.master, job.rest_url, job.page_url)
    raise InvalidDag(
        f"task `{job.task_id}`: master {job.master} does not support "
        f"deploy_mode={job.deploy_mode!r}",
        hint='use "cluster" with a spark:// master, or "client", which runs the driver here, with '
        "any master",
    )


def settings_of(where: str, conf: Mapping[str, object]) -> dict[str, str]:
    """Return settings as text that Spark parses; raise InvalidDag for invalid ones."""
    if not isinstance(conf, Mapping):
        raise InvalidDag(
            f"{where}: conf is {conf!r}", hint='give a dict: {"spark.ui.enabled": False}'
        )
    for name, value in conf.items():
        if not str(name).startswith("spark.") or not isinstance(value, str | int | float):
            raise InvalidDag(
                f"{where}: conf has {name!r}: {value!r}",
                hint="names of Spark settings begin with `spark.`; values are text, numbers or "
                "booleans",
            )
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in conf.items()
    }
