"""Commands in containers, by Podman or Apptainer, whichever the node has."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_APPTAINER = ("apptainer", "singularity")
_FROM_REGISTRY = "docker://"


class NoEngineError(OSError):
    """The node runs no containers."""


class Container(NamedTuple):
    """Containers of ``image``, run by the program ``engine``.

    mounts: directories that are at the same place inside. environment: the variables that are set inside.
    devices: the GPUs, by their index on the node.
    """

    engine: str
    image: str
    directory: str
    mounts: tuple[str, ...]
    environment: Mapping[str, str]
    devices: tuple[str, ...]

    @classmethod
    def find(
        cls,
        image: str,
        directory: str,
        mounts: Sequence[Path],
        environment: Mapping[str, str],
        devices: Sequence[str],
    ) -> "Container":
        """A container by the engine that is on the PATH. Raises `NoEngineError` if there is none."""
        engine = next(filter(None, map(shutil.which, ("podman", *_APPTAINER))), None)
        if engine is None:
            raise NoEngineError(
                f"container {image!r} cannot run: neither podman nor apptainer is on this node"
            )
        places = dict.fromkeys([directory, *map(str, mounts)])
        return cls(engine, image, directory, tuple(places), environment, tuple(devices))

    def command(self, program: Sequence[str]) -> list[str]:
        """The command that runs ``program`` inside, with the node's network and shared memory, for ranks."""
        if Path(self.engine).name in _APPTAINER:
            return self._apptainer(program)
        options = ["--rm", "--network=host", "--ipc=host", "--security-opt=label=disable"]
        if os.getuid() != 0:
            options.append("--userns=keep-id")
        options += [f"--volume={place}:{place}" for place in self.mounts]
        options += [f"--device=nvidia.com/gpu={device}" for device in self.devices]
        options += [f"--env={name}" for name in self.environment]
        options += [f"--workdir={self.directory}", "--entrypoint="]
        return [self.engine, "run", *options, self.image, *program]

    def variables(self) -> dict[str, str]:
        """Variables for the engine itself, besides its own."""
        if Path(self.engine).name in _APPTAINER:
            return {f"APPTAINERENV_{name}": value for name, value in self.environment.items()}
        # Only its GPUs are there, and are counted anew.
        inside = ",".join(map(str, range(len(self.devices))))
        return {**self.environment, "CUDA_VISIBLE_DEVICES": inside}

    def _apptainer(self, program: Sequence[str]) -> list[str]:
        options = ["--cleanenv", *(["--nv"] if self.devices else [])]
        options += [f"--bind={place}" for place in self.mounts]
        local = "://" in self.image or Path(self.image).exists()
        image = self.image if local else _FROM_REGISTRY + self.image
        return [self.engine, "exec", *options, f"--pwd={self.directory}", image, *program]
