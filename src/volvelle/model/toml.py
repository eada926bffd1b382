"""TOML files that people write, and those that are written for them."""

import json
import re
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
        raise Problem(
            f"{path} is not a TOML file: {error}",
            mend='correct it there; lines are like gpus = 4 and policy = "fifo", with text in quotes',
        ) from None
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from None


def line_of(path: Path, key: str) -> str:
    """The line of ``path`` that sets ``key`` or opens its table, as `` line 3``; "" if none or several do."""
    sets = re.compile(rf'\s*\[*"?{re.escape(key)}"?\s*[=\]]')
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if sets.match(line)]
    return f" line {found[0]}" if len(found) == 1 else ""


def toml_key(name: str) -> str:
    """A key as TOML, in quotes where it has to be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def toml(value: Any) -> str:
    """A value as TOML, tables in a line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{toml_key(key)} = {toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(toml(one) for one in value)}]"
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, ensure_ascii=False)
