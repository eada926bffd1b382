"""Synergy: who runs is for another policy to say; how CPUs and memory are divided is Synergy's (OSDI'22).

``order`` names that policy: ``synergy-tune:order=srtf``. It gives out the GPUs as it would by itself; the
placement chooses them (``multi-resource`` is Synergy's). Then, at every decision, CPUs and memory are
divided among all jobs that have GPUs, without a restart of any: an amount per GPU, the same for all GPUs
of a job, so that a gang over several nodes has CPUs and memory on each in proportion to its GPUs there.

- ``synergy-proportional``, the baseline: the amounts that a node's GPUs come with. So does every policy
  that is not Synergy's; this one decides in the same rounds as the others here.
- ``synergy-tune``: jobs are served in the order of the inner policy. Each gets its **demand**, the least
  with which it runs at full rate, where that is left; else its proportional share, or as little as is no
  slower; where even that is not left, earlier jobs that have more are put back to theirs.
- ``synergy-opt``: the division with the greatest throughput under the same promise, as a linear program;
  how far from its bound the division is, is told as ``solver_gap``.

Under all three no job is slower than with its proportional share. Rounds are 300 s, as in the authors'
simulator (github.com/msr-fiddle/synergy).

``synergy-tune:leftovers=true`` is ours: what nobody holds afterwards is given to the jobs that fell back,
in order. The published rule leaves idle what is not enough for a whole demand.

Departures: the authors place all jobs anew in every round; here a job stays where it is, and only CPUs
and memory move. Storage bandwidth, the fourth resource of their simulator, is not modelled. Profiles are
known where the estimator knows the truth (Synergy measures them before a job starts); to a job without
one the demand is what its user declares, else its proportional share. CPUs may be given in fractions.
"""

PARTS = {
    "policies": {
        "synergy-opt": "policy",
        "synergy-proportional": "policy",
        "synergy-tune": "policy",
    },
    "placements": {
        "multi-resource": "placement",
    },
    "generators": {
        "synergy": "generator",
    },
}
"""The module of each part, by kind and name."""
