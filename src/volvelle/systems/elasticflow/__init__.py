"""ElasticFlow (ASPLOS'23): deadlines by elasticity, admission by the least share that satisfies.

Users say what a job is to do and by when, not how many GPUs it has. Jobs run on powers of two, which buddy
cells hold without fragments (``--placement buddy``), up to the level at which they are fastest.

- **Least share** (Algorithm 1; `shares.least_share`): jobs in order of deadlines are planned on the
  fewest GPUs, over time, with which they meet these. A job comes in only if its deadline and those of all
  that came in before are met then.
- **Growth** (Algorithm 2; `shares.grow`): GPUs that nobody needs now go to jobs one level at a time, by
  the GPU time that the plan has then.
- **Best effort**: a job without a deadline is planned behind all others, and grows before them from
  nothing to its first level.

The text of the paper was not at hand; the rules are those of its simulator (the public artifact). Under
that simulator's clock they give its results job by job (``tests/elasticflow_clock.py`` is
the clock, no part of the policy): its events are at least a slot apart, every decision costs every
running job seconds, jobs end with whole slots, and jobs that come in one event are admitted together or
not at all.

Departures: a job that is not admitted runs as best effort, where the simulator drops it; jobs are admitted
one by one; ends, starts and costs are those of the world (``--overheads``). A job that cannot be preempted
is planned on what it holds. GPU types are not mixed in a job: one that waits is planned on the type it may
use of which the cluster has most. Quotas of pools bind when GPUs are given, not in the plan.
"""

PARTS = {
    "policies": {
        "elasticflow": "policy",
    },
    "formats": {
        "elasticflow-measured": "reader",
    },
}
"""The module of each part, by kind and name."""
