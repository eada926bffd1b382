"""A recording of all that attach saw and told: one file, appended line by line, replayed as it came.

Lines of ``attach.jsonl`` (also read as ``attach.jsonl.gz``): ``{"t": seconds, ...}`` with one of

- ``of``: the scheduler, on the first line; without it Slurm;
- ``site``: answers that describe the site, by kind, those that changed;
- ``poll``: by kind the records that changed, field by field, and those that are gone;
- ``told``: what was told at that moment, rows of `volvelle.incumbents.attach.accuracy.Told`;
- ``failed``: why a poll had no answer.

A scheduler says which fields are kept (`Incumbent.records`), so that a recording can be handed on.
"""

import fcntl
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from volvelle.incumbents.attach.accuracy import Told
from volvelle.incumbents.attach.incumbent import Answers, Incumbent, Records, incumbent
from volvelle.model.problems import Problem

_NAME = "attach.jsonl"


class Recording:
    """The file of a folder, open for appending by one process. Raises `Problem` where another has it."""

    def __init__(self, folder: Path, of: Incumbent[Any, Any]) -> None:
        self._of = of
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = (folder / _NAME).open("a+", encoding="utf-8")
        except OSError as error:
            raise Problem(f"cannot write {folder / _NAME}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Problem(
                f"another attach writes to {folder}", mend="name another folder: --record"
            ) from None
        _cut_half_a_line(folder / _NAME)
        self._site: dict[str, Any] = {}
        self._records: dict[str, Records] = {kind: {} for kind in of.polled}
        if (folder / _NAME).stat().st_size == 0:
            self._write({"of": of.name})

    def resume(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Go on behind these entries, as `read` gave them: only changes from there on are written."""
        for entry in entries:
            self._site |= entry.get("site", {})
            for kind, text in entry.get("poll", {}).items():
                self._records[kind] = self._of.records(kind, text)

    def site(self, time: float, answers: Answers) -> None:
        """Answers that describe the site; those that did not change are not written again."""
        kept = {kind: self._of.kept(kind, one) for kind, one in answers.items()}
        changed = {kind: one for kind, one in kept.items() if self._site.get(kind) != one}
        if changed:
            self._site |= changed
            self._write({"t": time, "site": changed})

    def poll(self, time: float, answers: Answers) -> None:
        """The answers of a poll, by kind."""
        delta = {}
        for kind, one in answers.items():
            now, before = self._of.records(kind, one), self._records[kind]
            delta[kind] = _delta(before, now)
            self._records[kind] = now
        self._write({"t": time, "poll": delta})

    def told(self, time: float, told: Sequence[Told]) -> None:
        """The times that were told."""
        self._write({"t": time, "told": [list(one) for one in told]})

    def failed(self, time: float, why: str) -> None:
        """A poll had no answer."""
        self._write({"t": time, "failed": why})

    def close(self) -> None:
        """Let another process write."""
        self._file.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
        self._file.flush()


def recorded(folder: Path) -> Incumbent[Any, Any]:
    """The scheduler of a recording. Raises `Problem` where there is no recording, or it is not known."""
    path = _path(folder)
    with _opened(path) as lines:
        try:
            entry = json.loads(next(lines, "{}"))
            return incumbent(entry.get("of", "slurm"))
        except (ValueError, AttributeError):
            raise _no_entry(path, 1) from None


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The entries of a recording, with whole answers for ``poll`` and a tuple for ``told``.

    Raises `Problem` where there is none, or where a line other than the last cannot be read.
    """
    of, path = recorded(folder), _path(folder)
    records: dict[str, Records] = {kind: {} for kind in of.polled}
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                entry: dict[str, Any] = json.loads(line)
                if "poll" in entry:
                    entry["poll"] = {
                        kind: of.answer(kind, _apply(records[kind], delta, of.polled[kind]))
                        for kind, delta in entry["poll"].items()
                    }
                if "told" in entry:
                    entry["told"] = [Told(*row) for row in entry["told"]]
            except (ValueError, KeyError, TypeError, AttributeError):
                raise _no_entry(path, number) from None
            if "of" not in entry:
                yield entry


def _path(folder: Path) -> Path:
    path = next((one for name in (_NAME, f"{_NAME}.gz") if (one := folder / name).is_file()), None)
    if path is None:
        raise Problem(
            f"there is no recording in {folder}",
            mend=f"name the folder that attach wrote: it holds {_NAME}",
            usage=True,
        )
    return path


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _no_entry(path: Path, line: int) -> Problem:
    return Problem(
        f"{path} line {line} is no entry of a recording", mend="remove the lines from there on"
    )


def _delta(before: Records, now: Records) -> dict[str, Any]:
    """The change of a record: single fields, or the whole record where it has other fields than before."""
    changed = {}
    for name, fields in now.items():
        old = before.get(name, {})
        if list(fields) != list(old):
            changed[name] = fields
        elif fields != old:
            changed[name] = {key: value for key, value in fields.items() if old[key] != value}
    gone = sorted(before.keys() - now.keys())
    return ({"set": changed} if changed else {}) | ({"gone": gone} if gone else {})


def _apply(records: Records, delta: Mapping[str, Any], first: str) -> Records:
    """Records after a change; one that holds its ``first`` field is whole."""
    for name in delta.get("gone", ()):
        del records[name]
    for name, fields in delta.get("set", {}).items():
        records[name] = fields if first in fields else records[name] | fields
    return records


def _cut_half_a_line(path: Path) -> None:
    """Remove what a process that was killed while it wrote left of its last line."""
    with path.open("rb+") as file:
        end = file.seek(0, 2)
        kept = end
        while kept:
            step = min(kept, 65536)
            file.seek(kept - step)
            at = file.read(step).rfind(b"\n")
            if at >= 0:
                kept = kept - step + at + 1
                break
            kept -= step
        if kept < end:
            file.truncate(kept)
