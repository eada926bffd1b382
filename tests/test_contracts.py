"""Which package may import which: read from the sources, so that nothing has to be imported for it.

`core` knows the model only, the packages of parts know `core` and `model`, and no package knows a published
system: these are found by name (`volvelle.core.systems`). So a system is read, changed or given away as one
folder, and all else goes on without it (``tests/test_without_systems.py``).
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from volvelle.core.systems import modules_of

SOURCE = Path(__file__).parent.parent / "src"
APART = ("systems", "incumbents")
"""Packages of published systems and of sites' schedulers, found by name alone."""
PARTS = ("policies", "placement", "estimate", "admission", "termination")
FINDS = "volvelle.core.systems"
"""The module that looks what they bring up."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the source by its name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """The module, parsed."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules of ours that these statements import."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("volvelle"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules() else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("volvelle"))


def at_the_top(module: str) -> Iterator[ast.AST]:
    """The statements that run when the module is imported, but for those under ``if TYPE_CHECKING``."""
    waiting: list[ast.AST] = [*tree(module).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def package(module: str) -> str:
    """The package directly below `volvelle` in which a module is, or the module itself."""
    return module.split(".")[1] if "." in module else ""


def imports_of_packages() -> dict[str, set[tuple[str, str]]]:
    """By package: each import of another package, as (module, imported module)."""
    found = defaultdict(set)
    for module in modules():
        for other in imported(ast.walk(tree(module))):
            if package(other) != package(module):
                found[package(module)].add((module, other))
    return found


def rings(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Those that import each other round about: strongly connected components of several (Tarjan, 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(one: str) -> None:
        number[one] = low[one] = len(number)
        stack.append(one)
        for other in sorted(edges.get(one, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[one] = min(low[one], low[other])
        if low[one] == number[one]:
            ring = stack[stack.index(one) :]
            del stack[stack.index(one) :]
            if len(ring) > 1:
                found.append(sorted(ring))

    for one in sorted(edges):
        if one not in number:
            visit(one)
    return found


@pytest.mark.parametrize(
    ("importer", "may"),
    [("core", {"model"}), *((part, {"core", "model"}) for part in PARTS)],
)
def test_a_package_imports_what_it_may(importer: str, may: set[str]) -> None:
    assert not [pair for pair in imports_of_packages()[importer] if package(pair[1]) not in may]


def test_published_systems_are_found_by_name_alone() -> None:
    found = imports_of_packages()
    known = {pair for one in found if one not in APART for pair in found[one]}
    assert not [pair for pair in known if package(pair[1]) in APART]
    named = [
        module
        for module in modules()
        if package(module) not in APART
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(tuple(f"volvelle.{apart}" for apart in APART))
    ]
    assert set(named) <= {FINDS}


def test_no_modules_import_each_other_when_they_are_imported() -> None:
    edges = {module: set(imported(at_the_top(module))) - {module} for module in modules()}
    assert not rings(edges)


def test_no_packages_import_each_other() -> None:
    edges = defaultdict(set)
    for module in modules():
        for other in imported(at_the_top(module)):
            edges[package(module)].add(package(other))
    assert not rings({one: others - {one} for one, others in edges.items()})


NO_NOUNS = ("What", "Whatever", "Who", "Whoever", "Whose", "Those", "There", "Nobody", "Told")


def test_no_docstring_begins_with_a_word_that_is_no_noun() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in modules().values()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line.lstrip().startswith(tuple(f'"""{word} ' for word in NO_NOUNS))
    ]
    assert found == [], "name the thing: 'The answer of ...', not 'What ... answers'"


def test_live_names_no_part_of_a_system() -> None:
    brought = {
        name for kind in ("policies", "placements", "estimators") for name in modules_of(kind)
    }
    named = {
        node.value
        for module in modules()
        if package(module) == "live"
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not named & brought


WITHOUT = """
import importlib, pkgutil, sys
import volvelle
from volvelle.core.parts import estimators, placements
from volvelle.core.policy import policies
from volvelle.workload.generators import generators
from volvelle.workload.readers import formats
for module in pkgutil.walk_packages(volvelle.__path__, "volvelle."):
    if not module.name.startswith(("volvelle.client.", "volvelle.live.store.migrations.")):
        importlib.import_module(module.name)
print(*[len(kind.all()) > 0 for kind in (policies, placements, estimators, generators, formats)])
sys.argv = "volvelle simulate --generate demo:jobs=30 --cluster 4x8 -p easy --out run".split()
importlib.import_module("volvelle.cli.main").main()
"""


def test_all_else_is_imported_and_simulates_without_them(tmp_path: Path) -> None:
    (tmp_path / "volvelle").mkdir()
    for one in (SOURCE / "volvelle").iterdir():
        if one.name not in APART:
            (tmp_path / "volvelle" / one.name).symlink_to(one)
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("True True True True True")
    assert (tmp_path / "run").is_dir()
