"""A small disk for all files of a run, which can really be filled."""

import errno
import subprocess
from contextlib import suppress
from pathlib import Path

_MEGABYTES = 256  # of which a store keeps 32; an agent starts jobs again where 128 are free
_PIECES = (1 << 20, 1 << 12, 1)


class Disk:
    """A file system in memory at ``path``, where we may mount one; else a folder that is never full."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path, self._ballast = path, path / "ballast"
        words = ("mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", str(path))
        try:
            self.real = subprocess.run(words, check=False, capture_output=True).returncode == 0
        except OSError:
            self.real = False

    def fill(self) -> None:
        """Fill it to the last byte."""
        with self._ballast.open("ab", buffering=0) as file:
            for piece in _PIECES:
                with suppress(OSError):
                    while True:
                        file.write(bytes(piece))

    def clear(self) -> None:
        """Free the space."""
        self._ballast.unlink(missing_ok=True)

    @property
    def full(self) -> bool:
        """Whether nothing more can be written."""
        try:
            (self.path / "probe").write_bytes(bytes(4096))
        except OSError as error:
            return error.errno == errno.ENOSPC
        finally:
            with suppress(OSError):
                (self.path / "probe").unlink()
        return False

    def close(self) -> None:
        """Unmount it."""
        if self.real:
            subprocess.run(("umount", "-l", str(self.path)), check=True)
