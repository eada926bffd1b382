"""The configuration of ``volvelle serve``, from ``--config cluster.toml`` and from its options.

The cluster is written as in a cluster file (``[[nodes]]``, ``[[pools]]``) or as ``cluster = "2x4"``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field, ValidationError, model_validator

from volvelle.core.composition import WrittenComposition
from volvelle.core.fronts import seen_from
from volvelle.core.written import Written
from volvelle.live.nodes.executor import Executor, executors
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.plain_connections import stays_on_machine
from volvelle.live.serve_folder import DEFAULT_FOLDER
from volvelle.live.strict_model import StrictModel
from volvelle.model.cluster import Cluster, check_cluster, cluster_from, parse_cluster
from volvelle.model.cluster_file import PoolEntry, ProfilingEntry
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.toml import line_of, read_toml
from volvelle.model.validation import UNKNOWN, Seconds, describe_error, known_keys, telling


class Listen(StrictModel):
    """Where the server listens, and its TLS certificate."""

    address: str = Field("127.0.0.1", description="0.0.0.0 for all networks of the machine")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8421, description="0: any that is free")
    certificate: Path | None = Field(None, description="TLS certificate (PEM)")
    key: Path | None = Field(None, description="its private key (PEM)")
    insecure: bool = Field(
        False, description="listen on a network without TLS: tokens and jobs can be read on the way"
    )

    @model_validator(mode="after")
    def _check_pair(self) -> "Listen":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("listen: certificate and key belong together: give both or none")
        plain = self.certificate is None and not self.insecure
        if plain and not stays_on_machine(self.address):
            raise ValueError(
                f"listen: whoever is on the way to {self.address} could read tokens, as there is no TLS: "
                "give certificate and key, or say insecure = true"
            )
        return self


class Limits(StrictModel):
    """Limits on a single request, and on all users together."""

    body_bytes: Annotated[int, Field(ge=1024)] = Field(1 << 20, description="of one request")
    request: Annotated[Seconds, Field(gt=0)] = Field(
        10.0, description="for a request's headers, and again for its body, to arrive"
    )
    forecast: Annotated[Seconds, Field(gt=0)] = Field(
        30.0, description="for a forecast, or what would start a job sooner, to be worked out"
    )
    replay: Annotated[Seconds, Field(gt=0)] = Field(
        60.0, description="for a span of the past to be had again under another policy"
    )
    connections: Annotated[int, Field(ge=1)] = Field(1000, description="open at once")
    connections_of_a_client: Annotated[int, Field(ge=1)] = Field(
        250, description="open at once from one address"
    )
    streams_of_a_user: Annotated[int, Field(ge=1)] = Field(
        50, description="of events and of logs that one user follows at once"
    )
    jobs: Annotated[int, Field(ge=1)] = Field(100_000, description="active jobs of all users")
    jobs_of_a_user: Annotated[int, Field(ge=1)] = Field(
        50_000, description="active jobs of one user"
    )
    priority: Annotated[int, Field(ge=-1000, le=1000)] = Field(
        0, description="highest priority that a user may give a job; an operator may give any"
    )


class ServeConfig(StrictModel):
    """A server: the cluster, the scheduler, what runs the jobs, and where it listens."""

    cluster: str | None = Field(None, description="2x8:a100, or a cluster file")
    nodes: list[dict[str, Any]] = Field([], description="the nodes, as in a cluster file")
    pools: list[PoolEntry] = Field(
        [], description="the pools, as in a cluster file, and instead of those of one"
    )
    profiling: ProfilingEntry | None = Field(
        None, description="nodes on which jobs run first, as in a cluster file"
    )
    policy: Written = Field("fifo", description="who gets how many GPUs")
    placement: Written = Field("consolidated", description="which GPUs")
    admission: Written = Field("accept-all", description="which jobs are admitted")
    estimator: Written = Field("measured", description="how the run times of jobs are estimated")
    termination: Written = Field("completion", description="when a job ends")
    overheads: Overheads = Field(
        Overheads(), description="what starts and stops are expected to cost"
    )
    executor: Written = Field("local", description="what runs the jobs")
    run_as: dict[str, str] = Field(
        {},
        description="users of the system as whom jobs of these users run, * for all others; needs root, and "
        "executor local",
    )
    store: str = Field("", description="URL of the store; default: SQLite in the folder")
    keep_history: Annotated[Seconds, Field(ge=3600)] | None = Field(
        None,
        description="how long jobs that are over stay in the store, with what the journal says of them; "
        "default: for ever",
    )
    folder: Path = Field(
        DEFAULT_FOLDER, description="what is kept: the store, jobs' logs, the first token"
    )
    secrets_key: Path | None = Field(
        None, description="key of jobs' secrets; default: secrets.key in the folder"
    )
    fronts: Path | None = Field(
        None,
        description="fronts of volvelle tune, of which operators choose points in the "
        "dashboard; default: fronts in the folder",
    )
    seed: int = Field(0, description="of all that is random in the scheduler")
    listen: Listen = Field(Listen(), description="where the server listens")
    limits: Limits = Field(Limits(), description="limits on requests")
    notifications: NotificationSettings = Field(
        NotificationSettings(), description="webhooks and mail: to whom, of what"
    )

    @model_validator(mode="after")
    def _check_cluster(self) -> "ServeConfig":
        if self.cluster is not None and self.nodes:
            raise ValueError("cluster and [[nodes]] describe one each: leave one of them out")
        return self

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> "ServeConfig":
        """The configuration in ``file``, overridden by the ``options`` that are not None.

        A dot in an option leads into a table. Paths in the file are relative to it. Raises `Problem` that
        names the file or the option.
        """
        document = _read(file) if file else {}
        if file:
            _validate(document, file)
        for key, value in options.items():
            table, _, inner = key.rpartition(".")
            if value is not None:
                (document.setdefault(table, {}) if table else document)[inner] = value
        if options.get("cluster") is not None:
            document.pop("nodes", None)
        return _validate(document, None)

    def read_cluster(self) -> Cluster:
        """The cluster. Raises `Problem`."""
        cluster = self._read_nodes()
        if self.pools:
            pools = tuple(pool.read() for pool in self.pools)
            cluster = msgspec.structs.replace(cluster, pools=pools)
        if self.profiling is not None:
            cluster = msgspec.structs.replace(cluster, profiling=self.profiling.read())
        check_cluster(cluster, "serve")
        return cluster

    def _read_nodes(self) -> Cluster:
        if self.nodes:
            return cluster_from({"nodes": self.nodes}, "serve")
        if self.cluster is None:
            if (discovered := self.make_executor().discover_cluster()) is not None:
                return discovered
            raise Problem(
                "no cluster is given",
                mend="say --gpus 8, --cluster 2x4, or put [[nodes]] into the --config file",
                usage=True,
            )
        return parse_cluster(self.cluster)

    @property
    def composition(self) -> WrittenComposition:
        """The scheduler, as written."""
        return WrittenComposition(
            self.policy, self.placement, self.admission, self.estimator, self.termination
        )

    def make_executor(self) -> Executor:
        """The executor. Raises `Problem`."""
        return executors.make(self.executor)

    @property
    def jobs_folder(self) -> Path:
        """The executor's folder, with one subfolder for each journal."""
        return self.folder.absolute() / "jobs"

    @property
    def secrets_file(self) -> Path:
        """The file of the key with which secrets are encrypted."""
        return self.secrets_key or self.folder / "secrets.key"

    @property
    def fronts_folder(self) -> Path:
        """The folder of the fronts of searches."""
        return self.fronts or self.folder / "fronts"

    @property
    def store_url(self) -> str:
        """The store's URL."""
        return self.store or f"sqlite:///{self.folder / 'store.db'}"


