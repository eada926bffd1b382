"""Pareto fronts of ``volvelle tune`` in a folder of the server.

``NAME.json`` as uploaded; ``front.json`` and ``NAME/front.json`` as searches write them.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from volvelle.model.problems import Problem

_MAX_FRONTS = 100
_MAX_BYTES = 64 << 20

_Text = Annotated[str, Field(max_length=10_000)]


class FrontObjective(BaseModel):
    """An objective of the search, as in jct:mean, and its unit."""

    name: _Text
    unit: _Text = ""


class FrontFigure(BaseModel):
    """Of an objective: the mean over the samples of the search; null where it is not known."""

    mean: float | None = None


class FrontPoint(BaseModel):
    """A point: the policy as it is written, names and words for people, figures by objective."""

    written: _Text
    names: tuple[_Text, ...] = ()
    in_words: _Text = ""
    train: dict[str, FrontFigure] = {}


class FrontDocument(BaseModel):
    """The part of a front.json that is read; the rest is ignored."""

    objectives: tuple[FrontObjective, ...]
    points: Annotated[tuple[FrontPoint, ...], Field(max_length=10_000)]


class KeptFront(BaseModel):
    """A front that the server keeps. ``made``: when its file was written, in seconds since the Unix epoch."""

    name: str
    made: float
    front: FrontDocument


class FrontList(BaseModel):
    """The fronts, the latest first. ``problems``: of files that are none."""

    fronts: tuple[KeptFront, ...]
    problems: tuple[str, ...]


class FrontFolder:
    """The fronts in the folder at ``path``, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> FrontList:
        """All of them."""
        fronts, problems = [], []
        for path in self._files():
            name = path.parent.name if path.parent != self._path else path.stem
            try:
                status = path.stat()
                if status.st_size > _MAX_BYTES:
                    raise ValueError("it is too large")
                front = FrontDocument.model_validate_json(path.read_bytes())
            except (OSError, ValueError) as error:
                what = "it is no front" if isinstance(error, ValidationError) else str(error)
                problems.append(f"{path.name} cannot be read: {what}")
            else:
                fronts.append(KeptFront(name=name, made=status.st_mtime, front=front))
        fronts.sort(key=lambda kept: -kept.made)
        return FrontList(fronts=tuple(fronts), problems=tuple(problems))

    def keep(self, name: str, front: FrontDocument) -> None:
        """Keep a front, in the place of the one of this name. Raises `Problem` if there is no room."""
        path = self._path / f"{name}.json"
        if not path.exists() and len(self._files()) >= _MAX_FRONTS:
            raise Problem(
                f"there are {_MAX_FRONTS} fronts in {self._path}", mend="remove some of the files"
            )
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(front.model_dump_json(), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise Problem(f"cannot write {path}: {error.strerror}") from None

    def _files(self) -> list[Path]:
        found = [*self._path.glob("*.json"), *self._path.glob("*/front.json")]
        return sorted(found)[:_MAX_FRONTS]
