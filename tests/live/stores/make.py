"""Writes a store as the Volvelle of a working tree makes it, as SQL: for tests of later versions.

In the tree of a version (its schema is the number in src/volvelle/live/store/schema.py)::

    PYTHONPATH=src:tests/live:tests python .../tests/live/stores/make.py > .../tests/live/stores/v7.sql

A store of a version, once it is here, is never made again. `v6.sql` has a snapshot of format 3, which was
taken where its server stopped.
"""

import sqlite3
import sys
import tempfile
from pathlib import Path

from fake_cluster import ControllerHarness, sleeping

from volvelle.live.control.requests import Cancel, Hold, SetNodeState, Submit
from volvelle.model.cluster import NodeState


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        harness = ControllerHarness.at(Path(name), "2x2", "las:round=3", estimator="measured")
        ask = harness.controller.request
        for seconds, gpus in ((2, 1), (9, 2), (30, 2), (30, 1)):
            ask(
                Submit(
                    "ada",
                    sleeping(seconds, gpus, name=f"of-{seconds}"),
                    key=f"key-{seconds}-{gpus}",
                )
            )
            harness.step(2.0)
            harness.fake_cluster.report_progress()
        ask(Submit("bob", sleeping(60, array=3)))
        harness.step(1.0)
        ask(Hold(2))
        ask(Cancel(4))
        ask(SetNodeState("node-1", NodeState.DRAINING))
        for _ in range(4):
            harness.step(1.0)
        harness.controller.stop()
        connection = sqlite3.connect(Path(name) / "store.db")
        sys.stdout.write("\n".join(connection.iterdump()) + "\n")


if __name__ == "__main__":
    main()
