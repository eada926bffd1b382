"""``python -m volvelle.live.agent FOLDER``: the agent whose settings stand in FOLDER/agent.json."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from volvelle.live.agent.controller_connection import RefusedError
from volvelle.live.agent.folders import AgentFolder, Settings
from volvelle.live.agent.node_agent import work


def main(path: Path) -> None:
    """Work in the folder ``path``. Ends with 0 when unwanted, with a sentence when refused."""
    os.umask(0o077)
    settings = msgspec.json.decode((path / "agent.json").read_bytes(), type=Settings)
    try:
        asyncio.run(work(AgentFolder(path), settings))
    except RefusedError as refusal:
        sys.exit(f"refused: {refusal}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
