"""The build backend: setuptools, and in a wheel machine code made when it is built (decision 78).

Building a wheel needs what running it needs; a source distribution and an editable install need neither. The
description of a release is the README with links into the repository at that version.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from setuptools import build_meta, setup
from setuptools.build_meta import *  # noqa: F403 - the other hooks of a backend
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

_BUILT = Path("volvelle", "core", "machine_code", "built")
_LINK = re.compile(r"(!?)(\[[^]]*\])\((?!\w+:|#)([^)]+)\)")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """The dependencies of the package, since it is run."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_project()["dependencies"]]


def description(version: str) -> str:
    """The README, its links and pictures those of the repository at the tag of a version."""
    source = _project()["urls"]["Source"]

    def whole(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        kind = "raw" if picture else "blob"
        return f"{picture}{words}({source}/{kind}/v{version}/{path})"

    return _LINK.sub(whole, Path("README.md").read_text(encoding="utf-8"))


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return project


class Build(build_py):
    """The modules and their machine code; without it where what compiles it is not installed."""

    def run(self) -> None:
        """Copy the modules, and have the copies compile their loops."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib).resolve()
        git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        with suppress(OSError, subprocess.CalledProcessError):  # not from a checkout
            commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout
            (folder / "volvelle" / "commit").write_text(commit)
        command = [sys.executable, "-m", "volvelle.simulate.machine_code"]
        path = os.pathsep.join([str(folder), *sys.path])
        made = subprocess.run(
            [*command, str(folder / _BUILT)],  # no byte code, which would be packed as well
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
        if made.returncode:
            self.warn("no machine code was made: it will be compiled where it is first needed")


class Wheel(bdist_wheel):
    """A wheel that says for which Python and platform its machine code is."""

    def get_tag(self) -> tuple[str, str, str]:
        """That of any platform, where no machine code was made."""
        if not Path(self.get_finalized_command("build_py").build_lib, _BUILT).exists():
            return super().get_tag()
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        return f"cp{sys.version_info.major}{sys.version_info.minor}", "none", platform


if __name__ == "__main__":  # as setuptools runs it
    with Path("src", "volvelle", "__init__.py").open(encoding="utf-8") as module:
        (released,) = (line.split('"')[1] for line in module if line.startswith("__version__"))
    setup(
        cmdclass={"build_py": Build, "bdist_wheel": Wheel},
        long_description=description(released),
        long_description_content_type="text/markdown",
    )
