"""How a part is written: ``name[:parameters]``, or ``path/to/file.py[:name][:parameters]``.

What follows may also be a point of a front file (`volvelle.core.fronts`), which is never taken for a name.
"""

from typing import Annotated, NamedTuple

from pydantic import BeforeValidator


class WrittenPart(NamedTuple):
    """``home``: a part's name, or the file it is in; ``name``: which of the parts in that file."""

    home: str
    name: str
    rest: str

    @classmethod
    def read(cls, text: str) -> "WrittenPart":
        """The pieces of ``text``."""
        home, _, rest = text.partition(":")
        if not home.endswith(".py"):
            return cls(home, "", rest)
        name, _, behind = rest.partition(":")
        if "=" in name or ".json" in name:
            return cls(home, "", rest)
        return cls(home, name, behind)

    @property
    def part(self) -> str:
        """All but the parameters."""
        return f"{self.home}:{self.name}" if self.name else self.home

    @property
    def in_a_file(self) -> bool:
        """Whether the part is in a file, and not one that is known by its name."""
        return self.home.endswith(".py")


def _in_words(value: object) -> object:
    """A part given as a table, ``{name = "las", round = "10m"}``, in the written form."""
    if not isinstance(value, dict) or "name" not in value:
        return value
    rest = ",".join(f"{key}={_plain(given)}" for key, given in value.items() if key != "name")
    return f"{value['name']}:{rest}" if rest else value["name"]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Written = Annotated[str, BeforeValidator(_in_words)]
"""A pydantic field type for a part in a configuration: in words, or as a table with its ``name``."""
