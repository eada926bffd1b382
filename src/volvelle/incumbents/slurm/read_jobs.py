"""Jobs, nodes and reservations of one moment, from ``scontrol -o show``."""

from collections.abc import Iterator, Mapping

from volvelle.incumbents.slurm.site import Node, Reservation
from volvelle.incumbents.slurm.snapshot import Job, Snapshot
from volvelle.incumbents.slurm.text import (
    counted,
    duration,
    hosts,
    memory,
    moment,
    number,
    present,
    records,
    table,
    tasks,
    tres,
    whole,
    words,
)


def read_snapshot(texts: Mapping[str, str], time: float) -> Snapshot:
    """The snapshot that the answers ``job``, ``node``, ``reservation`` of ``scontrol -o show`` make.

    An answer that is not there leaves its part empty; ``remarks`` says so in a sentence.
    """
    remarks = []
    if "job" not in texts:
        remarks.append("There is no answer of scontrol show job: no job is known.")
    cut = "..." in texts.get("job", "") and any(
        "..." in job.get("ArrayTaskId", "") for job in records(texts["job"], "JobId")
    )
    if cut:
        remarks.append(
            "Task numbers of long arrays were cut by Slurm: set SLURM_BITSTR_LEN=0 for scontrol."
        )
    reservations = texts.get("reservation")
    return Snapshot(
        time=time,
        jobs=tuple(read_jobs(texts.get("job", ""))),
        nodes=tuple(read_nodes(texts.get("node", ""))),
        reservations=None if reservations is None else tuple(read_reservations(reservations)),
        remarks=tuple(remarks),
    )


def read_jobs(text: str) -> Iterator[Job]:
    """Jobs, and each task of an array as a job of its own."""
    for line in records(text, "JobId"):
        job = _job(line)
        array, task = whole(line.get("ArrayJobId")), present(line.get("ArrayTaskId"))
        if array is None or not task:
            yield _made(job, {"key": str(job["id"])})
            continue
        throttle = whole(line.get("ArrayTaskThrottle")) or whole(task.partition("%")[2])
        for number_of_task in tasks(task):
            own = {"key": f"{array}_{number_of_task}", "array": array, "task": number_of_task}
            yield _made(job, own | {"throttle": throttle or None})


def _made(job: Mapping[str, object], more: Mapping[str, object]) -> Job:
    return Job(**job, **more)  # type: ignore[arg-type]


def _job(line: Mapping[str, str]) -> dict[str, object]:
    get = line.get
    state = (get("JobState") or "PENDING").split(" ")[0].split(",")[0].upper()
    least, most = _span(get("NumNodes"))
    per_cpu, per_node = memory(get("MinMemoryCPU")), memory(get("MinMemoryNode"))
    reason = present(get("Reason"))
    return {
        "id": whole(get("JobId")) or 0,
        "submit": moment(get("SubmitTime")) or 0.0,
        "name": present(get("JobName")),
        "user": _person(get("UserId")),
        "account": present(get("Account")),
        "qos": present(get("QOS")),
        "partitions": tuple(filter(None, present(get("Partition")).split(","))),
        "priority": number(get("Priority")) if get("Priority") else None,
        "nice": number(get("Nice")),
        "state": state,
        "reason": reason,
        "dependency": present(get("Dependency")),
        "requeue": get("Requeue") != "0",
        "restarts": whole(get("Restarts")) or 0,
        "limit_seconds": duration(get("TimeLimit")),
        "eligible": moment(get("EligibleTime")),
        "accrue": moment(get("AccrueTime")),
        "start": moment(get("StartTime")),
        "end": moment(get("EndTime")),
        "nodes": hosts(get("NodeList")),
        "required_nodes": hosts(get("ReqNodeList")),
        "excluded_nodes": hosts(get("ExcNodeList")),
        "least_nodes": least,
        "most_nodes": most,
        "cpus": number(get("NumCPUs"), 1.0),
        "tasks": whole(get("NumTasks")) or 1,
        "cpus_per_task": number(get("CPUs/Task"), 1.0),
        "tasks_per_node": whole((get("NtasksPerN:B:S:C") or "0").split(":")[0]) or 0,
        "least_cpus_per_node": number(get("MinCPUsNode")),
        "memory_per_cpu": per_cpu or None,
        "memory_per_node": per_node or None,
        "asked": tres(get("ReqTRES") or get("TRES")),
        "held": tres(get("AllocTRES") or (get("TRES") if state == "RUNNING" else None)),
        "per_job": tres(get("TresPerJob")),
        "per_node": tres(get("TresPerNode")),
        "per_task": tres(get("TresPerTask")),
        "features": present(get("Features")),
        "exclusive": get("Exclusive") in ("NODE", "YES") or get("OverSubscribe") == "EXCLUSIVE",
        "licences": counted(get("Licenses")),
        "reservation": present(get("Reservation")),
        "contiguous": get("Contiguous") == "1",
        "admin_comment": present(get("AdminComment")),
    }


