"""The Markdown pages, run: every command, program and file that README.md and docs/ show.

    python docs/shown.py [PAGE ...]            run the pages, say where one shows something else
    python docs/shown.py --update [PAGE ...]   write what the commands print now into the pages

A page is run from top to bottom in a folder of its own. Its fenced blocks mean:

    ```console              lines after "$ " are commands, the lines that follow what they print
    ```python               a program
    ```LANGUAGE file=NAME   a file of that name; where the repository has it, it must say the same

A command that ends in " &" goes on in the background until the end of its page; what it has printed is
compared once it has printed as many lines as are shown. In what a command prints, "..." stands for
anything, as a line of its own for any number of lines, and seconds ("in 1.3 s") are not compared. A command
must succeed unless the page shows an error. YAML is a job's file.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forked import forked

from volvelle.live.config import ServeConfig
from volvelle.live.http.submission import read_job
from volvelle.model.cluster import read_cluster
from volvelle.simulate.experiment import Experiment

ROOT = Path(__file__).resolve().parent.parent

LIMIT_SECONDS = 120

SAID_LINES = 12
"""So much of what a command printed is told when it fails."""

_FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\s*$")
_PROGRESS = re.compile(
    r"(  [\d,]+(/[\d,]+)? \w+  [\d,]+/s(  about [\d,]+ s left)?|Compiling inner loops, .*)$"
)
"""What a command that takes its time says on the way: on a slow machine, or where loops are compiled."""
_FIRST_TABLE = re.compile(r"^\nThe quick policies first; .*\n(?: .*\n)+", re.MULTILINE)
"""What a comparison that takes its time shows before its table."""
_SECONDS = re.compile(r"\d+\.\d+ s\b")
_SETTING_UP = re.compile(r"^python3 -m venv \.venv && (?:\S*pip install .*? && )(.*)$")


@dataclass
class Command:
    """A command of a console block. ``first`` and ``last`` are the lines of what it prints."""

    line: int
    text: str
    first: int
    printed: list[str] = field(default_factory=list)

    @property
    def last(self) -> int:
        """One beyond the last line of what it prints."""
        return self.first + len(self.printed)


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is where its text begins, from 0."""

    language: str
    file: str
    line: int
    text: list[str]

    def commands(self) -> list[Command]:
        """The commands of a console block; a backslash at the end goes on in the next line."""
        commands: list[Command] = []
        goes_on = False
        for number, line in enumerate(self.text, start=self.line):
            if goes_on:
                commands[-1].text += "\n" + line
                commands[-1].first = number + 1
            elif line.startswith("$ "):
                commands.append(Command(number, line[2:], number + 1))
            else:
                commands[-1].printed.append(line)
            goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
        return commands


@dataclass(frozen=True)
class Difference:
    """Something a page shows that is not so. ``command``: the one that printed ``printed``."""

    page: Path
    line: int
    said: str
    command: Command | None = None
    printed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Place, then what is not so."""
        return f"{self.page.relative_to(ROOT)} line {self.line + 1}: {self.said}"


def pages() -> list[Path]:
    """Every page that is run."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    opened: tuple[str, str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if opened is None:
            if fence := _FENCE.match(line):
                opened, inside = (fence[1], fence[2] or "", number + 1), []
        elif line.startswith("```"):
            yield Block(*opened, inside)
            opened = None
        else:
            inside.append(line)


def differences(page: Path) -> list[Difference]:
    """Run ``page`` and say where it shows what is not so."""
    found: list[Difference] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        Background() as background,
    ):
        folder = Path(name)
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "examples").symlink_to(ROOT / "examples")
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "console":
                found += (
                    difference
                    for command in block.commands()
                    if (difference := _of_command(page, command, folder, background))
                )
            elif block.file:
                found += _of_file(page, block, folder)
            elif block.language == "python":
                text = "\n".join(block.text)
                run = _run([sys.executable, "-c", text], folder)
                if run.returncode:
                    found.append(Difference(page, block.line, run.stdout))
            elif block.language != "text":
                found.append(Difference(page, block.line, f"nobody checks {block.language!r}"))
    return found


class Background:
    """The commands of a page that go on beside the others."""

    def __init__(self) -> None:
        self._going: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Background":
        return self

    def start(self, text: str, folder: Path, lines: int) -> "subprocess.CompletedProcess[str]":
        """Start a command, and see what it prints until it has printed so many ``lines``."""
        printed = folder / f".background-{len(self._going)}"
        with printed.open("w") as file:
            going = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=folder,
                env=_environment(text),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._going.append(going)
        patience = time.monotonic() + LIMIT_SECONDS
        while going.poll() is None and time.monotonic() < patience:
            if printed.read_text().count("\n") >= lines:
                break
            time.sleep(0.05)
        return subprocess.CompletedProcess(text, going.returncode or 0, printed.read_text())

    def __exit__(self, *_: object) -> None:
        for going in self._going:
            going.terminate()
        for going in self._going:
            going.wait(LIMIT_SECONDS)


