"""An experiment: one workload, one cluster, and the compositions to be tried on them.

This is what ``volvelle compare`` reads from ``--config exp.toml`` and from its options. Every list
multiplies: two policies under two placements with three seeds are twelve runs, and nine times as
many at the nine rates that ``jobs_per_hour = "1:9"`` stands for.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from volvelle.core.composition import WrittenComposition
from volvelle.core.fronts import resolved, seen_from
from volvelle.metrics.outcomes import RECORDED
from volvelle.model.cluster import Cluster, cluster_from, parse_cluster
from volvelle.model.power import Power, read_power
from volvelle.model.problems import Problem, nearest, together
from volvelle.model.toml import read_toml
from volvelle.model.validation import describe_validation
from volvelle.simulate.experiment_file import SINGULAR, ExperimentFile
from volvelle.simulate.past import read_past
from volvelle.simulate.recorded import fits_record, recorded_jobs
from volvelle.simulate.run import Setting, check_setting
from volvelle.simulate.sources import Read, Source, generated, read_source, resubmitted
from volvelle.simulate.synthesis import SYNTHESIZER, Synthesis
from volvelle.workload.habits import Habits
from volvelle.workload.proposing import proposed_cluster, seen_types
from volvelle.workload.readers.mapping import parse_map
from volvelle.workload.workload import Workload

_FEW = 0.1
"""The share of a trace's jobs whose GPU types a cluster with types may lack: they are told as rejected."""
_WORKLOADS = ("trace", "from_journal", "generate")
PLACED_ANYWAY = "consolidated"
"""The placement where one is needed and none is chosen."""
_PARTS = ("policies", "placements", "admissions", "estimators", "terminations")