def _span(text: str | None) -> tuple[int, int]:
    """Least and most of ``2``, ``1-2``."""
    least, _, most = (text or "1").partition("-")
    low = whole(least) or 1
    return low, whole(most) or low


def _person(text: str | None) -> str:
    """The name in ``u1(7101)``."""
    return present(text).partition("(")[0]


def read_nodes(text: str) -> Iterator[Node]:
    """Nodes of ``scontrol -o show node``."""
    for line in records(text, "NodeName"):
        kept = tres(line.get("CfgTRES"))
        yield Node(
            name=line["NodeName"],
            cpus=number(line.get("CPUEfctv") or line.get("CPUTot"), 1.0),
            memory=number(line.get("RealMemory"), 1.0) - number(line.get("MemSpecLimit")),
            gpus=gpus_of(line.get("Gres"), kept),
            features=words(line.get("ActiveFeatures") or line.get("AvailableFeatures")),
            weight=number(line.get("Weight"), 1.0),
            partitions=tuple(filter(None, present(line.get("Partitions")).split(","))),
            state=frozenset(
                word.rstrip("*~#!%$@^-") for word in line.get("State", "UNKNOWN").upper().split("+")
            )
            | ({"NOT_RESPONDING"} if "*" in line.get("State", "") else set()),
            held=tres(line.get("AllocTRES")),
        )


def gpus_of(text: str | None, configured: Mapping[str, float] | None = None) -> dict[str, int]:
    """GPUs by type of ``gpu:a100:4(S:0-1)``; of ``CfgTRES`` where there is no such entry."""
    found: dict[str, int] = {}
    for name, amount in tres(text).items():
        kind = name.removeprefix("gres/").split(":")
        if kind[0] == "gpu":
            found[":".join(kind[1:])] = int(amount)
    if not found and configured:
        typed = {name[9:]: int(n) for name, n in configured.items() if name.startswith("gres/gpu:")}
        untyped = int(configured.get("gres/gpu", 0))
        found = typed or ({"": untyped} if untyped else {})
    return found


def past_reservations(text: str) -> Iterator[Reservation]:
    """Reservations of ``sacctmgr -P show reservation``, a row for each time and set of nodes that one had."""
    for row in table(text):
        start, end = moment(row.get("TimeStart")), moment(row.get("TimeEnd"))
        if row.get("Name") and start is not None and end is not None:
            yield Reservation(row["Name"], start, end, hosts(row.get("NodeName")))


def read_reservations(text: str) -> Iterator[Reservation]:
    """Reservations of ``scontrol -o show reservation``; those without times are left out."""
    for line in records(text, "ReservationName"):
        start, end = moment(line.get("StartTime")), moment(line.get("EndTime"))
        if start is None or end is None:
            continue
        yield Reservation(
            name=line["ReservationName"],
            start=start,
            end=end,
            nodes=hosts(line.get("Nodes")),
            flags=frozenset(word.upper() for word in words(line.get("Flags"))),
            users=words(line.get("Users")),
            accounts=words(line.get("Accounts")),
            qos=words(line.get("QOS")),
            partition=present(line.get("PartitionName")),
            licences=counted(line.get("Licenses")),
            tres=tres(line.get("TRES")),
            features=present(line.get("Features")),
        )
