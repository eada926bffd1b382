"""``volvelle train-arrivals``, and the policy that goes by its model."""

from pathlib import Path

import pytest


def test_a_model_of_a_trace_is_gone_by(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
