"""Public traces, downloaded: a catalogue of them, downloads that resume, and hashes that are verified.

The catalogue is ``published.toml``. Where it knows no hash of a file, the one of the first download is kept
beside it, in `PINS`, and later downloads into that folder have to have it.
"""

import hashlib
import http.client
import json
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from volvelle.model.problems import Problem, nearest
from volvelle.model.toml import read_toml

PINS = "fetched.json"
CATALOGUE = Path(__file__).with_name("published.toml")

_CHUNK_BYTES = 1 << 20
_PATIENCE_SECONDS = 30.0
_RANGE_NOT_SATISFIABLE = 416


class PublishedFile(BaseModel):
    """A file of a trace. sha256, bytes: of the download, "" and 0 where the publisher states none.

    unpack: the member of a tar archive that is kept of it. saved: its path in the folder, "" for its name.
    studied: the SHA-256 of the copy from which the results of the papers' studies were made, "" for none.
    instead: a path among the studies' inputs that serves as well, "" for none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    sha256: str = ""
    bytes: int = 0
    unpack: str = ""
    saved: str = ""
    studied: str = ""
    instead: str = ""

    @property
    def downloaded(self) -> str:
        """The name of what is downloaded."""
        return urllib.parse.urlsplit(self.url).path.rpartition("/")[2]

    @property
    def name(self) -> str:
        """The name of what is kept."""
        return self.saved or self.unpack or self.downloaded


class PublishedTrace(BaseModel):
    """A public trace: its reader (``--format``), its licence, and the page that says more.

    place: its folder among the inputs of the papers' studies, "" for none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    reader: str
    licence: str
    page: str
    place: str = ""
    files: tuple[PublishedFile, ...]


Progress = Callable[[int, int | None], None]
"""Callback with the bytes that have come, and with their final number where it is known."""


def published_traces() -> dict[str, PublishedTrace]:
    """The traces of the catalogue by name; ``base`` there is the beginning of a trace's addresses."""
    written = read_toml(CATALOGUE)
    for trace in written.values():
        base = trace.pop("base", "")
        for file in trace["files"]:
            file["url"] = base + file["url"]
    return {name: PublishedTrace.model_validate(trace) for name, trace in written.items()}


def published_trace(name: str) -> PublishedTrace:
    """The trace of that name. Raises `Problem`."""
    known = published_traces()
    if name not in known:
        raise Problem(
            f"no public trace is known as {name!r}{nearest(name, known)}",
            mend=f"known are {', '.join(known)}",
            usage=True,
        )
    return known[name]


def fetch(file: PublishedFile, folder: Path, progress: Progress | None = None) -> str:
    """Download a file into ``folder``; returns its SHA-256.

    An interrupted download is gone on with. A file with another hash than the catalogue's, or than
    that of the first download, is removed. Raises `Problem`, also where there is no network.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{file.downloaded}.partial"
    try:
        _download(file, partial, progress)
    except (OSError, http.client.HTTPException) as error:
        raise _not_downloaded(file, folder, partial, error) from error
    found = sha256(partial)
    pins = _pins(folder)
    wanted = file.sha256 or pins.get(file.url, found)
    if found != wanted:
        partial.unlink()
        known = "catalogue" if file.sha256 else "first download"
        raise Problem(
            f"{file.url} is not what it was: its SHA-256 is {found}, that of the {known} {wanted}",
            mend="look at the trace's page: it may have been replaced; what was downloaded is removed",
        )
    if file.unpack:
        _unpack(partial, file.unpack, folder)
    else:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        partial.replace(folder / file.name)
    pins[file.url] = found
    (folder / PINS).write_text(json.dumps(pins, indent=2) + "\n", encoding="utf-8")
    return found


def _download(file: PublishedFile, partial: Path, progress: Progress | None) -> None:
    there = partial.stat().st_size if partial.is_file() else 0
    if file.bytes and there == file.bytes:
        return
    asked = urllib.request.Request(file.url, headers={"Range": f"bytes={there}-"} if there else {})
    try:
        answer = urllib.request.urlopen(asked, timeout=_PATIENCE_SECONDS)
    except urllib.error.HTTPError as error:
        if there and error.code == _RANGE_NOT_SATISFIABLE:  # nothing is left, or it became shorter
            partial.unlink()
            _download(file, partial, progress)
            return
        raise
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            there = 0
        length = answer.headers.get("Content-Length")
        total = there + int(length) if length else None
        with partial.open("ab" if there else "wb") as written:
            while chunk := answer.read(_CHUNK_BYTES):
                written.write(chunk)
                there += len(chunk)
                if progress is not None:
                    progress(there, total)
    if total is not None and there < total:
        raise http.client.IncompleteRead(b"", total - there)


def _not_downloaded(file: PublishedFile, folder: Path, partial: Path, error: Exception) -> Problem:
    host = urllib.parse.urlsplit(file.url).hostname
    if isinstance(error, urllib.error.HTTPError):
        return Problem(
            f"{host} answered {error.code} {error.reason} for {file.url}",
            mend="look at the trace's page: it may have moved",
        )
    if partial.is_file() and partial.stat().st_size:
        return Problem(
            f"the download from {host} broke off at {partial.stat().st_size:,} bytes",
            mend="give the command again: it goes on from there",
        )
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return Problem(
        f"{host} cannot be reached: {reason}",
        mend=f"where there is a network, download {file.url} and put it into {folder}; "
        "volvelle trace generate makes traces without one",
    )


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pins(folder: Path) -> dict[str, str]:
    """The hashes of earlier downloads by address. Raises `Problem`."""
    path = folder / PINS
    if not path.is_file():
        return {}
    try:
        return {
            str(url): str(sha256) for url, sha256 in json.loads(path.read_text("utf-8")).items()
        }
    except (ValueError, AttributeError) as error:
        raise Problem(f"{path} cannot be read: {error}", mend="remove it, or repair it") from None


def _unpack(archive: Path, member: str, folder: Path) -> None:
    """Keep one file of an archive. Raises `Problem`."""
    unpacking = folder / f"{member}.unpacking"
    try:
        with tarfile.open(archive, "r|*") as packed:
            for entry in packed:
                source = packed.extractfile(entry) if entry.isfile() else None
                if source is not None and Path(entry.name).name == member:
                    with unpacking.open("wb") as written:
                        shutil.copyfileobj(source, written, _CHUNK_BYTES)
                    unpacking.replace(folder / member)
                    archive.unlink()
                    return
    except tarfile.TarError as error:
        raise Problem(f"{archive} cannot be unpacked: {error}") from None
    finally:
        unpacking.unlink(missing_ok=True)
    raise Problem(f"there is no {member} in {archive}", mend="look at the trace's page")
