"""The size and shape of the source: python benchmarks/house.py CHECKOUT [CHECKOUT ...]

A CHECKOUT is a folder with ``src/volvelle`` or a revision of this repository; each is a column. All figures
come from the syntax trees of its source; a figure that needs judgement is counted by the rule printed below
the table. ``--names`` prints, for the last column, the names behind each count.
"""

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PACKAGE = "volvelle"
ATTRIBUTE = "exclusive"
"""The attribute of a job whose mentions are counted."""
INTERFACES = ("Policy", "Placement", "Estimator", "Admission")
DECISIONS = {
    "a key": ("key", "order_key", "order"),
    "allocate": ("allocate",),
    "kernel": ("kernel",),
    "queues": ("queue_kernels",),
    "decide": ("decide",),
}
"""Dialects, by the members of a policy in which each is written."""
IDENTITY = ("name", "kind", "source", "optimises", "model_config")
LONGEST_FILE, MOST_PARAMETERS = 400, 8
MUTATORS = ("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft",
            "remove", "setdefault", "sort", "update", "fill")  # fmt: skip
RULES = """
lines            of *.py as `wc -l` counts them
drivers          functions that call the forward loop (`advance`), but for its own doors of that name
copies           functions that copy or overwrite tables of the core's state (copy, become), Scheduler.fork,
                 and classes made `of` a scheduler from which a `scheduler` is made
dialects         of: a key, allocate, kernel, queue_kernels, decide, those in which policies are written
hooks            public members of Policy, Placement, Estimator, Admission and the bases that they share,
                 other than name, kind and source, that a subclass defines; users are these subclasses
attributes       that methods of Scheduler, or of a base of it, assign to self
writers          functions outside of these classes with a parameter of such a type through which they
                 assign, or call a mutating method, or which they pass to such a function
attribute's files   source files in which a name, attribute, keyword or string is `exclusive`
circles          strongly connected components of modules, by imports that run at import time, and by
                 all imports (for type checking and in functions, too)
names imported   from modules of the package; constants are written in capitals
""".strip()


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: str
    lines: int
    tree: ast.Module


@dataclass(frozen=True)
class Class:
    """One class: its bases and the members that its body defines."""

    module: str
    name: str
    bases: tuple[str, ...]
    node: ast.ClassDef = field(repr=False)

    @cached_property
    def members(self) -> set[str]:
        """Names of methods, properties and attributes."""
        found = set()
        for node in self.node.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        return found


@dataclass(frozen=True)
class Function:
    """One function or method; ``home`` is the class that it is in, empty for none."""

    module: str
    home: str
    node: ast.FunctionDef | ast.AsyncFunctionDef = field(repr=False)

    @property
    def label(self) -> str:
        """Where it is."""
        return f"{self.module}:{self.home + '.' if self.home else ''}{self.node.name}"

    @property
    def parameters(self) -> list[ast.arg]:
        """All parameters but a method's own object."""
        of = self.node.args
        every = [*of.posonlyargs, *of.args, *of.kwonlyargs]
        every += [one for one in (of.vararg, of.kwarg) if one is not None]
        return every[1:] if every and every[0].arg in ("self", "cls") else every


