"""Cluster descriptions that come with traces: nodes, GPU types and pools as a `Cluster`.

Known tables: openb's and spot-GPU's node lists, Helios' ``cluster_gpu_number.csv`` (GPUs of each
virtual cluster by day: the last day counts, nodes of 8 GPUs, a pool for each virtual cluster),
and the Tiresias simulator's cluster specification.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from volvelle.model.cluster import Cluster, Node, Pool, check_cluster
from volvelle.model.problems import Problem, nearest
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import ABSENT, Row
from volvelle.workload.readers.text import Sample, csv_rows
from volvelle.workload.workload import ImportReport

HELIOS_NODE_GPUS = 8
"""Every node of Helios has 8 GPUs (Hu et al., SC'21, table 1)."""

_MILLI = 1000.0
_MIB_PER_GB = 1024.0


def read_cluster_table(path: Path | str) -> Cluster:
    """The cluster described by a trace's own table. Raises `Problem`."""
    path = Path(path)
    sample = Sample.of(path)
    ledger = Ledger(ImportReport(path.name), strict=True)
    for columns, read in _TABLES.items():
        if sample.header.issuperset(columns):
            rows = csv_rows(path, ledger)
            try:
                cluster = read(rows)
            except Broken as bad:
                raise Problem(f"{path.name}, column {bad.column}: {bad.value!r} ({bad})") from None
            check_cluster(cluster, path.name)
            return cluster
    known = {column for columns in _TABLES for column in columns}
    raise Problem(
        f"{path.name} is no table of a cluster that is known{nearest(sample.names[0], known)}",
        mend="write the cluster as 120x8:v100 or as a TOML file",
    )


def is_cluster_table(sample: Sample) -> bool:
    """Whether the columns are those of a known table of nodes."""
    return any(sample.header.issuperset(columns) for columns in _TABLES)


def _openb(rows: Iterable[Row]) -> Cluster:
    nodes = (
        Node(
            row.text("sn"),
            int(row.gpus("gpu")),
            _kind(row, "model"),
            row.number("cpu_milli", 0.0) / _MILLI,
            row.number("memory_mib", 0.0) / _MIB_PER_GB,
        )
        for row in rows
    )
    return Cluster(tuple(nodes))


def _spot_gpu(rows: Iterable[Row]) -> Cluster:
    nodes = (
        Node(
            row.text("node_name"),
            int(row.gpus("gpu_capacity_num")),
            _kind(row, "gpu_model"),
            row.number("cpu_num", 0.0),
        )
        for row in rows
    )
    return Cluster(tuple(nodes))


def _helios(rows: Iterable[Row]) -> Cluster:
    last = None
    for row in rows:
        last = row
    if last is None:
        return Cluster(())
    pools = tuple(
        Pool(name, last.gpus(name))
        for name in last.header.names
        if name.lower() not in ("date", "total", "") and last.number(name, 0.0) > 0
    )
    count = -(-int(last.gpus("total")) // HELIOS_NODE_GPUS)
    return Cluster(tuple(Node(f"node-{i:03d}", HELIOS_NODE_GPUS) for i in range(count)), pools)


def _tiresias(rows: Iterable[Row]) -> Cluster:
    row = next(iter(rows), None)
    if row is None:
        return Cluster(())
    count = int(row.number("num_switch", most=1e6) * row.number("num_node_p_switch", most=1e6))
    gpus = int(row.gpus("num_gpu_p_node"))
    cpus, memory = row.number("num_cpu_p_node", 0.0), row.number("mem_p_node", 0.0)
    return Cluster(tuple(Node(f"node-{i:03d}", gpus, "", cpus, memory) for i in range(count)))


def _kind(row: Row, column: str) -> str:
    text = row.text(column)
    return "" if text.lower() in ABSENT else text


_TABLES: dict[tuple[str, ...], Callable[[Iterable[Row]], Cluster]] = {
    ("sn", "gpu", "model"): _openb,
    ("node_name", "gpu_capacity_num", "gpu_model"): _spot_gpu,
    ("date", "total"): _helios,
    ("num_switch", "num_node_p_switch", "num_gpu_p_node"): _tiresias,
}
