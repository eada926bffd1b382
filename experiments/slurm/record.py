"""A recording of a small Slurm of real daemons: jobs that sleep come for some minutes, attach looks on.

    python experiments/slurm/record.py FOLDER [--minutes 12] [--users ann,bob,cleo]

Needs Debian's slurmctld, slurmd and munge, root, and the users. The recording that the tutorial replays was
made so.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from slurm_daemons import Daemons, missing


def submit(daemons: Daemons, rng: random.Random, user: str) -> None:
    """A job of some GPUs and minutes, in one of eight cases an array, in one of eight after another."""
    seconds = min(max(rng.lognormvariate(4.3, 0.7), 10.0), 400.0)
    minutes = max(round(seconds * rng.choice([1.3, 2.0, 3.0]) / 60.0), 1)
    kind, gpus = rng.random(), rng.choice([1, 1, 2, 2, 4, 8])
    more = ["--array=1-3%2"] if kind < 0.125 else []
    if kind > 0.875:
        newest = daemons.run("squeue", "-h", "-o", "%A", "-S", "-V").split()
        more = [f"--dependency=afterany:{newest[0]}"] if newest else []
    nodes = 2 if gpus == 8 else 1
    daemons.run(
        *("sbatch", f"--uid={user}", "-o", "/dev/null", "-D", "/", f"-t{minutes}", f"-N{nodes}"),
        *(f"--job-name={rng.choice(['train', 'eval', 'sweep'])}", f"--gres=gpu:{gpus // nodes}"),
        *more,
        f"--wrap=sleep {seconds:.0f}",
    )


def main() -> None:
    """Start Slurm, let jobs come, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--users", default="ann,bob,cleo")
    asked = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # slurmd runs the jobs' scripts out of it, as their users
        daemons = Daemons(Path(place))
        command = ["attach", "slurm", "--record", str(asked.folder), "--every", "10s"]
        looks_on = subprocess.Popen(
            [sys.executable, "-m", "volvelle.cli.main", *command],
            env=daemons.environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 60.0 * asked.minutes
            while time.monotonic() < until:
                submit(daemons, rng, rng.choice(asked.users.split(",")))
                time.sleep(rng.expovariate(1.0 / 11.0))
        finally:
            looks_on.terminate()
            looks_on.wait()
            daemons.stop()


if __name__ == "__main__":
    main()
