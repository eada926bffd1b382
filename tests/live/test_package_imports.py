"""Packages of `volvelle.live` import only what its README allows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import volvelle.live

ROOT = Path(volvelle.live.__file__).parent
SHARED = {
    "declared_training",
    "job_change",
    "job_request",
    "request_parts",
    "measured_rates",
    "messages",
    "notify",
    "plain_connections",
    "records",
    "role",
    "scheduler_queries",
    "serve_folder",
    "strict_model",
    "uploads",
}
BELOW_HTTP = {"agent", "control", "forecasts", "nodes", "notifications", "status", "store"}
ALLOWED: dict[str, set[str]] = {
    **dict.fromkeys(SHARED, SHARED),
    "status": set(),
    "store": SHARED,
    "forecasts": {"status", "store", *SHARED},
    "agent": SHARED,
    "nodes": {"agent", "status", *SHARED},
    "notifications": {"store", *SHARED},
    "control": {"forecasts", "nodes", "notifications", "status", "store", *SHARED},
    "http": {"config", *BELOW_HTTP, *SHARED},
    "config": {"nodes", "notifications", *SHARED},
    "serving": {"config", "http", *BELOW_HTTP, *SHARED},
    "demo_jobs": {"control", "http"},
}


def imported(file: Path) -> Iterator[str]:
    """The packages of `volvelle.live` that ``file`` imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[:2] == ["volvelle", "live"] and len(parts) > 2:
                yield parts[2]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_is_allowed(package: str) -> None:
    files = [ROOT / f"{package}.py"] if (ROOT / f"{package}.py").exists() else []
    for file in files or (ROOT / package).rglob("*.py"):
        assert set(imported(file)) <= {package, *ALLOWED[package]}, file


def test_every_package_is_listed() -> None:
    found = {
        path.stem for path in ROOT.iterdir() if path.stem[:1] not in "_." and path.suffix != ".md"
    }
    assert found == set(ALLOWED)
