"""Jobs of Kubernetes as ``kubectl get ... -A -o json`` prints them: Kueue's Workloads, Jobs, or Pods.

A list of one kind, or one object a line. GPUs are what containers request of ``nvidia.com/gpu`` and the like,
times the number of pods, of a Job those that run at once. The pool is the queue, or else the namespace. The
user is that of a label (``user``, ``owner``), or else the namespace of what has a queue. A Workload's flavors
are the GPU types, its fewest pods (``minCount``) the fewest GPUs. The GPU types of a Job or Pod are those
that its node selector or its required affinity names. Times are creation, admission (or start) and the end;
what has not ended is dropped.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import TraceFormat, formats, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import MOST_GPUS, read_number, read_timestamp
from volvelle.workload.readers.text import Sample, text_lines
from volvelle.workload.readers.words import COLUMN_NAMES, joined, words_of

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")

GPU_LABELS = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "accelerator",
)  # fmt: skip
"""Labels of nodes that name their GPUs, the first that a pod selects by counts."""

_LIST = re.compile(r'"items"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,\[]*")
_NEXT = re.compile(r"\n[\s,]*\{")
_LAST = re.compile(r"[\w.+-]*\s*")
"""The rest of a text that ends in a number or a word, or before a value."""
_QUEUE = "kueue.x-k8s.io/queue-name"
_SUFFIX = re.compile(r"([\d.]+)([EPTGMK]i?|[kmu]?)")
_SCALE = {
    "": 1.0, "m": 1e-3, "u": 1e-6, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_BYTES_PER_GB = 2.0**30


@dataclass(frozen=True)
class _Object:
    """An object of the API, the line on which it begins, and its number among all."""

    fields: Mapping[str, Any]
    line: int
    number: int

    @property
    def place(self) -> str:
        """``item 31 (team-a/train)``: its number, and its namespace and name as far as it has them."""
        metadata = self.fields.get("metadata")
        said = metadata if isinstance(metadata, dict) else {}
        name = "/".join(str(said[key]) for key in ("namespace", "name") if said.get(key))
        return f"item {self.number}" + (f" ({name})" if name else "")


@formats.register
class Kubernetes(TraceFormat):
    """One object a job."""

    name = "kubernetes"
    title = "Kubernetes objects as JSON: Kueue's Workloads, Jobs, or Pods (kubectl get -o json)"

    def matches(self, sample: Sample) -> float:
        """Sure of JSON that names its API version and kind."""
        text = "\n".join(sample.lines)
        there = text.lstrip()[:1] in ("{", "[") and '"apiVersion"' in text
        return 0.9 if there and '"kind"' in text else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each object."""
        return each_job(_objects(path, ledger), _job, ledger, _state)


def _objects(path: Path, ledger: Ledger) -> Iterator[_Object]:
    """The objects of a list, or of lines, one after the other; what is none is counted.

    Raises `Problem` for a list that is cut off.
    """
    ledger.file = path.name
    text = "".join(text_lines(path, ledger))
    decoder = json.JSONDecoder()
    listed = _LIST.search(text)
    position = listed.end() if listed else 0
    is_list = listed is not None or text.lstrip().startswith("[")
    line, counted, items = 1, 0, 0
    while True:
        start = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, start), start
        if start == len(text) and is_list:
            raise _cut_off(path, items)
        if start == len(text) or text[start] == "]":
            return
        ledger.row()
        items += 1
        try:
            found, position = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            if is_list and _is_cut_off(text, error):
                raise _cut_off(path, items - 1) from None
            ledger.broken(Broken("no JSON", value=str(error).partition(":")[0]), line)
            following = _NEXT.search(text, start)
            if following is None:
                return
            position = following.start()
            continue
        if isinstance(found, dict):
            yield _Object(found, line, items)
        else:
            ledger.broken(Broken("no object", value=found), line)


