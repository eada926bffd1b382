"""Lucid: jobs that hardly slow each other down share GPUs (Hu et al., ASPLOS'23).

Jobs are served by the GPU time that they are expected to take, the least first, and never preempted. Before
GPUs of its own a job is offered those of a running one (**indolent packing**), if both request as many, and

- their sharing scores add up to no more than ``capacity``. A job's score is 0 (tiny), 1 (medium) or 2
  (jumbo), by how fast it is beside others on average, of its rate alone: below 95 % medium, below 85 % jumbo;
- the newcomer's expected service is at most ``longer`` times that of the other;
- nobody shares with the other yet, and the two fit into the memory of the GPUs: it was measured how fast each
  is beside the other;
- they request no more than ``widest`` GPUs: those of one node.

The earliest started of such jobs is taken. With ``busy`` (2 for Venus in the artifact, 0 for Philly) no job
is packed where no more come in ten minutes, and the first that does not fit lets all behind it wait. When one
of two ends, the other goes on alone where it is.

The text of the paper was not at hand: the rules and numbers are those of the public artifact, whose tables of
interference and labels are not part of this repository. Departures: arrivals are counted over the last hour,
where the artifact predicts the next one; scores follow from the measured interference itself, where a
decision tree finds them from a job's use of the GPU (the thresholds are those with which it is trained); the
additive model of run times (GA2M) is not built, and `volvelle.systems.helios` stands in for it. GPUs are
counted, so that GPUs with two jobs have no names (decision 112).

What is profiled first, and for how long, a cluster's ``[profiling]`` says: jobs that end meanwhile never come
here. The artifact's partition takes the jobs with the fewest GPUs first and leaves wide ones out; ours is
first come, first served, of all.
"""

PARTS = {
    "policies": {
        "lucid": "policy",
    },
    "estimators": {
        "profiled-sharing": "estimator",
    },
}
"""The module of each part, by kind and name."""
