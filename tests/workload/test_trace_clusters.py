"""Clusters that come with traces."""

from pathlib import Path

import pytest
from trace_samples import SAMPLES

from volvelle.model.cluster import Pool
from volvelle.model.problems import Problem
from volvelle.workload.readers.clusters import read_cluster_table


def test_openb_nodes() -> None:
    cluster = read_cluster_table(SAMPLES / "openb" / "openb_node_list_gpu_node.csv")
    assert str(cluster) == "1x2:P100,1x8:V100M32"
    assert cluster.nodes[0].cpus == 64
    assert cluster.nodes[0].memory_gb == 256


def test_spot_gpu_nodes() -> None:
    assert str(read_cluster_table(SAMPLES / "spot" / "node_info_df.csv")) == "1x4:A10,1x8:A100"


def test_helios_virtual_clusters_are_pools_as_of_the_last_day() -> None:
    cluster = read_cluster_table(SAMPLES / "cluster_gpu_number.csv")
    assert str(cluster) == "3x8"
    assert cluster.pools == (Pool("vcA", 16), Pool("vcB", 8))


def test_tiresias_switches_and_nodes() -> None:
    assert str(read_cluster_table(SAMPLES / "tiresias_cluster.csv")) == "6x4"


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "sn,gpu,model\nx,many,T4\n", "sn,gpu,model\n"])
def test_other_tables_are_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes.csv").write_text(text)
    with pytest.raises(Problem, match=r"nodes\.csv"):
        read_cluster_table(tmp_path / "nodes.csv")


def test_the_public_openb_and_tiresias_tables(shared: Path) -> None:
    openb = read_cluster_table(shared / "data/openb/openb_node_list_gpu_node.csv")
    assert (len(openb.nodes), openb.gpus) == (1213, 6212)
    assert str(read_cluster_table(shared / "data/tiresias/n32g4.csv")) == "32x4"
