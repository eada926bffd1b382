"""Which package may import which: read from the sources, so that nothing has to be imported for it.

`core` knows the model only, the packages of parts know `core` and `model`, and no package knows a published
system: these are found by name (`volvelle.core.systems`). So a system is read, changed or given away as one
folder, and without `systems` all else works. To run the tests of all else without them::

    git worktree add ../without && cd ../without
    git rm -r -q src/volvelle/systems tests/systems && pytest -n auto --ignore=tests/golden

Tests that compare compositions of several systems by name fail then; no test fails to import.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

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