class Experiment(ExperimentFile):
    """The content of an experiment file, with the options of a command in place of its own."""

    @classmethod
    def of(cls, config: Path | None, given: Mapping[str, Any]) -> "Experiment":
        """The experiment in ``config``, with what is ``given`` (not None) in place of its own.

        Paths in a file are relative to it. Raises `Problem` naming the file or the option.
        """
        document = _read(config) if config else {}
        if config:
            _validated(document, f"{config}: ")
        options = {key: value for key, value in given.items() if value is not None}
        for one in _WORKLOADS:
            if one in options:
                for other in _WORKLOADS:
                    document.pop(other, None)
        document |= options
        if (journal := document.get("from_journal")) is not None:
            document = read_past(Path(journal)).defaults | document
        return _validated(document, "")

    def read_cluster(self) -> Cluster:
        """The cluster. Raises `Problem`."""
        if self.cluster is None and self.from_journal is not None:
            return read_past(self.from_journal).cluster
        if self.cluster is None:
            raise self._without_cluster()
        if isinstance(self.cluster, dict):
            return cluster_from(self.cluster, "cluster")
        path = Path(self.cluster)
        if path.is_file() and path.suffix != ".toml":
            from volvelle.workload.readers.clusters import (  # noqa: PLC0415 - rarely used
                read_cluster_table,
            )

            return read_cluster_table(path)
        return parse_cluster(self.cluster)

    def checked_cluster(self) -> Cluster:
        """The cluster. Raises `Problem` with all that is wrong with it and with the names of parts."""
        wrong: list[Problem] = []
        for part, several in SINGULAR.items():
            for written in getattr(self, several) if several in _PARTS else ():
                try:
                    WrittenComposition(**{part: resolved(written)}).build()
                except Problem as problem:
                    wrong.append(problem)
        try:
            cluster = self.read_cluster()
        except Problem as problem:
            wrong.insert(0, problem)
        if wrong:
            raise together(wrong)
        return cluster

    def _without_cluster(self) -> Problem:
        """A cluster is missing, one like the trace's own is proposed; and a map where the trace needs one."""
        if self.trace is None and self.generate is None:
            return Problem(
                "no workload and no cluster are given",
                mend="name a trace's file and its cluster, as in jobs.csv --cluster 8x8, or try jobs that "
                "are made up: --generate demo --cluster 8x8",
                options="--generate demo --cluster 8x8",
                usage=True,
            )
        line, unread = "", None
        if self.trace is not None:
            try:
                line = proposed_cluster(seen_types(self._read().workload))
            except Problem as problem:
                unread = problem
                with suppress(Problem):  # where its options do not do either
                    line = proposed_cluster(seen_types(self._read(problem.options).workload))
        if unread is not None:
            if self.trace is not None and self.trace.suffix.lower() == ".toml":
                return unread  # which names the cluster itself, if it is an experiment
            like = f"A cluster like the trace's own: {line}" if line else ""
            return Problem(
                f"{unread.args[0]}; and no cluster is given",
                mend=f"{unread.mend}. {like or 'Say --cluster NODESxGPUS too'}".lstrip(". "),
                options=f"{unread.options} {line}" if line else "",
                usage=True,
            )
        mend = f"say {line}, a cluster like the trace's own" if line else "say --cluster 8x8"
        return Problem("no cluster is given", mend=mend, options=line, usage=True)

    def _read(self, options: str = "", read: Read | None = None) -> Source:
        """The trace's jobs, with a map and dates as ``options`` of a command say them. Raises `Problem`."""
        words = shlex.split(options)
        said = dict(zip(words[::2], words[1::2], strict=True))
        columns = parse_map([said["--map"]]) if "--map" in said else self.map
        dates = said.get("--dates", self.dates)
        assert self.trace is not None
        return read_source(
            self.trace, self.format, columns, dates=dates, strict=self.strict, read=read
        )

    def sources(self, cluster: Cluster, read: Read | None = None) -> "dict[WorkloadKey, Source]":
        """The workload of every seed and rate, and where it comes from. Raises `Problem`.

        A trace is read once: under all seeds it is the same, unless its jobs are submitted anew at a
        rate. ``read`` is called now and then with the rows read.
        """
        if (self.trace is None) == (self.generate is None):
            raise Problem(
                "no workload is given" if self.trace is None else "two workloads are given",
                mend="name a trace's file, or a generator with --generate",
                usage=True,
            )
        if self.trace is None:
            return {
                key: generated(str(self.generate), key.seed, cluster.gpus, key.rate)
                for key in self._keys()
            }
        try:
            jobs = self._read(read=read)
        except Problem as problem:
            raise self._with_types(problem, cluster) from None
        return self.sources_of(jobs, cluster)

    def _with_types(self, unread: Problem, cluster: Cluster) -> Problem:
        """``unread``, and where the trace is read as it suggests, whether types of GPUs go together."""
        if not unread.options or self.ignore_types:
            return unread
        try:
            jobs = self._read(unread.options).workload
        except Problem:
            return unread
        try:
            _check_types(jobs, cluster)
        except Problem as untyped:
            return together([unread, untyped])
        return unread

    def sources_of(self, jobs: Source, cluster: Cluster) -> "dict[WorkloadKey, Source]":
        """``jobs``, that were read or made already, under every seed and rate. Raises `Problem`."""
        if self.ignore_types:
            origin = jobs.origin | {"ignore_types": True}
            jobs = Source(jobs.workload.of_any_type(), origin)
        elif "generator" not in jobs.origin:
            _check_types(jobs.workload, cluster)
        return {
            key: jobs if key.rate is None else resubmitted(jobs, key.rate, key.seed)
            for key in self._keys()
        }

    def _keys(self) -> "list[WorkloadKey]":
        return [WorkloadKey(s, r) for s in dict.fromkeys(self.seeds) for r in self._rates()]

    def _rates(self) -> tuple[float | None, ...]:
        return self.jobs_per_hour or (None,)

    def runs(self, cluster: Cluster) -> "list[PlannedRun]":
        """Every run of the experiment, named by what sets it apart."""
        parts = {kind: tuple(dict.fromkeys(getattr(self, kind))) for kind in _PARTS}
        if self.places_anyway(cluster):
            parts["placements"] = (PLACED_ANYWAY,)
        if self.reference is not None:
            parts["policies"] = tuple(dict.fromkeys([self.reference, *parts["policies"]]))
        runs = self._runs_of(cluster, parts, None)
        if self.synthesize:
            synthesis = Synthesis(
                policies=tuple(map(resolved, parts["policies"])),
                admissions=parts["admissions"],
                objectives=self.synthesize,
                every=self.synthesize_every,
            )
            first = {kind: parts[kind][:1] for kind in ("policies", "admissions")}
            runs += self._runs_of(cluster, parts | first, synthesis)
        return list({run.name: run for run in runs}.values())

    def places_anyway(self, cluster: Cluster) -> bool:
        """Whether jobs are placed though no placement is chosen: on nodes that change none are counted."""
        return cluster.nodes_change and "placements" not in self.model_fields_set

    def only_run(
        self, cluster: Cluster, said: str = "simulate makes one run", mend: str = ""
    ) -> "PlannedRun":
        """The one run of the experiment. Raises `Problem`, beginning with ``said``, where there are more."""
        runs = self.runs(cluster)
        if self.synthesize:
            runs = [run for run in runs if run.setting.synthesis is not None]
        if len(runs) > 1:
            raise Problem(
                f"{said}, these are {len(runs)}", mend=mend or "use volvelle compare", usage=True
            )
        return runs[0]

    def recorded_run(
        self, runs: "Sequence[PlannedRun]", sources: "Mapping[WorkloadKey, Source]"
    ) -> "PlannedRun | None":
        """The trace's own record of its jobs, as a run beside ``runs``.

        None where it does not say of each, where jobs come or end otherwise than in the trace, or where they
        held more GPUs there than the cluster has.
        """
        first = runs[0]
        workload = sources[first.workload].workload
        altered = self.jobs_per_hour or self.users or self.until is not None or self.track
        if altered or recorded_jobs(workload) < len(workload):
            return None
        if not fits_record(workload, first.setting.cluster):
            return None
        written = msgspec.structs.replace(first.setting.composition, policy=RECORDED)
        return PlannedRun(RECORDED, replace(first.setting, composition=written, synthesis=None))

    def _runs_of(
        self, cluster: Cluster, parts: Mapping[str, tuple[str, ...]], synthesis: Synthesis | None
    ) -> "list[PlannedRun]":
        seeds = tuple(dict.fromkeys(self.seeds))
        users = None if self.users is None else Habits.read(self.users)
        power = self._power(cluster)
        runs = []
        for rate, chosen, seed in product(self._rates(), product(*parts.values()), seeds):
            composition = WrittenComposition(*map(resolved, chosen))
            labels = composition.build().written
            told = [
                label if resolved(written) == written else written
                for kind, written, label in zip(
                    _PARTS, chosen, msgspec.structs.astuple(labels), strict=True
                )
                if len(parts[kind]) > 1 or (kind == "policies" and synthesis is None)
            ]
            name = " + ".join(told if synthesis is None else [SYNTHESIZER, *told])
            name += f", {rate:g} jobs/h" if rate is not None else ""
            name += f", seed {seed}" if len(seeds) > 1 else ""
            setting = Setting(
                cluster=cluster,
                composition=composition,
                overheads=self.overheads,
                seed=seed,
                tick=self.tick,
                until=self.until,
                tracked=self.track,
                predict=self.predict or self.refresh,
                refresh=self.refresh,
                synthesis=synthesis,
                users=users,
                power=power,
            )
            check_setting(setting)
            runs.append(PlannedRun(name, setting, rate))
        return runs

    def _power(self, cluster: Cluster) -> Power | None:
        """Of the cluster's GPUs. Raises `Problem`."""
        if self.power is not None:
            return read_power(self.power, self.carbon, cluster.gpu_types)
        if self.carbon is not None:
            raise Problem(
                "--carbon is of energy, and power is not given",
                mend="say --power busy=400W,idle=60W too",
                usage=True,
            )
        return None


