"""Object files that the package brings, and object files in the user's cache folder.

The name of a file says of which loop it is, the stamp of its code and for which platform; in the cache folder
also by which compiler it was made. Its first 32 bytes are the SHA-256 of the rest: a file that was cut or
damaged is not used. Files are written under another name and then renamed, so that a reader sees all of one
or nothing.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import copyfile
from tempfile import mkstemp

import llvmlite.binding as llvm

if sys.platform != "win32":
    import fcntl

FOLDER = "VOLVELLE_MACHINE_CODE"
"""The variable of the environment that names another cache folder."""

BUILT = Path(__file__).with_name("built")
"""Files made when the package is built (`setup.py`); nothing is written there later."""

PATIENCE_SECONDS = 60.0
"""So long a process waits for another that compiles the same, which may be one that is stopped."""

_DIGEST = 32  # bytes
_DAY = 86_400.0
_UNUSED_DAYS = 30.0
"""Days after which a file that no process has read is removed."""


def user_folder() -> Path | None:
    """The cache folder; None where the user has none, or where another user could write to it."""
    if own := os.environ.get(FOLDER):
        return Path(own)
    if cache_home := os.environ.get("XDG_CACHE_HOME"):
        base = Path(cache_home)
    else:
        try:
            home = Path.home()
        except RuntimeError:
            return None
        base = home / {"darwin": "Library/Caches", "win32": "AppData/Local"}.get(
            sys.platform, ".cache"
        )
    folder = base / "volvelle" / "machine_code"
    return None if _is_foreign(folder) else folder


@cache
def _compiler() -> str:
    """A digest of the compiler's versions."""
    versions = []
    for package in ("numba", "llvmlite"):
        with suppress(PackageNotFoundError):
            versions.append(version(package))
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:16]


def _platform() -> str:
    return str(llvm.get_process_triple())


def kept_file(folder: Path, loop: str) -> Path:
    """The file of ``loop`` in a cache folder."""
    return folder / f"{loop}.{_platform()}.{_compiler()}.o"


def kept(loop: str) -> bytes | None:
    """The object file of ``loop``, a name with a stamp; None where there is none that can be used."""
    if (built := read(BUILT / f"{loop}.{_platform()}.o")) is not None:
        return built
    if (folder := user_folder()) is None:
        return None
    file = kept_file(folder, loop)
    content = read(file)
    if content is not None:
        _used(file)
    return content


def read(file: Path) -> bytes | None:
    """The content of a file; None where it is missing, cut or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, content = content[:_DIGEST], content[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None


def write(file: Path, content: bytes) -> bool:
    """Write a file that `read` reads; False where that is not possible."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, aside = mkstemp(prefix=f"{file.name}.", dir=file.parent)
    except OSError:
        return False
    try:
        with os.fdopen(number, "wb") as opened:
            opened.write(hashlib.sha256(content).digest() + content)
        Path(aside).replace(file)
    except OSError:
        with suppress(OSError):
            Path(aside).unlink()
        return False
    return True


@contextmanager
def alone(loop: str) -> Iterator[None]:
    """Within, no other process of the user compiles ``loop``, as far as files can be locked, or for a while.

    The file is beside the cache folder, and has a byte for each loop; a process that ends lets go of it.
    """
    if sys.platform == "win32" or (folder := user_folder()) is None:
        yield
        return
    byte = int.from_bytes(hashlib.sha256(loop.encode()).digest()[:4])
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock").open("ab")
    except OSError:
        yield
        return
    end = time.monotonic() + PATIENCE_SECONDS
    with lock:
        while time.monotonic() < end:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break  # this file system has no locks
            else:
                break
        yield


def keep(loop: str, content: bytes) -> None:
    """Keep an object file in the cache folder, if possible, and remove files that were not used for long."""
    folder = user_folder()
    if folder is None or not write(kept_file(folder, loop), content):
        return
    oldest = time.time() - _UNUSED_DAYS * _DAY
    for file in folder.glob("*.o*"):
        with suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()


def bring(folder: Path) -> None:
    """Copy what is in the cache folder to ``folder``, under names that say nothing of the compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = f".{_compiler()}.o"
    for file in (user_folder() or folder).glob(f"*{compiler}"):
        copyfile(file, folder / f"{file.name.removesuffix(compiler)}.o")


def _is_foreign(folder: Path) -> bool:
    """Whether another user, other than root, can write to ``folder``, from which machine code is loaded."""
    try:
        found = folder.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return False
    return found.st_uid not in (0, os.getuid()) or bool(found.st_mode & 0o022)


def _used(file: Path) -> None:
    """Let the file's time say that it was used, to the day."""
    with suppress(OSError):
        if time.time() - file.stat().st_mtime > _DAY:
            os.utime(file)
