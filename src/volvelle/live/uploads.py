"""Working directories that travel with jobs: tar files, kept by the SHA-256 of their content."""

import contextlib
import hashlib
import io
import os
import re
import secrets
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

from volvelle.model.problems import Problem

UPLOADS = "uploads"
"""The folder of a server's, beside those of its jobs."""

DIGEST = "^[0-9a-f]{64}$"
MAX_UPLOAD_BYTES = 64 << 20
_MAX_FILES = 50_000
"""Of one upload."""

_MAX_KEPT_BYTES = 100 * MAX_UPLOAD_BYTES
_MAX_KEPT_BYTES_OF_A_USER = 25 * MAX_UPLOAD_BYTES
_FRESH_SECONDS = 600.0
"""An upload that no job names yet is kept for so long: its job may be on its way."""

_UNUSED_SECONDS = 30 * 86_400.0
_USER = ".user"
_IGNORED = ".git"


def digest_of(content: bytes) -> str:
    """The name under which ``content`` is kept."""
    return hashlib.sha256(content).hexdigest()


def pack(directory: Path) -> bytes:
    """The files below ``directory`` as a tar, without those of Git: the same for the same files.

    Raises `Problem` where they are too many, cannot be read, or are links that lead out of it.
    """
    root, target, packed = directory.resolve(), io.BytesIO(), 0
    if not root.is_dir():
        raise Problem(f"there is no directory {directory}", mend="check the path", usage=True)
    try:
        with tarfile.open(fileobj=target, mode="w") as tar:
            for path in _files(root):
                info = tar.gettarinfo(path, str(path.relative_to(root)))
                if info is None:
                    continue  # a socket
                if info.issym() and not (path.parent / path.readlink()).resolve().is_relative_to(
                    root
                ):
                    raise Problem(
                        f"{path} is a link that leads out of {directory}",
                        mend="copy what it leads to, or name a directory that holds both",
                    )
                packed += info.size
                if packed > MAX_UPLOAD_BYTES:
                    raise _too_large(str(directory))
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mtime = int(info.mtime)
                if info.isreg():
                    with path.open("rb") as file:
                        tar.addfile(info, file)
                else:
                    tar.addfile(info)
    except OSError as error:
        raise Problem(f"cannot read {error.filename}: {error.strerror}") from None
    if len(target.getbuffer()) > MAX_UPLOAD_BYTES:
        raise _too_large(str(directory))
    return target.getvalue()


def _too_large(what: str) -> Problem:
    return Problem(
        f"{what} has more than {MAX_UPLOAD_BYTES >> 20} MiB",
        mend="name a smaller directory, or leave data where all nodes see them",
    )


def _files(root: Path) -> list[Path]:
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != _IGNORED]
        found += [Path(folder) / name for name in (*folders, *files) if name != _IGNORED]
    return sorted(found)


