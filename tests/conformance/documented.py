"""The policies that the documentation shows, as files."""

import atexit
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from systems_here import SYSTEMS

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"```python file=(\S+)\n(.*?)```", re.DOTALL)


@cache
def documented_policies() -> dict[str, str]:
    """Paths of files with the policies of the pages on how to write one, by their names there.

    Without the ideal that shares out fractions of one GPU type and promises nothing else, and without those
    that build on a system that is not here.
    """
    folder = Path(tempfile.mkdtemp(prefix="volvelle-documented-"))
    atexit.register(shutil.rmtree, folder)
    found = {}
    pages = ("write-a-policy", "compile-a-policy", "plan-rounds-ahead")
    shown = "".join((HOW_TO / f"{page}.md").read_text(encoding="utf-8") for page in pages)
    for name, text in BLOCK.findall(shown):
        if name == "sharing.py" or ("volvelle.systems" in text and not SYSTEMS.is_dir()):
            continue
        (folder / name).write_text(text, encoding="utf-8")
        found[name] = str(folder / name)
    return found
