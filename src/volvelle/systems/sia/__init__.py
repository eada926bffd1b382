"""Sia (SOSP'23): goodput over GPU types and counts, by an integer program each round.

A job runs in one **configuration**: a number of GPUs of one type, on one node a power of two, beyond that
whole nodes. Its goodput in each, over the least of them, is g; what a change of configuration costs is
r = max(age - delay * restarts, 0) / (age + delay), as in Pollux, and 1 where nothing changes. Every ``round``
one configuration at most is chosen for each job, within the GPUs of each type, so that

    sum over the jobs that run of   unserved - (r g)^power - (change where it is another one)

is greatest. With ``power`` below 0 a job that has little gains most by more, which is fair. A job starts on
as few GPUs as it can, and has at most twice as many as it had at most so far.

The text of the paper was not at hand: the program and its parameters are those of the public artifact's
simulator. **Goodput** is throughput here, by the rates that the estimator believes on each type: batch
sizes stay as they are (`volvelle.systems.pollux` tunes them, on one type). So rates that are unknown before
a job ran (the artifact's bootstrapping) and jobs that are parallel in several ways are not built. Pools keep
their quotas, which the artifact does not know; where nodes of a type differ, the largest counts.
"""

PARTS = {
    "policies": {
        "sia": "policy",
    },
    "formats": {
        "sia": "reader",
    },
}
"""The module of each part, by kind and name."""
