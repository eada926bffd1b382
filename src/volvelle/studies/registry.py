"""The registry of studies: ``experiments/PAPER/paper.toml`` for each paper."""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from volvelle.model.problems import Problem, nearest
from volvelle.model.toml import read_toml
from volvelle.studies.curves import Curve

EXPERIMENTS = "experiments"
REGISTRY = "paper.toml"
SECONDS = "seconds.csv"


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(_Entry):
    """A part of the paper that is built here. where: a package of the repository, which has a README.md."""

    what: str
    where: str


class Untested(_Entry):
    """A claim that no run of this project can decide, and the fact that keeps it from doing so."""

    where: str
    paper: str
    reason: str


class Study(_Entry):
    """A program that makes a page and a table, and where the paper has what it tests.

    name: of the page, ``FOLDER/NAME``. where: section and figure. program: below ``experiments``, "" for the
    name. arguments: always given. small: arguments of the small size, None where there is none. traces: files
    of the inputs that it is given, in the small size the first. needs: artifacts by name, or paths below the
    inputs. measured: columns of the table that hold times of the machine. keeps: whether its program has
    ``--keep FOLDER``, from which an interrupted run goes on. why: by the beginning of a claim,
    the reason why it does not hold; words, which may link to other pages of the folder.
    """

    name: str
    where: str
    program: str = ""
    arguments: str = ""
    small: str | None = None
    traces: str = ""
    needs: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    keeps: bool = False
    why: dict[str, str] = {}
    curves: tuple[Curve, ...] = ()

    @property
    def folder(self) -> str:
        """The folder of the study."""
        return self.name.partition("/")[0]

    @property
    def stem(self) -> str:
        """The name of its page, table and pictures."""
        return self.name.partition("/")[2]

    @property
    def run_by(self) -> str:
        """The program below ``experiments``."""
        return self.program or f"{self.name}.py"

    @property
    def numbers(self) -> set[str]:
        """The numbers of the figures and tables that the study is about."""
        _, _, named = re.sub("tables?", "figure", self.where).partition("figure")
        ranges = re.findall(r"(\d+) to (\d+)", named)
        between = {str(n) for first, last in ranges for n in range(int(first), int(last) + 1)}
        return between | set(re.findall(r"\b\d+[a-z]?\b", named))


class Paper(_Entry):
    """A paper. name: its folder. idea: paragraphs. reference: who, where, when."""

    name: str
    title: str
    reference: str
    idea: str
    built: tuple[Part, ...]
    studies: tuple[Study, ...]
    untested: tuple[Untested, ...] = ()


class Registry:
    """The papers of a repository, in alphabetical order.

    root: the folder that has ``experiments``. seconds: CPU seconds of studies in their whole size, when their
    results were last replaced.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.experiments = root / EXPERIMENTS
        self.papers = tuple(_paper(path) for path in sorted(self.experiments.glob(f"*/{REGISTRY}")))
        self.seconds = self._seconds()

    @classmethod
    def find(cls, given: Path | None = None) -> "Registry":
        """The registry in ``given``, or else around the working directory or the installed sources.

        Raises `Problem`.
        """
        here = Path.cwd()
        places = [given] if given else [here, *here.parents, Path(__file__).parents[3]]
        for place in places:
            if any(place.glob(f"{EXPERIMENTS}/*/{REGISTRY}")):
                return cls(place.resolve())
        raise Problem(
            f"there are no studies in {given or here}: they are no part of the installed package",
            mend="give the command in a clone of the repository or in an unpacked source distribution "
            "(pip download --no-binary volvelle --no-deps volvelle), or name it with --studies FOLDER",
            usage=True,
        )

    def page(self, study: Study) -> Path:
        """The committed page of a study."""
        return self.experiments / study.folder / "results" / f"{study.stem}.md"

    def table(self, study: Study, *, small: bool = False) -> Path:
        """The committed table of a study, of its whole or its small size."""
        results = self.experiments / study.folder / "results"
        return (results / "small" if small else results) / f"{study.stem}.csv"

    def took(self, study: Study, seconds: float) -> None:
        """Keep how long the whole size of a study took."""
        self.seconds = dict(sorted({**self._seconds(), study.name: round(seconds, 1)}.items()))
        with (self.experiments / SECONDS).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(self.seconds.items())

    def _seconds(self) -> dict[str, float]:
        with (self.experiments / SECONDS).open(encoding="utf-8", newline="") as file:
            return {name: float(seconds) for name, seconds in csv.reader(file)}

    def paper(self, name: str) -> Paper:
        """The paper of that folder, or with that word in its title. Raises `Problem`."""
        found = [
            one for one in self.papers if name == one.name or name.lower() in one.title.lower()
        ]
        if not found:
            known = [one.name for one in self.papers]
            raise Problem(
                f"no paper is known as {name!r}{nearest(name, known)}",
                mend=f"known are {', '.join(known)}",
                usage=True,
            )
        return found[0]

    def chosen(self, paper: str | None, figure: str | None, study: str | None) -> list[Study]:
        """The studies of a paper, figure or table, and name; None for any. Raises `Problem`."""
        papers = [self.paper(paper)] if paper else self.papers
        found = [
            one
            for each in papers
            for one in each.studies
            if (not figure or figure in one.numbers) and study in (None, one.name, one.stem)
        ]
        if not found:
            named = [one.name for each in papers for one in each.studies]
            near = nearest(study, named) if study else ""
            raise Problem(
                f"no study is of that paper, figure and name{near}",
                mend="see: volvelle reproduce --list",
                usage=True,
            )
        return found


def sections(
    studies: Sequence[Study], papers: Sequence[Paper]
) -> Iterator[tuple[Paper, list[Study]]]:
    """The papers of which studies are given, each with these."""
    for paper in papers:
        if mine := [study for study in studies if study in paper.studies]:
            yield paper, mine


def _paper(path: Path) -> Paper:
    try:
        return Paper.model_validate({"name": path.parent.name, **read_toml(path)})
    except ValidationError as error:
        raise Problem(f"{path} is no registry of studies: {error}") from None