def _is_cut_off(text: str, error: json.JSONDecodeError | RecursionError) -> bool:
    """Whether an object could not be read because the text ends in it."""
    if isinstance(error, RecursionError):
        return False
    return error.msg.startswith("Unterminated string") or bool(_LAST.fullmatch(text, error.pos))


def _cut_off(path: Path, items: int) -> Problem:
    return Problem(
        f"{path.name} ends midway, after {items:,} whole item{'' if items == 1 else 's'} of its list",
        mend="write it again, to its end: kubectl get ... -A -o json",
    )


def _job(found: _Object) -> Job:
    fields = found.fields
    kind = str(fields.get("kind"))
    read = {"Workload": _workload, "Job": _batch_job, "Pod": _pod}.get(kind)
    if read is None:
        raise Unfit("no Workload, Job or Pod", "kind", kind, found.place)
    try:
        return read(fields)
    except (Broken, Unfit) as wrong:
        wrong.record = found.place
        raise
    except (TypeError, AttributeError, KeyError, IndexError, ValueError) as error:
        raise Broken(f"unreadable {kind}", "kind", error, found.place) from None


@dataclass(frozen=True)
class _Asked:
    """Resources that pods request together."""

    gpus: float = 0.0
    cpus: float = 0.0
    memory_gb: float = 0.0

    def times(self, count: float) -> "_Asked":
        return _Asked(self.gpus * count, self.cpus * count, self.memory_gb * count)

    def plus(self, other: "_Asked") -> "_Asked":
        return _Asked(
            self.gpus + other.gpus, self.cpus + other.cpus, self.memory_gb + other.memory_gb
        )


def _workload(fields: Mapping[str, Any]) -> Job:
    """Kueue's ``Workload``."""
    spec, status = fields["spec"], fields.get("status") or {}
    asked, least = _Asked(), _Asked()
    elastic = False
    for pods in spec["podSets"]:
        each = _asked(pods["template"]["spec"])
        count, fewest = _count(pods.get("count", 1)), pods.get("minCount")
        asked = asked.plus(each.times(count))
        least = least.plus(each.times(count if fewest is None else _count(fewest)))
        elastic = elastic or fewest is not None
    conditions = _conditions(status)
    admitted = conditions.get("Admitted") or conditions.get("QuotaReserved")
    longest = spec.get("maximumExecutionTimeSeconds")
    return _rigid(
        fields,
        asked,
        admitted,
        conditions.get("Finished"),
        queue=str(spec.get("queueName") or ""),
        gpu_types=_flavors(status),
        min_gpus=least.gpus if elastic and 0.0 < least.gpus < asked.gpus else None,
        estimate_seconds=None if longest is None else read_number(str(longest), "spec"),
    )


def _batch_job(fields: Mapping[str, Any]) -> Job:
    """A ``Job`` of batch/v1."""
    spec, status = fields["spec"], fields.get("status") or {}
    conditions = _conditions(status)
    end = status.get("completionTime") or conditions.get("Failed")
    pod = spec["template"]["spec"]
    at_once, completions = _count(spec.get("parallelism", 1)), spec.get("completions")
    if completions is not None:
        at_once = min(at_once, _count(completions))
    asked = _asked(pod).times(at_once)
    return _rigid(
        fields,
        asked,
        status.get("startTime"),
        end,
        gpu_types=_selected(pod),
    )


def _pod(fields: Mapping[str, Any]) -> Job:
    """A ``Pod``; it ended when the last of its containers did."""
    status = fields.get("status") or {}
    ends = [
        (each.get("state") or {}).get("terminated", {}).get("finishedAt")
        for each in status.get("containerStatuses") or ()
    ]
    over = bool(ends) and all(ends)
    return _rigid(
        fields,
        _asked(fields["spec"]),
        status.get("startTime"),
        max(ends) if over else None,
        gpu_types=_selected(fields["spec"]),
    )


