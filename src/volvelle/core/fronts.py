"""A point of a front file as a policy's parameters: ``pcs:front.json#balanced``.

Front files are written by ``volvelle tune``; of one only ``policy``, ``picks`` and the points'
``parameters`` are read here.
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from volvelle.core.written import WrittenPart
from volvelle.model.problems import Problem, nearest

_WRITTEN = re.compile(r"(?P<file>[^,]*\.json)(?:#(?P<pick>[^,]*))?(?:,(?P<rest>.*))?")


def resolved(written: str) -> str:
    """A policy as it is written, its parameters in place of a point of a front file. Raises `Problem`."""
    of = WrittenPart.read(written)
    reference = Reference.read(of.rest)
    if reference is None:
        return written
    more = f",{reference.rest}" if reference.rest else ""
    return f"{of.part}:{reference.parameters(of)}{more}"


def seen_from(folder: Path, written: str) -> str:
    """A part as it is written in a file in ``folder``, the paths in it seen from where we are."""
    part = WrittenPart.read(written)
    found = str(folder / part.part) if part.in_a_file else part.part
    if Reference.read(part.rest) is not None:
        return f"{found}:{folder / part.rest}"
    return str(folder / written) if part.in_a_file else written


class Reference(NamedTuple):
    """A front file, the name or number of a point in it, and what else is written after it."""

    file: Path
    pick: str
    rest: str

    @classmethod
    def read(cls, text: str) -> "Reference | None":
        """The reference after the policy's name; None where there is no such reference."""
        found = _WRITTEN.fullmatch(text)
        if found is None or "=" in found["file"]:
            return None
        return cls(Path(found["file"]), found["pick"] or "", found["rest"] or "")

    def parameters(self, of: WrittenPart) -> str:
        """The parameters of the policy written so there, as they are written. Raises `Problem`."""
        found = self._found()
        picks, points = found.picks, found.points
        policy = of.part
        if not _same(WrittenPart.read(found.policy), of):
            raise Problem(
                f"{self.file} is a front of policy {found.policy!r}, not of {policy!r}",
                mend=f"write {found.policy}:{self.file}#{self.pick}",
                usage=True,
            )
        at = picks.get(self.pick, int(self.pick) if self.pick.isdecimal() else len(points))
        if not 0 <= at < len(points):
            raise Problem(
                f"{self.file} has no point {self.pick!r}{nearest(self.pick, picks)}"
                if self.pick
                else f"{self.file} has many points, and none is named",
                mend=f"write {policy}:{self.file}#NAME with one of {', '.join(picks)}, or a number "
                f"from 0 to {len(points) - 1}",
                usage=True,
            )
        return points[at].parameters

    def _found(self) -> "_Found":
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=_Found)
        except FileNotFoundError:
            raise Problem(
                f"there is no file {self.file}", mend="check the path", usage=True
            ) from None
        except OSError as error:
            raise Problem(f"cannot read {self.file}: {error.strerror}") from None
        except (ValueError, msgspec.DecodeError):
            raise Problem(
                f"{self.file} is not a front file",
                mend="give the front.json that volvelle tune wrote",
                usage=True,
            ) from None


def _same(searched: WrittenPart, used: WrittenPart) -> bool:
    """Whether these are one policy.

    A file may have moved since, or be seen from elsewhere, and the name of its only policy be left out.
    """
    names = {searched.name, used.name} - {""}
    return Path(searched.home).name == Path(used.home).name and len(names) < 2


class _Point(msgspec.Struct):
    parameters: str


class _Found(msgspec.Struct):
    """The fields that are read of a front file."""

    policy: str
    picks: dict[str, int]
    points: list[_Point]