class House:
    """The source of one checkout."""

    def __init__(self, source: Path) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(source.rglob("*.py")):
            inside = path.relative_to(source)
            parts = [PACKAGE, *inside.with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            self.modules[name] = Module(name, str(inside), text.count("\n"), ast.parse(text))
        self.classes = [
            Class(module.name, node.name, tuple(map(_last, node.bases)), node)
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef)
        ]
        self.functions = [
            one for module in self.modules.values() for one in _functions(module.tree, module.name)
        ]

    def lines(self) -> dict[str, int]:
        """By package; single modules at the top are one entry."""
        lines: Counter[str] = Counter()
        for module in self.modules.values():
            top, *below = module.path.split("/")
            lines[top if below else "(modules)"] += module.lines
        return dict(sorted(lines.items()))

    def drivers(self) -> list[str]:
        return [
            function.label
            for function in self.functions
            if not re.fullmatch(r"_?advance(_at)?", function.node.name)
            and any(_last(call.func) == "advance" for call in _calls(function.node))
        ]

    def copies(self) -> list[str]:
        found = [
            function.label
            for function in self.functions
            if f"{function.module}.".startswith(f"{PACKAGE}.core.")
            and (
                function.node.name.strip("_") == "become"
                or (function.node.name == "copy" and function.home == "State")
                or (function.node.name == "fork" and function.home in self.schedulers)
            )
        ]
        for one in self.classes:
            takes = [
                parameter
                for function in self.functions
                if (function.module, function.home, function.node.name)
                == (one.module, one.name, "of")
                for parameter in function.parameters
                if self._is_scheduler(parameter)
            ]
            if takes and "scheduler" in one.members:
                found.append(f"{one.module}:{one.name}")
        return found

    def dialects(self) -> dict[str, int]:
        """How many modules write a policy in each."""
        members: dict[str, set[str]] = defaultdict(set)
        for one in self.subclasses("Policy"):
            for member in one.members:
                members[member].add(one.module)
        for module in self.modules.values():
            for call in _calls(module.tree):
                if _dotted(call.func) == "policy.order":
                    members["order"].add(module.name)
        counted = {
            dialect: len(set().union(*(members[name] for name in names)))
            for dialect, names in DECISIONS.items()
        }
        return {dialect: count for dialect, count in counted.items() if count}

    def hooks(self) -> dict[str, list[str]]:
        """The subclasses that define each member of an interface."""
        by_name = {one.name: one for one in self.classes if ".core." in one.module}
        users: dict[str, list[str]] = {}
        for interface in INTERFACES:
            owners = [by_name[interface]] if interface in by_name else []
            for owner in owners:
                owners += [by_name[base] for base in owner.bases if base in by_name]
            members = {member for owner in owners for member in owner.members}
            for one in self.subclasses(interface):
                if one.name == "OrderPolicy":
                    continue
                for member in one.members & members:
                    if not member.startswith("_") and member not in IDENTITY:
                        users.setdefault(f"{interface}.{member}", []).append(one.name)
        return users

    def subclasses(self, base: str) -> list[Class]:
        """All classes below ``base``, which is known by its name."""
        below, found = {base}, dict[tuple[str, str], Class]()
        while True:
            new = [
                one
                for one in self.classes
                if below & set(one.bases) and (one.module, one.name) not in found
            ]
            if not new:
                return list(found.values())
            found |= {(one.module, one.name): one for one in new}
            below |= {one.name for one in new}

    def scheduler_attributes(self) -> list[str]:
        found = set()
        for function in self.functions:
            if function.home in self.schedulers and function.module.startswith(f"{PACKAGE}.core."):
                for target in _targets(function.node):
                    if _dotted(target).startswith("self.") and _dotted(target).count(".") == 1:
                        found.add(_dotted(target))
        return sorted(found)

    def writers(self) -> list[Function]:
        """Functions outside of the scheduler that write its state."""
        taking = {}
        for function in self.functions:
            names = {one.arg for one in function.parameters if self._is_scheduler(one)}
            if names and function.home not in self.schedulers:
                taking[function.label] = function, names
        writing = {label for label, (one, names) in taking.items() if _writes(one.node, names)}
        while True:
            names_of_writers = {label.split(":")[1].split(".")[-1] for label in writing}
            new = {
                label
                for label, (one, names) in taking.items()
                if label not in writing and _passes(one.node, names, names_of_writers)
            }
            if not new:
                return [taking[label][0] for label in sorted(writing)]
            writing |= new

    @cached_property
    def schedulers(self) -> set[str]:
        """The names of Scheduler and of its bases in the core."""
        core = {one.name: one for one in self.classes if f"{PACKAGE}.core." in one.module}
        found, ahead = set[str](), ["Scheduler"]
        while ahead:
            if (name := ahead.pop()) in core:
                found.add(name)
                ahead += core[name].bases
        return found

    def _is_scheduler(self, parameter: ast.arg) -> bool:
        annotation = parameter.annotation
        if isinstance(annotation, ast.Constant):
            return annotation.value in self.schedulers
        return annotation is not None and _last(annotation) in self.schedulers

    def files_of_attribute(self) -> list[str]:
        return [
            module.path
            for module in self.modules.values()
            if any(_mentions(node) for node in ast.walk(module.tree))
        ]

    def circles(self, *, all_imports: bool) -> list[list[str]]:
        """Modules that import each other, the largest circle first."""
        graph = {
            module.name: set(self._imported(module, all_imports=all_imports)) - {module.name}
            for module in self.modules.values()
        }
        return sorted((sorted(one) for one in _components(graph) if len(one) > 1), key=len)[::-1]

    def names_imported(self) -> list[str]:
        return [
            alias.name
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE
            for alias in node.names
            if f"{node.module}.{alias.name}" not in self.modules
        ]

    def _imported(self, module: Module, *, all_imports: bool) -> Iterator[str]:
        nodes = ast.walk(module.tree) if all_imports else _at_import(module.tree.body)
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.modules)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    if inner in self.modules:
                        yield inner
                    elif node.module in self.modules:
                        yield node.module


