"""PCS: predictability-centric scheduling (Faisal et al., OSDI'24, sections 3.1 and 3.3).

Weighted fair queueing over classes of job size. Queues bound what can be taken from a job later on, so
that its completion can be predicted; few queues are predictable, many are quick::

    queue    by believed size at submission: the first i with size <= threshold i (`queues`)
    weights  w_i = exp(-i W), normalised: guaranteed share w_i C of the cluster's C GPUs
    shares   weighted max-min: what a queue cannot use goes to the others by weight (`shares`)
    within   first in, first out, each job up to its cap k, the most GPUs with zeta(k) >= zeta_min,
             zeta(n) = rate(n) / n over the same on the fewest GPUs it runs on;
             what is left then lifts the caps, first in, first out

Size is GPU-seconds on the fewest GPUs the job runs on (demand_min of section 4 for one GPU), of the type
that is fastest for it. GPUs are
divided where they are only counted: below the fewest it runs on a job has its share of them in time.
Where a placement names GPUs they are given whole, and each queue has its share over time (`whole`).

The extremes of section 3.1: no thresholds is FIFO; ``own_queues=true`` gives every job a queue, i-th by
size: with ``disparity=0`` that is max-min fair, with a large one close to shortest job first.

Several GPU types are clusters side by side, with the same weights; a job that waits joins the type with the
least demand for its GPUs. With a W for each type, and for jobs that are faster on some, there is `pcs-gavel`
(`heterogeneous`).

Departures. From the paper: a pool's quota bounds what its jobs take in
turn, and no other pool's jobs are paid for it. Jobs that may not be preempted keep at least the fewest
they run on, before shares are reckoned. From PCS' simulator: it lifts caps in steps of ``delta``, for all
of a queue at once and from the queue's whole share anew, so that earlier jobs may take GPUs from later
ones; with ``delta`` given, so do we.
"""

PARTS = {
    "policies": {
        "pcs": "policy",
        "pcs-gavel": "heterogeneous",
    },
    "generators": {
        "pcs-gavel": "generator",
        "pcs-themis1": "generator",
    },
    "formats": {
        "pcs": "reader",
    },
}
"""The module of each part, by kind and name."""