def _state(found: _Object) -> str:
    """How a job that is over ended: ``completed``, ``failed``, or "" where it is not said."""
    status = found.fields.get("status") or {}
    said = {
        str(each.get("reason") if each["type"] == "Finished" else each["type"])
        for each in status.get("conditions") or ()
        if each.get("status") == "True"
    }
    said.add(str(status.get("phase")))
    if said & {"Failed", "JobFailed"}:
        return "failed"
    over = said & {"Complete", "Succeeded", "JobFinished"} or status.get("completionTime")
    return "completed" if over else ""


def _labels(fields: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an object, and those of its pods."""
    template = fields["spec"].get("template") or {}
    pods = (template.get("metadata") or {}).get("labels") or {}
    return {**pods, **(fields["metadata"].get("labels") or {})}


def _user(labels: Mapping[str, str]) -> str:
    """The value of a label that names a user, as ``user`` or ``example.com/owner``; or ""."""
    named = {joined(words_of(label.rpartition("/")[2])): str(labels[label]) for label in labels}
    return next((named[name] for name in COLUMN_NAMES["user"] if name in named), "")


def _rigid(
    fields: Mapping[str, Any], asked: _Asked, start: Any, end: Any, queue: str = "", **more: Any
) -> Job:
    metadata, labels = fields["metadata"], _labels(fields)
    queue = queue or str(labels.get(_QUEUE) or "")
    if not asked.gpus:
        raise Unfit("no GPUs")
    if start is None:
        raise Unfit("never ran")
    if end is None:
        raise Unfit("still running")
    started, ended = read_timestamp(str(start), "start"), read_timestamp(str(end), "end")
    if ended < started:
        raise Broken("ends before it starts", "end", end)
    namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
    spec = JobSpec(
        id=f"{namespace}/{name}" if namespace else name,
        submit_time=read_timestamp(str(metadata["creationTimestamp"]), "creationTimestamp"),
        gpus=asked.gpus,
        cpus=asked.cpus,
        memory_gb=asked.memory_gb,
        user=_user(labels) or (namespace if queue else ""),
        pool=queue or namespace,
        **more,
    )
    return rigid_job(spec, ended - started, started)


def _asked(pod: Mapping[str, Any]) -> _Asked:
    """Resources that the containers of one pod request."""
    total = _Asked()
    for container in pod["containers"]:
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        gpus = sum(_quantity(wanted[name]) for name in GPU_RESOURCES if name in wanted)
        total = total.plus(
            _Asked(
                gpus,
                _quantity(wanted.get("cpu", 0)),
                _quantity(wanted.get("memory", 0)) / _BYTES_PER_GB,
            )
        )
    return total


def _selected(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The GPU types that the pod's node selector or its required node affinity names; none: any will do."""
    wanted = {label: [value] for label, value in (pod.get("nodeSelector") or {}).items()}
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchExpressions") or ():
            if one.get("operator") == "In":
                wanted.setdefault(one["key"], []).extend(one.get("values") or ())
    named = next((wanted[label] for label in GPU_LABELS if label in wanted), ())
    return tuple(dict.fromkeys(map(str, named)))


def _quantity(written: Any) -> float:
    """A quantity of Kubernetes, ``500m``, ``64Gi``. Raises `Broken`."""
    match = _SUFFIX.fullmatch(str(written))
    if match is None:
        raise Broken("unreadable quantity", "resources", written)
    return read_number(match[1], "resources") * _SCALE[match[2]]


def _count(written: Any) -> float:
    return read_number(str(written), "count", most=MOST_GPUS)


def _conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    """When each condition that holds came about."""
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    return {
        each["type"]: each.get("lastTransitionTime")
        for each in conditions
        if each.get("status") == "True"
    }


def _flavors(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The flavors from which GPUs were assigned."""
    assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
    named = (
        flavor
        for pods in assigned
        for resource, flavor in (pods.get("flavors") or {}).items()
        if resource in GPU_RESOURCES
    )
    return tuple(dict.fromkeys(map(str, named)))
