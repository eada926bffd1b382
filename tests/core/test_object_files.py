"""Object files of kernels: each way in which one may be missing or wrong, and what happens then."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from volvelle.core import machine
from volvelle.core.machine_code import compiling, files, loading
from volvelle.core.machine_code.kernels import completed, kernel, kernels_reached, stamp
from volvelle.core.machine_code.kinds import NoCompiler, NotCompilable
from volvelle.core.machine_code.loading import address, called
from volvelle.core.paying import COMPILED_FROM, LOADED_FROM, machine_code_pays
from volvelle.core.policy import policies
from volvelle.core.registry import load_file
from volvelle.model.problems import Problem

FACTOR = 3.0
NUMBERS = np.array([1.0, 2.0])
SIGNATURE = (float, float, int)


@kernel
def power(base: float, exponent: int) -> float:
    found = 1.0
    for _ in range(exponent):
        found *= base
    return found


@kernel
def scaled(base: float, exponent: int) -> float:
    return FACTOR * power(base, exponent) / (exponent - 1)


@kernel
def halved(number: int) -> int:
    if number % 2:
        raise ValueError("it is odd")
    return number // 2


@kernel
def looked_up(place: int) -> float:
    return float(NUMBERS[place])


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(files.FOLDER, str(tmp_path / "kept"))
    forget()
    return tmp_path / "kept"


def forget() -> None:
    """Be as a process that has loaded nothing."""
    loading._loaded.clear()
    compiling._linked.clear()
    called.cache_clear()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are compiled from here on."""
    found: list[str] = []

    def object_of(loop: Callable[..., Any], *rest: Any) -> bytes:
        found.append(loop.__name__)
        content: bytes = made(loop, *rest)
        return content

    made: Any = compiling.object_of
    monkeypatch.setattr(compiling, "object_of", object_of)
    return found


def test_a_kernel_is_compiled_once_with_all_that_it_calls_and_kept(
    own_folder: Path, compilations: list[str]
) -> None:
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    forget()
    assert called(scaled, SIGNATURE)(2.0, 3) == scaled(2.0, 3)
    assert compilations == ["scaled"]
    assert [file.suffix for file in own_folder.iterdir()] == [".o"]


def test_an_exception_of_machine_code_is_that_of_the_kernel() -> None:
    with pytest.raises(ValueError, match="odd"):
        called(halved, (int, int))(3)


def test_own_kernels_divide_by_zero_as_columns_do() -> None:
    assert called(scaled, SIGNATURE)(2.0, 1) == math.inf


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:40],
        lambda content: b"",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ],
    ids=["cut in half", "cut after its digest", "empty", "one bit is another"],
)
def test_a_damaged_file_is_compiled_again(
    own_folder: Path, compilations: list[str], damage: Callable[[bytes], bytes]
) -> None:
    address(scaled, SIGNATURE)
    (file,) = own_folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    forget()
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == ["scaled", "scaled"]
    assert len(file.read_bytes()) == len(whole)


def test_a_file_that_needs_symbols_which_are_missing_is_compiled_again(
    own_folder: Path, compilations: list[str]
) -> None:
    address(scaled, SIGNATURE)
    (file,) = own_folder.iterdir()
    content = files.read(file)
    assert content is not None
    files.write(file, b"no_such_function " + content)
    forget()
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == ["scaled", "scaled"]


def test_machine_code_is_made_at_every_start_where_it_cannot_be_kept(
    own_folder: Path, compilations: list[str]
) -> None:
    own_folder.write_text("a file where the folder would be")
    for _ in range(2):
        forget()
        assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == ["scaled", "scaled"]


@pytest.mark.parametrize("differs", ["compiler", "platform"])
def test_machine_code_of_another_compiler_or_for_another_platform_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, compilations: list[str], own_folder: Path, differs: str
) -> None:
    address(scaled, SIGNATURE)
    (file,) = own_folder.iterdir()
    name = files.kept_file(own_folder, "loop").name
    if differs == "compiler":
        monkeypatch.setattr(files, "_compiler", lambda: "another")
    else:
        monkeypatch.setattr(files, "_platform", lambda: "another")
    assert files.kept_file(own_folder, "loop").name != name
    forget()
    address(scaled, SIGNATURE)
    assert compilations == ["scaled", "scaled"]
    assert file.exists()


