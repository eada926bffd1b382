"""A recording of all that attach saw and told: one file, appended line by line, replayed as it came.

Lines of ``attach.jsonl`` (also read as ``attach.jsonl.gz``): ``{"t": seconds, ...}`` with one of

- ``site``: answers of the commands that describe the site, by kind, those that changed;
- ``poll``: by kind the records of ``scontrol -o show`` that changed, field by field, and those that are gone;
- ``told``: what was told at that moment, rows of `volvelle.incumbents.slurm.accuracy.Told`;
- ``failed``: why a poll had no answer.

Of jobs only the fields that forecasts use are kept: command lines, paths and comments are not. Of the
configuration keys with hosts or paths are not kept either, so that a recording can be handed on.
"""

import fcntl
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from volvelle.incumbents.slurm.accuracy import Told
from volvelle.incumbents.slurm.text import record
from volvelle.model.problems import Problem

POLLED = ("job", "node", "reservation")
"""Kinds that are asked for at each poll."""
_FIRST = {"job": "JobId", "node": "NodeName", "reservation": "ReservationName"}
_NOT_KEPT = frozenset(
    {"SubmitLine", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "SystemComment"}
    | {"AdminComment", "GroupId", "MCS_label", "RunTime", "AllocNode:Sid", "BatchHost", "ExitCode"}
    | {"DerivedExitCode", "MailUser", "MailType", "Network", "Power", "OS", "Arch", "NodeAddr"}
    | {"NodeHostName", "Port", "CPULoad", "FreeMem", "LastBusyTime", "CurrentWatts", "AveWatts"}
    | {"BootTime", "SlurmdStartTime", "Version", "Extra", "Container", "BatchFlag", "Reboot"}
)
_PLACE = re.compile(r"^\s*\S*(Host|Addr)\S*\s*=|=\s*(/|\S+/[^/\s]+/)| is (UP|DOWN)")
"""Lines of the configuration that name a host, an address or a path."""
_NAME = "attach.jsonl"

Records = dict[str, dict[str, str]]


class Recording:
    """The file of a folder, open for appending by one process. Raises `Problem` where another has it."""

    def __init__(self, folder: Path) -> None:
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
        self._site: dict[str, str] = {}
        self._records: dict[str, Records] = {kind: {} for kind in POLLED}

    def resume(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Go on behind these entries, as `read` gave them: only changes from there on are written."""
        for entry in entries:
            self._site |= entry.get("site", {})
            for kind, text in entry.get("poll", {}).items():
                self._records[kind] = _records(kind, text)

    def site(self, time: float, texts: Mapping[str, str]) -> None:
        """Answers that describe the site; those that did not change are not written again."""
        kept = {kind: _kept(text) if kind == "config" else text for kind, text in texts.items()}
        changed = {kind: text for kind, text in kept.items() if self._site.get(kind) != text}
        if changed:
            self._site |= changed
            self._write({"t": time, "site": changed})

    def poll(self, time: float, texts: Mapping[str, str]) -> None:
        """The answers of a poll, by kind."""
        delta = {}
        for kind, text in texts.items():
            now, before = _records(kind, text), self._records[kind]
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


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The entries of a recording, with whole answers for ``poll`` and a tuple for ``told``.

    Raises `Problem` where there is none, or where a line other than the last cannot be read.
    """
    path = next((one for name in (_NAME, f"{_NAME}.gz") if (one := folder / name).is_file()), None)
    if path is None:
        raise Problem(
            f"there is no recording in {folder}",
            mend=f"name the folder that attach wrote: it holds {_NAME}",
            usage=True,
        )
    records: dict[str, Records] = {kind: {} for kind in POLLED}
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                entry: dict[str, Any] = json.loads(line)
                if "poll" in entry:
                    entry["poll"] = {
                        kind: _text(_apply(records[kind], delta, _FIRST[kind]))
                        for kind, delta in entry["poll"].items()
                    }
                if "told" in entry:
                    entry["told"] = [Told(*row) for row in entry["told"]]
            except (ValueError, KeyError, TypeError, AttributeError):
                raise Problem(
                    f"{path} line {number} is no entry of a recording",
                    mend="remove the lines from there on",
                ) from None
            yield entry


def _kept(config: str) -> str:
    """The answer of ``scontrol show config`` without hosts, addresses and paths."""
    lines = (line for line in config.splitlines(keepends=True) if not _PLACE.search(line))
    return "".join(lines)


def _records(kind: str, text: str) -> Records:
    """Records by their first value, without the fields that are not kept."""
    first = f"{_FIRST[kind]}="
    found: Records = {}
    for line in text.splitlines():
        if line.startswith(first):
            fields = {key: value for key, value in record(line).items() if key not in _NOT_KEPT}
            found[fields[_FIRST[kind]]] = fields
    return found


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


def _text(records: Records) -> str:
    """Records as ``scontrol -o show`` writes them, the naming field first."""
    return "".join(
        " ".join(f"{key}={value}" for key, value in fields.items()) + "\n"
        for fields in records.values()
    )


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
