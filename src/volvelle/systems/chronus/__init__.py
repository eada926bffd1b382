"""Chronus (Gao et al., SoCC'21): deadlines that are guaranteed when a job comes, and kept by leases.

Leases nest: an **SLO lease** (``lease``, 20 min) is ``parts`` best-effort leases (5 min). GPUs change hands
when a best-effort lease ends; between that, who comes may start on idle GPUs, and a job that would miss its
deadline otherwise takes GPUs that nobody reserved. In each lease

1. jobs go first whose reservation holds this lease (`volvelle.systems.chronus.reservations`);
2. then jobs with deadlines but without a guarantee that need this lease: for these, the smallest first, the
   latest free slots beside all reservations are looked for anew each time, so that a smaller job that comes
   takes the place of a larger one;
3. all others by least remaining GPU-seconds (the paper's SRTF, weighted by GPUs), on what is left: best
   effort, jobs without a guarantee, and guaranteed jobs with time to spare, which count as ``yielding`` times
   as large. Jobs whose last deadline is out of reach go last.

A job with deadlines is answered when it comes: it is guaranteed the best step for which there is a
reservation beside all that is guaranteed, or told the earliest finish that could be. When an SLO lease ends,
a program selects among jobs without a guarantee (`volvelle.systems.chronus.selection`). Guaranteed jobs are
never given up for others; a guarantee is taken back where its job cannot be through in time any more.

Two limits say no to jobs that would fit, because a guarantee to them costs others theirs:

* GPUs' time is protected for smaller jobs that are still to come, at the rate at which they came in the last
  ``period`` (Littlewood's rule of booking limits, 1972): a guarantee is made only if, until the deadline,
  what is reserved, the job and they have room together. So the smallest jobs may use all that is free.
* the jobs of the last ``period`` that were no larger than this one (GPU-seconds) could have run on the
  whole cluster in that time. At a lasting overload somebody has to wait; by this rule these are the largest,
  as under least remaining service, and not those that came when all was guaranteed.

Beside these ``user_share`` and ``pool_share`` limit what guaranteed jobs of one user or pool request together
(section 3.3.2 worries about users who abuse deadlines); who is over it is told so.

A job that starts over when it is stopped is reserved slots without a break, and is not stopped any more once
these begin.

With true estimates, and where placements never refuse, no failures and no node changes, no guarantee is
broken. Placement ``round-up`` refuses gangs for which there is no cell: with ``rounded`` gangs are counted as
it counts them (Eq. 6), in reservations and among jobs that start, and with ``move`` it finds their places.

Estimates may be wrong. How long the believed seconds of a job take is seen while it runs, and what is
reserved for it follows; for jobs that did not run yet, all but the share ``broken`` of those that did count.
Beside that there is a ``margin`` that adapts: it grows with each broken guarantee and shrinks with each that
is kept, so that in the long run at most the share ``broken`` of guarantees is (Gibbs and Candès, NeurIPS'21).

Real stops and starts take longer than is declared. Where one was seen to, reservations count how late starts
are (all but the share ``broken`` of the late ones), and a guarantee that seems missed by 1 % of what is left,
or by a second, is not taken back for that.

Departures from the paper. Its leases of guaranteed jobs are whole SLO leases; here a reservation counts
best-effort leases, so that a job of 21 min does not reserve 40, and counts starts. Its program decides
which guaranteed jobs run now; here that follows from reservations, so that no decision waits for a solver.
Its SRTF serves best effort only. Several GPU types: a guarantee is kept on one of them, to which its job is
moved in time where it began on another. The seconds of a job that changes its batch size are those of all
batch sizes that are still to come. Guarantees to jobs of a pool
count as if all of them ran at once. A job that may not be preempted is guaranteed something when it starts.
"""

PARTS = {
    "policies": {
        "chronus": "policy",
    },
    "placements": {
        "local-search": "local_search",
        "round-up": "round_up",
    },
    "estimators": {
        "profiled": "estimator",
    },
    "formats": {
        "chronus": "reader",
    },
}
"""The module of each part, by kind and name."""
