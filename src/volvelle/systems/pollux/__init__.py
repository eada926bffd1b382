"""Pollux (OSDI'21): GPUs, nodes and batch sizes for the best goodput of all jobs together.

Goodput is throughput times statistical efficiency. A job's **speed-up** on a placement is its goodput there,
at its best batch size, over that on its fair share (GPUs / jobs, rounded up, on one node). Every ``round``
the allocation is searched, GPUs of jobs by nodes, that maximises the power mean with exponent -1 of

    nodes / GPUs * speed-up + 0.001

over all jobs, where the speed-up of a job whose GPUs are changed counts max(age - delay * restarts, 0) /
(age + delay) times (0.01 times at least where it waits): who was restarted often or came just now is moved
less readily. At most one job
that spans nodes has GPUs on a node, so that their exchanges do not disturb each other. A job may have at most
twice as many GPUs as it had at most so far, and starts with the fewest it runs on. The search is genetic
(`volvelle.systems.pollux.search`) and goes on from the last decision's population.

**What is known of a job** is what it tells: an agent inside it (`volvelle.simulate.agent` in simulated
worlds, `volvelle.client.pollux` in live ones) measures its steps; a model is fitted to them, and told with
the gradient noise in every `TrainingReported`; the batch size follows from both, outside the policy. The
policy never sees the measured tables.
Of a job that tells nothing (a trace without them) the batch size is fixed and goodput is throughput: the
rates by GPUs that the estimator believes, on one node. Before a job first ran its speed-up is its GPUs
over the fair share.

Departures: the paper's simulator searches with NSGA-II, whose second objective (cluster utility) only
keeps diversity; here it is one objective, and duplicates are dropped. A gang is placed whole or not
at all. GPU types are not mixed in a job, and pools keep their quotas; the paper knows neither. The
autoscaling of clusters is not built. The policy chooses nodes itself: the placement only picks GPUs on
them, and with ``none`` GPUs are counted, as if every job stood on as few nodes as it can.
"""

PARTS = {
    "policies": {
        "pollux": "policy",
    },
    "formats": {
        "pollux": "reader",
    },
}
"""The module of each part, by kind and name."""
