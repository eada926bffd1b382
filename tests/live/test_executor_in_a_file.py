"""Mistakes in an executor that is a single file: a sentence each."""

from pathlib import Path

import pytest

from volvelle.core.registry import forgotten_files
from volvelle.live.nodes.executor import ExecutorContext, executors, open_executor
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem

OWN = """
from typing import ClassVar
from volvelle.live.nodes.executor import Executor, executors

class Nodes:
    logs = None
    def send(self, order): ...
    def close(self): ...

@executors.register
class Own(Executor):
    name: ClassVar[str] = "own"

    def open(self, context, report):
        return Nodes()
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def open(", "def opens(", r"lacks open\. Define open\(self, context, report\)"),
        ("def open(self, context,", "def open(self,", r"line 14 has open\(self, report\)"),
        ("def send", "def sends", r"line 5 gave Nodes, which lacks send\. Define send\(self, o"),
        ("logs =", "log =", r"gave Nodes, which lacks logs\. Define logs\(self\)"),
        ("Nodes()", "none", r"line 15, in open: NameError.*"),
        ("return Nodes()", "pass", r"gave NoneType, which lacks logs"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    own = tmp_path / "own.py"
    assert old in OWN
    own.write_text(OWN.replace(old, new))
    context = ExecutorContext(parse_cluster("1x1"), tmp_path, "token")
    with forgotten_files(), pytest.raises(Problem, match=said):
        open_executor(executors.make(str(own)), context, lambda report: None)