def _functions(node: ast.AST, module: str, home: str = "") -> Iterator[Function]:
    """All functions below ``node``; one within another belongs to the outer one's class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(module, home, child)
        inner = child.name if isinstance(child, ast.ClassDef) else home
        yield from _functions(child, module, inner)


def _last(node: ast.AST) -> str:
    """The last name of a dotted one, without what is in brackets."""
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return _dotted(node).split(".")[-1]


def _dotted(node: ast.AST) -> str:
    """A chain of names and attributes, as far as it is one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes, items and calls without arguments begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def _targets(function: ast.AST) -> Iterator[ast.expr]:
    """All that is assigned to or deleted in a function."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = list(node.targets)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
            targets = [node.target]
        for target in targets:
            yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _aliases(function: ast.AST, names: set[str]) -> set[str]:
    """``names`` and the local names of what is reached through them."""
    reached = set(names)
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                chain = isinstance(value, (ast.Attribute, ast.Subscript))
                if chain and isinstance(name, ast.Name) and _root(value) in reached:
                    reached.add(name.id)
    return reached


def _writes(function: ast.AST, names: set[str]) -> bool:
    """Whether a function assigns through one of ``names`` or calls a mutating method there."""
    reached = _aliases(function, names)
    if any(not isinstance(one, ast.Name) and _root(one) in reached for one in _targets(function)):
        return True
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in MUTATORS
        and not isinstance(call.func.value, ast.Name)
        and _root(call.func.value) in reached
        for call in _calls(function)
    )


def _passes(function: ast.AST, names: set[str], writers: set[str]) -> bool:
    """Whether a function passes one of ``names`` itself to a function of one of the names of ``writers``."""
    return any(
        _last(call.func) in writers
        and any(isinstance(argument, ast.Name) and argument.id in names for argument in call.args)
        for call in _calls(function)
    )


def _mentions(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.strip("-") == ATTRIBUTE
    named = getattr(node, "attr", None), getattr(node, "id", None), getattr(node, "arg", None)
    return ATTRIBUTE in named


def _at_import(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported; blocks for type checkers are left out."""
    for node in body:
        if isinstance(node, ast.If) and _last(node.test) == "TYPE_CHECKING":
            yield from _at_import(node.orelse)
            continue
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for block in ("body", "orelse", "finalbody"):
                yield from _at_import(getattr(node, block, []))


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components: of all that a module reaches, what reaches it."""
    reach = {name: _reached(graph, name) for name in graph}
    found, seen = [], set[str]()
    for name in graph:
        if name not in seen:
            component = {other for other in reach[name] if name in reach[other]} | {name}
            seen |= component
            found.append(component)
    return found


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - reached
        reached |= new
        ahead += new
    return reached


Figures = dict[str, tuple[str, list[str]]]
"""By the name of a line: what is printed, and the names behind it."""


def figures(house: House) -> Figures:
    """All figures of a checkout, in the order in which they are printed."""
    by_package = house.lines()
    found: Figures = {
        f"lines in {package}": (f"{lines:,}", []) for package, lines in by_package.items()
    }
    everything = sum(by_package.values())
    apart = by_package.get("systems", 0) + by_package.get("incumbents", 0)
    found["lines without systems and incumbents"] = f"{everything - apart:,}", []
    found["lines in all"] = f"{everything:,}", []
    hooks, writers = house.hooks(), house.writers()
    dialects = house.dialects()
    files = sorted({one.module for one in writers})
    long = [
        f"{module.path} {module.lines}"
        for module in house.modules.values()
        if module.lines > LONGEST_FILE
    ]
    wide = [one.label for one in house.functions if len(one.parameters) > MOST_PARAMETERS]
    imported = house.names_imported()
    counted = {
        "drivers of the forward loop": house.drivers(),
        "copies of a scheduler": house.copies(),
        "dialects of a policy": [f"{name}: {count} modules" for name, count in dialects.items()],
        "hooks of parts": [f"{name}: {len(users)}" for name, users in sorted(hooks.items())],
        "hooks with one user": [
            f"{name}: {users[0]}" for name, users in sorted(hooks.items()) if len(users) == 1
        ],
        "attributes of Scheduler": house.scheduler_attributes(),
        "writers of its state": [one.label for one in writers],
        "files of these writers": files,
        f"files that mention {ATTRIBUTE}": house.files_of_attribute(),
        f"files above {LONGEST_FILE} lines": long,
        f"functions with more than {MOST_PARAMETERS} parameters": wide,
    }
    found |= {name: (str(len(names)), names) for name, names in counted.items()}
    for label, every in (("at import", False), ("by all imports", True)):
        circles = house.circles(all_imports=every)
        sizes = ", ".join(str(len(one)) for one in circles[:6]) + (", ..." if circles[6:] else "")
        found[f"circles {label}"] = (
            f"{len(circles)}: {sizes}" if circles else "0",
            [" ".join(one) for one in circles],
        )
    constants = [name for name in imported if name.isupper()]
    found["names imported (constants)"] = f"{len(imported):,} ({len(constants):,})", []
    return found


def unpacked(checkout: str, scratch: Path) -> Path:
    """The ``src`` of a folder, or of a revision of the repository that this file is in."""
    if (source := Path(checkout).resolve() / "src").is_dir():
        return source
    here = Path(__file__).parent.parent
    command = ["git", "-C", str(here), "archive", checkout, "src"]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"{checkout} is neither a folder with src nor a revision")
    folder = scratch / checkout.replace("/", "_")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument("--names", action="store_true", help="what is behind the last column")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        columns = [
            figures(House(unpacked(one, Path(scratch)) / PACKAGE)) for one in options.checkouts
        ]
    print(f"{'':44}" + "".join(f"{one[-20:]:>22}" for one in options.checkouts))
    lines = dict.fromkeys(sorted(
        (name for column in columns for name in column), key=lambda name: _place(columns, name)
    ))  # fmt: skip
    for name in lines:
        shown = [column[name][0] if name in column else "-" for column in columns]
        print(f"{name:44}" + "".join(f"{value:>22}" for value in shown))
        if options.names and name in columns[-1]:
            print("".join(f"    {one}\n" for one in columns[-1][name][1]), end="")
    print(f"\n{RULES}")


def _place(columns: list[Figures], name: str) -> tuple[int, str | int]:
    """Packages by name, then the other figures as they come."""
    if name in ("lines in all", "lines without systems and incumbents"):
        return 1, name
    if name.startswith("lines in "):
        return 0, name
    return 2, [*columns[-1]].index(name)


if __name__ == "__main__":
    main()