def unpack(archive: Path, directory: Path, give: Callable[[Path], None]) -> None:
    """Write the files of ``archive`` to ``directory``, all or none; nothing where it is there already.

    They are written beside the folder of ``directory``, which may be another user's, and ``give`` is
    called with each before they are moved. Raises OSError; `UnusableUploadError` where the archive is
    compressed, has sparse or too many files, or paths outside of it.
    """
    if directory.exists():
        return
    own = directory.parent
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = own.with_name(f".{own.name}.{secrets.token_hex(8)}")
    partial.mkdir(mode=0o700)
    try:
        with tarfile.open(
            archive, "r:"
        ) as tar:  # what is not compressed has the size that was uploaded
            tar.extractall(partial, _members(tar), filter="data")
        for path in (partial, *partial.rglob("*")):
            give(path)
        with contextlib.suppress(OSError):  # another node, of the same folder, was first
            partial.rename(directory)
    except tarfile.TarError as error:
        raise UnusableUploadError(
            f"its working directory cannot be written: {error}; upload a tar that is not compressed"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a bounded tar. Raises tarfile.TarError where it has sparse or too many files."""
    for count, member in enumerate(tar):
        if member.issparse() or count >= _MAX_FILES:
            raise tarfile.TarError(f"it has sparse files, or more than {_MAX_FILES:,}")
        yield member


class UnusableUploadError(OSError):
    """No attempt can start in what was uploaded."""


class Uploads:
    """Archives kept in ``folder``, of a server or of an agent, for 30 days after their last use.

    The oldest goes first where there is no room, except for archives that jobs name. A user's share is a
    quarter of all. A file beside each upload, by its name and ``.user``, holds the user that sent it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> Path | None:
        """The file with this content, which is used now; None if there is none."""
        if not re.fullmatch(DIGEST, digest):
            return None  # no name of a file of ours
        path = self._folder / digest
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def keep(
        self, digest: str, content: bytes, user: str = "", named: Set[str] = frozenset()
    ) -> Path:
        """Keep ``content`` of ``user`` under its ``digest``.

        named: digests that jobs name, which are not removed. Raises OSError, and `Problem` where it is too
        much.
        """
        if digest_of(content) != digest:
            raise Problem(f"this is not the content with the hash {digest}", mend="send it again")
        if len(content) > MAX_UPLOAD_BYTES:
            raise _too_large("what is uploaded")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (there := self.find(digest)) is not None:
            return there
        self._make_room(len(content), user, named)
        path, partial = self._folder / digest, self._folder / f"{digest}.{secrets.token_hex(8)}"
        try:
            if user:
                path.with_suffix(_USER).write_text(user)
            partial.write_bytes(content)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        return path

    def read(self, digest: str, offset: int, max_bytes: int) -> bytes | None:
        """Some of it from byte ``offset`` on, nothing at its end; None if it is not there."""
        path = self.find(digest)
        if path is None:
            return None
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)

    def _make_room(self, size: int, user: str, named: Set[str]) -> None:
        """Remove archives that are not needed. Raises `Problem` where that does not leave ``size`` bytes."""
        now = time.time()
        for each in self._kept():
            if each.used < now - _UNUSED_SECONDS:
                self._remove(each)
        if user:
            own = [each for each in self._kept() if each.user == user and each.name not in named]
            used = sum(each.size for each in self._kept() if each.user == user)
            excess = used + size - _MAX_KEPT_BYTES_OF_A_USER
            self._remove_oldest(own, excess, f"{_MAX_KEPT_BYTES_OF_A_USER >> 20} MiB of {user}")
        latest = now - _FRESH_SECONDS if user else now  # an agent has taken what it needs
        kept = self._kept()
        old = [each for each in kept if each.used <= latest and each.name not in named]
        excess = sum(each.size for each in kept) + size - _MAX_KEPT_BYTES
        self._remove_oldest(old, excess, f"{_MAX_KEPT_BYTES >> 20} MiB")

    def _remove_oldest(self, files: list["_Kept"], excess: int, limit: str) -> None:
        """Remove the oldest of ``files`` until they are ``excess`` bytes less. Raises `Problem`."""
        for each in files:
            if excess > 0:
                self._remove(each)
                excess -= each.size
        if excess > 0:
            raise Problem(
                f"more than {limit} are uploaded already, for jobs that are not over",
                mend="wait until some are, or leave data where all nodes see them",
            )

    def _kept(self) -> list["_Kept"]:
        """All files, the one that was used first at first."""
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                status, owner = path.stat(), path.with_suffix(_USER)
                if path.suffix != _USER:
                    user = owner.read_text() if owner.exists() else ""
                    found.append(_Kept(status.st_mtime, path.name, status.st_size, user))
        return sorted(found)

    def _remove(self, kept: "_Kept") -> None:
        path = self._folder / kept.name
        for each in (path, path.with_suffix(_USER)):
            each.unlink(missing_ok=True)


class _Kept(NamedTuple):
    """A file that is kept. used: last, in seconds since the Unix epoch. user: that sent it."""

    used: float
    name: str
    size: int
    user: str