def _of_command(
    page: Path, command: Command, folder: Path, background: Background
) -> Difference | None:
    text = command.text
    if setting_up := _SETTING_UP.match(text):  # .ci/run runs these lines as they stand
        text = setting_up[1]
        if "pytest" in text:
            return None
    if text.endswith(" &"):
        run = background.start(text.removesuffix(" &"), folder, len(command.printed))
    else:
        run = _run(["bash", "-euo", "pipefail", "-c", text], folder)
    lines = _FIRST_TABLE.sub("", run.stdout).splitlines()
    printed = [line.rstrip() for line in lines if not _PROGRESS.search(line)]
    fails = any(line.startswith("error:") for line in command.printed)
    if bool(run.returncode) != fails:
        last = "\n".join(printed[-SAID_LINES:])
        said = f"exit status {run.returncode} of: {command.text}\n{last}"
        return Difference(page, command.line, said, command, tuple(printed))
    if command.printed and not _alike(command.printed, printed):
        said = "\n".join(["not what it prints:", f"$ {command.text}", *printed])
        return Difference(page, command.line, said, command, tuple(printed))
    return None


def _environment(text: str) -> dict[str, str]:
    """The variables of a command. Where it is ours it is a fork, if no process is named in it."""
    first = [str(forked().folder)] if text.startswith("volvelle ") else []
    path = ":".join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100", "LC_ALL": "C.UTF-8"}


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=_environment(command[-1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def _alike(shown: list[str], printed: list[str]) -> bool:
    pattern = "".join(
        "(?:.*\n)?" if line == "..." else re.escape(f"{line}\n").replace(re.escape("..."), ".*")
        for line in _timeless(shown)
    )
    return re.fullmatch(pattern, "\n".join([*_timeless(printed), ""]), re.DOTALL) is not None


def _timeless(lines: list[str]) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines)
    return _SECONDS.sub("0.0 s", text).strip("\n").split("\n")


def _of_file(page: Path, block: Block, folder: Path) -> Iterator[Difference]:
    text = "\n".join(block.text) + "\n"
    ours = ROOT / block.file
    if block.file.startswith("examples/"):
        if text not in ours.read_text(encoding="utf-8"):
            yield Difference(page, block.line, f"{block.file} says otherwise")
        return
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if reader := {"toml": _read_toml, "yaml": read_job}.get(block.language):
        try:
            reader(path)
        except Exception as error:  # any reader's complaint is the page's
            yield Difference(page, block.line, str(error))


def _read_toml(path: Path) -> None:
    """Let whoever reads such a file read it."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if document.keys() & {"listen", "folder", "executor", "notifications"}:
        ServeConfig.load(path, {}).read_cluster()
    elif "nodes" in document:
        read_cluster(path)
    elif "project" not in document:  # not a package's pyproject.toml
        Experiment.of(path, {})


def update(page: Path, found: list[Difference]) -> bool:
    """Write what commands print now into ``page``. Returns whether nothing else differs."""
    lines = page.read_text(encoding="utf-8").splitlines()
    mended = True
    for difference in reversed(found):
        command = difference.command
        unexpected = "exit status" in difference.said and not _is_new_error(difference)
        if command is None or unexpected:
            print(difference)
            mended = False
        else:
            lines[command.first : command.last] = abridged(command.printed, difference.printed)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return mended


def abridged(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """``printed`` with "..." where ``shown`` has it: lines before and after it by their places,
    lines between two of them by the words they begin with."""
    blank = [""] if shown[-1] == "" else []
    shown = shown[: len(shown) - len(blank)]
    cuts = [place for place, line in enumerate(shown) if line == "..."]
    if not cuts:
        return [*printed, *blank]
    kept = list(printed[: cuts[0]])
    for line in shown[cuts[0] : cuts[-1] + 1]:
        begins = line.strip().partition("  ")[0]
        kept += ["..."] if line == "..." else [one for one in printed if one[1:].startswith(begins)]
    after = len(shown) - cuts[-1] - 1
    return [*kept, *printed[len(printed) - after :], *blank]


def _is_new_error(difference: Difference) -> bool:
    """Whether a page with a "?" for what a command prints is to show an error."""
    assert difference.command is not None
    errors = [line for line in difference.printed if line.startswith("error:")]
    return difference.command.printed[:1] == ["?"] and len(errors) == 1


def main() -> None:
    """Check or update the pages named, or all."""
    arguments = sys.argv[1:]
    updates = "--update" in arguments
    named = [Path(name).resolve() for name in arguments if name != "--update"] or pages()
    good = True
    for page in named:
        found = differences(page)
        if updates and found:
            good &= update(page, found)
        else:
            for difference in found:
                print(difference)
            good &= not found
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
