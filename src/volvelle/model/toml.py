"""TOML files that people write."""

import tomllib
from pathlib import Path
from typing import Any

from volvelle.model.problems import Problem


def read_toml(path: Path, what: str = "file") -> dict[str, Any]:
    """The document in ``path``. Raises `Problem`; ``what`` is what the file is called there."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"there is no {what} {path}", mend="check the path", usage=True) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Problem(f"{path} is not a TOML file: {error}") from None
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from None
