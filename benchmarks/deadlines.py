"""Deadlines promised and kept: Chronus' jobs under `chronus`, its baselines, and with wrong estimates.

    python benchmarks/deadlines.py [--shared ../shared] [--whole]

Reward missed (wDMR as Chronus' simulator counts it), best effort's mean JCT in minutes, promises made and
broken, CPU seconds. GPUs are only counted, and a resume costs what the simulator charges.

    jobs of MIX2, nodes                          missed  best effort  promised  broken  CPU s
    1,000 on 48: chronus                         0.0199        134.3       788       0    1.3
                 the simulator, HiGHS, 10 min    0.0200        156.7         -       -    6.0
                 srsf                            0.0394        146.1         -       -    0.1
                 genie                           0.0000        308.0         -       -    0.1
    1,000 on 24: chronus                         0.3188        208.4       600       0    1.1
                 srsf                            0.3756        222.7         -       -    0.1
    all on 120:  chronus                         0.0063        296.2    27,423       0   17
                 srsf                            0.0072        306.3         -       -    0.4

The rows of all jobs were made when `chronus` looked back a day, not three hours, on a busy machine.
"""

import argparse
import sys
import time
from pathlib import Path

from measure import peak_megabytes

sys.path.append(str(Path(__file__).parents[1] / "experiments" / "chronus"))
from chronus_jobs import Figures, chronus_run

BASELINES = ("srsf", "edf", "genie", "yarn-cs", "tiresias", "themis", "easy")
ALL = 10**9


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description="deadlines promised and kept")
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--whole", action="store_true", help="all of MIX2 too")
    options = parser.parse_args()
    if not options.shared.exists():
        parser.error(f"{options.shared} is not there: say by --shared where the data are")
    print("  jobs nodes policy     estimates          missed  best effort  promised  broken  CPU s")
    for jobs, nodes in ((1000, 48), (1000, 24)):
        for policy in ("chronus", *BASELINES):
            show(options.shared, jobs, nodes, policy, "oracle")
    for error in (0.1, 0.2, 0.4):
        show(options.shared, 1000, 48, "chronus", f"noisy:error={error}")
        show(options.shared, 1000, 24, "chronus", f"noisy:error={error}")
    if options.whole:
        for estimator in ("oracle", "noisy:error=0.1", "noisy:error=0.2", "noisy:error=0.4"):
            show(options.shared, ALL, 120, "chronus", estimator)
        show(options.shared, ALL, 120, "srsf", "oracle")
    print(f"{peak_megabytes():.0f} MB at most")


def show(shared: Path, jobs: int, nodes: int, policy: str, estimator: str) -> None:
    """Run one and print its row."""
    began = time.process_time()
    outcomes = chronus_run(shared, jobs, nodes, policy, estimator)
    seconds = time.process_time() - began
    one = Figures.of(outcomes)
    print(
        f"{len(outcomes):>6} {nodes:>5} {policy:<10} {estimator:<18} {one.missed:6.4f}"
        f"  {one.best_effort_minutes:11.1f}  {one.promised:8}  {one.broken:6}  {seconds:5.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
