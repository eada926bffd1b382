"""A report is written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volvelle.model.problems import cannot_write


@contextmanager
def whole_report(directory: Path) -> Iterator[None]:
    """A report is written whole, or what there is of it is removed. Raises `Problem`."""
    try:
        yield
    except OSError as error:
        for path in [directory / "report.html", *directory.glob("*.png")]:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        name = Path(error.filename) if error.filename else directory / "report.html"
        raise cannot_write(name, error) from error
