"""``python -m volvelle.live.agent FOLDER``: the agent with the settings in FOLDER/agent.json."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from volvelle.live.agent.controller_connection import RefusedError
from volvelle.live.agent.folders import AgentFolder, AgentSettings
from volvelle.live.agent.node_agent import run_agent


def main(path: Path) -> None:
    """Run the agent in ``path``. Exit status 0 when it is not needed, 1 with a message when refused."""
    os.umask(0o077)
    settings = msgspec.json.decode((path / "agent.json").read_bytes(), type=AgentSettings)
    try:
        asyncio.run(run_agent(AgentFolder(path), settings))
    except RefusedError as error:
        sys.exit(f"refused: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
