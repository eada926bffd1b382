"""Parts by name, from several places."""

from pathlib import Path

import pytest
from systems_here import here

from volvelle.core.policy import policies
from volvelle.core.registry import forgotten_files
from volvelle.model.problems import Problem

MINE = """from volvelle import policy

@policy.register
class Mine(policy.OrderPolicy):
    name = {name!r}
    def key(self, jobs, now):
        return -jobs.gpus
"""


def _written(folder: Path, name: str) -> Path:
    folder.mkdir()
    path = folder / "mine.py"
    path.write_text(MINE.format(name=name))
    return path


def test_two_classes_called_alike_with_one_name_are_an_error_that_names_both_files(
    tmp_path: Path,
) -> None:
    first, second = _written(tmp_path / "a", "mine"), _written(tmp_path / "b", "mine")
    assert policies.make(str(first)).name == "mine"
    with pytest.raises(Problem) as raised:
        policies.make(str(second))
    assert f"two policies are called 'mine': {first}: Mine and {second}: Mine" in str(raised.value)
    assert policies.make("mine") == policies.make(str(first))


def test_a_part_of_ours_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    for name in here(policies, ["fifo", "pcs"]):  # the latter is imported when it is asked for
        with pytest.raises(Problem, match=f"two policies are called {name!r}: volvelle"):
            policies.make(str(_written(tmp_path / name, name)))


def test_what_was_loaded_from_files_can_be_forgotten(tmp_path: Path) -> None:
    path = _written(tmp_path / "a", "mine")
    with forgotten_files():
        policies.make(str(path))
        assert "mine" in policies.names()
    assert "mine" not in policies.names()
    assert policies.make(str(path)).name == "mine"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def mine(jobs, now): return jobs.gpus", r"defines no policy\. Write @policy\.order"),
        (
            "from volvelle import policy\n@policy.order('mine')\ndef mine(jobs): return jobs.gpus",
            r"line 2, in mine: a key has other arguments\. Define mine\(jobs, now\)",
        ),
        (MINE.format(name="short").replace("jobs, now", "jobs"), r"Define key\(self, jobs, now\)"),
    ],
)
def test_a_file_that_is_no_policy_says_how_to_write_one(
    tmp_path: Path, source: str, said: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(Problem, match=said):
        policies.make(str(path))


def test_names_in_a_row_are_to_be_given_one_by_one() -> None:
    with pytest.raises(Problem, match=r"Name each alone: --policy fifo --policy srsf\."):
        policies.make("fifo,srsf")