@pytest.fixture
def brought(
    tmp_path: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> Path:
    """The file of `scaled` that the package brings; the user's cache folder has none."""
    address(scaled, SIGNATURE)
    files.bring(tmp_path / "built")
    shutil.rmtree(own_folder)
    monkeypatch.setattr(files, "BUILT", tmp_path / "built")
    monkeypatch.setattr(files, "_compiler", lambda: "another")
    forget()
    compilations.clear()
    (file,) = files.BUILT.iterdir()
    return file


def test_what_the_package_brings_is_loaded_whatever_compiler_there_is(
    own_folder: Path, brought: Path, compilations: list[str]
) -> None:
    assert loading.is_kept(scaled, SIGNATURE)
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == []
    assert not own_folder.exists(), "nothing is written"


def test_what_the_package_brings_of_other_code_is_not_loaded(
    brought: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4.0)
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == ["scaled"]


def test_a_damaged_file_of_the_package_is_left_alone_and_another_kept(
    own_folder: Path, brought: Path, compilations: list[str]
) -> None:
    damaged = brought.read_bytes()[:-1]
    brought.write_bytes(damaged)
    for _ in range(2):
        forget()
        assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert compilations == ["scaled"]
    assert brought.read_bytes() == damaged
    assert len(list(own_folder.iterdir())) == 1


def test_nothing_is_left_of_a_file_that_could_not_be_written_to_its_end(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    assert list(own_folder.iterdir()) == []


def test_a_folder_to_which_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(files.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "volvelle" / "machine_code"
    assert files.user_folder() == folder
    address(scaled, SIGNATURE)
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert files.user_folder() is None


def test_files_that_were_not_used_for_long_are_removed(own_folder: Path) -> None:
    address(power, SIGNATURE)
    (old,) = own_folder.iterdir()
    long_ago = time.time() - 40 * 86_400
    os.utime(old, (long_ago, long_ago))
    forget()
    address(power, SIGNATURE)
    assert old.stat().st_mtime > long_ago, "it is in use"
    left = own_folder / "volvelle.old.o.17.4"
    left.write_bytes(b"")
    for file in (old, left):
        os.utime(file, (long_ago, long_ago))
    address(scaled, SIGNATURE)
    assert not old.exists()
    assert not left.exists()


def test_of_two_processes_that_need_the_same_one_compiles(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from volvelle.core.machine_code.loading import called\n"
        "from volvelle.core.orders import rounded\n"
        "assert called(rounded, (float, float))(0.1) == rounded(0.1)\n"
        "print('numba' in sys.modules)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(process.communicate()[0] for process in both) == ["False\n", "True\n"]
    (file,) = (tmp_path / "kept").iterdir()
    assert files.read(file) is not None


def test_a_process_that_is_stopped_while_it_compiles_is_not_waited_for_for_ever(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, lock = os.pipe()
    other = os.fork()
    if other == 0:
        with files.alone(loading.name_of(scaled, SIGNATURE)):
            os.write(lock, b"locked")
            signal.pause()
    os.read(locked, 6)
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.1)
    try:
        assert called(scaled, SIGNATURE)(2.0, 5) == scaled(2.0, 5)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    assert compilations == ["scaled"]


FAR_APART = """
import ctypes, sys
from pathlib import Path
from volvelle.core.machine_code.loading import _load
libc, page = ctypes.CDLL(None), 4096
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
taken = lambda size: libc.mmap(None, size, 0, 0x4022, -1, 0)
lowest = min(taken(3 << 30) for _ in range(100))
for size in (1 << power for power in range(30, 11, -1)):
    while (there := taken(size)) > lowest:
        pass
    libc.munmap(there, size)
for place in range(100):
    libc.munmap(lowest + place * (3 << 30), page)
for _ in range(10):
    assert _load(Path(sys.argv[1]).read_bytes()).entry
"""
"""Loads an object file where free memory is in single pages, 3 GB apart."""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is arranged as Linux arranges it")
def test_parts_of_an_object_file_may_lie_far_apart(tmp_path: Path) -> None:
    file = tmp_path / "looked_up.o"
    file.write_bytes(compiling.object_of(looked_up, (float, int)))
    subprocess.run([sys.executable, "-c", FAR_APART, str(file)], check=True)


def test_a_key_beyond_the_compiler_is_tried_once(compilations: list[str]) -> None:
    def beyond(value: float) -> float:
        return float(str(value))

    for _ in range(2):
        with pytest.raises(NotCompilable, match="beyond"):
            address(beyond, (float, float))
    assert compilations == ["beyond"]


def _own(body: str) -> Any:
    """A kernel in a file of a user's own whose second line is ``body``."""
    names: dict[str, Any] = {"__name__": "mine"}
    exec(compile(f"def own(base, exponent):\n    {body}\n", "/home/ada/mine.py", "exec"), names)
    return kernel(names["own"])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return base.size", "Unknown attribute 'size' of type float64"),
        ("return base + 'x'", r"No implementation of .* for signature: add\(float64, .*\)"),
        ("import json", r"Use of unsupported opcode \(IMPORT_NAME\) found"),
    ],
)
def test_a_users_kernel_that_cannot_be_compiled_is_one_sentence_with_file_and_line(
    compilations: list[str], body: str, why: str
) -> None:
    with pytest.raises(Problem, match=f"mine.py, line 2: {why}. Kernels are") as error:
        address(completed(scaled, power=_own(body)), SIGNATURE)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("there", ["0.61.2", "0.69.0", None])
def test_without_a_known_version_of_the_compiler_the_error_names_the_mend(
    monkeypatch: pytest.MonkeyPatch, compilations: list[str], there: str | None
) -> None:
    def version(package: str) -> str:
        if there is None:
            raise PackageNotFoundError(package)
        return there

    monkeypatch.setattr(loading, "version", version)
    with pytest.raises(NoCompiler, match=re.escape("ip install 'numba>=0.62,<0.69'")):
        address(scaled, SIGNATURE)
    assert compilations == []


def test_a_loaded_process_needs_no_numba(own_folder: Path) -> None:
    program = (
        "import sys\n"
        "from volvelle.core.machine_code.loading import called\n"
        "from volvelle.core.orders import rounded\n"
        "called(rounded, (float, float))(0.1)\n"
        "print('numba' in sys.modules)\n"
    )
    for imported in ("True\n", "False\n"):
        run = subprocess.run(
            [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
        )
        assert run.stdout == imported


def test_the_stamp_follows_the_numbers_and_kernels_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = stamp(scaled)
    assert [each.__name__ for each in kernels_reached(scaled)] == ["scaled", "power"]
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4.0)
    assert stamp(scaled) != before
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3.0)
    assert stamp(scaled) == before
    assert stamp(scaled, "another signature") != before


def test_a_users_file_that_is_moved_is_not_compiled_again(tmp_path: Path) -> None:
    files_there = [tmp_path / place / "own.py" for place in ("here", "there")]
    for file in files_there:
        file.parent.mkdir()
        file.write_text(
            "from volvelle.core.compiled import kernel\n"
            "@kernel\ndef inverse(number: float) -> float:\n    return 1.0 / number\n"
            "@kernel\ndef twice(number: float) -> float:\n    return 2.0 * inverse(number)\n"
        )
    here, there = map(load_file, files_there)
    signature = (float, float)
    assert loading.name_of(here.twice, signature) == loading.name_of(there.twice, signature)
    there.inverse.__module__ = "volvelle.inverse"  # divides by zero as ours do
    assert loading.name_of(here.twice, signature) != loading.name_of(there.twice, signature)


def test_the_stamp_follows_the_arrays_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stamp(looked_up)
    monkeypatch.setattr(sys.modules[__name__], "NUMBERS", np.array([1.0, 3.0]))
    assert stamp(looked_up) != before


def test_the_loop_is_loaded_for_fewer_jobs_than_it_is_compiled_for(
    monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    jobs = (LOADED_FROM - 1, LOADED_FROM, COMPILED_FROM - 1, COMPILED_FROM)
    assert [machine_code_pays(many) for many in jobs] == [False, False, False, True]
    again = [machine_code_pays(many, repeatedly=True) for many in jobs]
    assert again == [False, True, True, True], "a server forecasts so many again and again"
    monkeypatch.setattr(loading, "version", lambda package: "0.1")
    assert not machine_code_pays(COMPILED_FROM), "there is none, and none can be made"
    monkeypatch.undo()
    assert compilations == []


def test_the_loop_is_loaded_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LOOP", (scaled, SIGNATURE))
    assert not machine_code_pays(LOADED_FROM)
    address(scaled, SIGNATURE)
    forget()
    assert machine_code_pays(LOADED_FROM)
    assert not machine_code_pays(LOADED_FROM - 1)


def test_the_loop_is_interpreted_where_the_policys_kernel_would_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = policies.make("fcfs-pools").kernel(named=False)
    assert kernel is not None
    monkeypatch.setattr(machine, "LOOP", (scaled, SIGNATURE))
    monkeypatch.setattr(machine, "kernels_of", lambda _, divisible: [(power, SIGNATURE)])
    address(scaled, SIGNATURE)
    assert machine_code_pays(LOADED_FROM)
    assert not machine_code_pays(LOADED_FROM, kernel)
    assert machine_code_pays(COMPILED_FROM, kernel)
    long = kernel._replace(compiled_from=COMPILED_FROM + 1)
    assert [machine_code_pays(COMPILED_FROM + more, long) for more in (0, 1)] == [False, True]
    address(power, SIGNATURE)
    assert machine_code_pays(LOADED_FROM, kernel)
