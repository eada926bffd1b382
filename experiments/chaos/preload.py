"""Loads all modules that a server uses, so that processes forked afterwards start fast.

Only the process of which commands are forked imports it (`commands`).
"""

import tempfile
from importlib import import_module
from pathlib import Path

from volvelle import __version__
from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.recovery import first_batch, recover_state
from volvelle.live.nodes.executor import executors
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster

for loaded_late in (
    "uvicorn.lifespan.off", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
    "volvelle.live.agent.node_agent", "volvelle.live.serving",
):  # fmt: skip
    import_module(loaded_late)
executors.all()
with tempfile.TemporaryDirectory() as folder:
    store = Store.open(f"sqlite:///{Path(folder) / 'store.db'}")
    first_batch(
        recover_state(
            store,
            Header(
                volvelle=__version__,
                cluster=parse_cluster("2x2"),
                composition=WrittenComposition("las:round=4", "consolidated", estimator="measured"),
            ),
            0.0,
        ).state
    )
    store.close()