def _validate(document: Mapping[str, Any], file: Path | None) -> ServeConfig:
    try:
        return ServeConfig.model_validate(document)
    except ValidationError as error:
        first = telling(error.errors(include_url=False))
        described = describe_error(first, known_keys(ServeConfig))
        line = line_of(file, str(first["loc"][-1])) if file and first["loc"] else ""
        place = f"{file}{line}: " if file else ""
        unlike = first["type"] in UNKNOWN and len(first["loc"]) == 1 and "(" not in described
        keys = f"keys are {', '.join(ServeConfig.model_fields)}" if unlike else ""
        raise Problem(f"{place}{described}", mend=keys, usage=True) from None


def _read(file: Path) -> dict[str, Any]:
    """The document in ``file``, its paths relative to the current folder."""
    document = read_toml(file)
    return {key: _resolve(file.parent, key, value) for key, value in document.items()}


def _resolve(folder: Path, key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {inner: _resolve(folder, inner, each) for inner, each in value.items()}
    if isinstance(value, list):
        return [_resolve(folder, "", each) for each in value]
    if not isinstance(value, str):
        return value
    if key in _PARTS:
        return seen_from(folder, value)
    is_path = key in _PATHS or (key == "cluster" and value.endswith(".toml"))
    return str(folder / value) if is_path else value


_PARTS = (*WrittenComposition.__struct_fields__, "executor")
_PATHS = ("folder", "fronts", "secrets_key", "certificate", "key", "key_file", "password_file")
