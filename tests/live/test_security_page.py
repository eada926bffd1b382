"""Every promise of docs/background/security.md names tests that there are."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent.parent / "docs" / "background" / "security.md"


def test_every_promise_names_its_tests() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        files = re.findall(r"`(?:tests/(\w+)/)?(test_\w+\.py)`", row)
        assert files, row
        code = "".join((TESTS.parent / (room or "live") / file).read_text() for room, file in files)
        assert [
            name for name in re.findall(r"`(test_\w+)`", row) if f"def {name}(" not in code
        ] == []