def _check_types(workload: Workload, cluster: Cluster) -> None:
    """Raise `Problem` where jobs name GPU types that the cluster lacks, where it has types many of them."""
    have = frozenset(filter(None, cluster.gpu_types))
    wanted = [spec.gpu_types for spec in workload.specs if have.isdisjoint(spec.gpu_types)]
    lacking = sorted({kind for types in wanted for kind in types})
    lost = sum(map(bool, wanted))
    if lost <= (_FEW * len(workload) if have else 0):
        return
    line = proposed_cluster(seen_types(workload), cluster)
    shown = ", ".join(lacking[:6]) + (" ..." if len(lacking) > 6 else "")
    near = next(filter(None, (nearest(kind, lacking) for kind in sorted(have))), "")
    theirs = f"are {', '.join(sorted(have))}{near}" if have else "have no type"
    raise Problem(
        f"{lost:,} of {len(workload):,} jobs name GPU types ({shown}), and the cluster's GPUs {theirs}: "
        "none of these could run",
        mend=f"say {line}, or --ignore-types" if line else "say --ignore-types",
        options="--ignore-types",
        usage=True,
    )


class WorkloadKey(NamedTuple):
    """The key of a run's workload: the seed, and jobs an hour where a rate was asked for."""

    seed: int
    rate: float | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be made: its name in tables, and what decides how it goes."""

    name: str
    setting: Setting
    rate: float | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether it is no simulation, but what the trace says."""
        return self.setting.composition.policy == RECORDED

    @property
    def workload(self) -> WorkloadKey:
        """Which workload it runs."""
        return WorkloadKey(self.setting.seed, self.rate)


def _validated(document: dict[str, Any], place: str) -> Experiment:
    try:
        return Experiment.model_validate(document)
    except ValidationError as error:
        described = describe_validation(error, Experiment)
        if not place:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            option = next((one for one, many in SINGULAR.items() if many == key), key)
            plain = re.sub(rf"key '{key}(\[\d+\])?' is ", "", described)
            plain = plain.replace(f"'{key}.", "'")
            described = f"--{option}: {plain}"
        raise Problem(f"{place}{described}", usage=True) from None


def _read(path: Path) -> dict[str, Any]:
    renamed = {SINGULAR.get(key, key): value for key, value in read_toml(path).items()}
    return {key: _beside(path, key, value) for key, value in renamed.items()}


def _beside(config: Path, key: str, value: Any) -> Any:
    """Paths as seen from where we are, not from the file they stand in."""
    if isinstance(value, list):
        return [_beside(config, key, one) for one in value]
    if not isinstance(value, str):
        return value
    if key in (*_PARTS, "metrics"):
        return seen_from(config.parent, value)
    is_file = key in ("trace", "from_journal", "users", "out") or (
        key == "cluster" and Path(value).suffix in _FILES
    )
    return str(config.parent / value) if is_file else value


_FILES = (".toml", ".csv", ".parquet", ".gz")
