"""Shockwave (Zheng et al., NSDI'23): fair and efficient over time, though jobs change as they train.

Rounds of 120 s are planned a window of 20 at a time, by equation 11::

    maximise  1/(N M) sum over jobs j of rho(j)^k log UTIL(j)  -  lambda / Z0  H

UTIL is the share of its epochs that a job will have done when the window is over, with the changes of
batch size that are believed to come in it (equation 7); rho its finish-time fairness as it is estimated
now (equation 9), H a lower bound of the time until all is done (equation 10), Z0 the sum of the jobs' run
times under contention. N jobs share M GPUs. k and lambda are ``power`` and ``makespan``; weights of jobs
(`JobSpec.weight`) are their budgets, and multiply rho^k. A pool with a weight has that as its budget, as if
it were so many jobs, and its jobs divide it.

The program is solved by counts (`volvelle.systems.shockwave.rounds`): how many rounds of the window each job
has, packed into rounds so that jobs go on undisturbed. A round that a job does not run right before costs it
what a start or restore costs, which is the penalty for restarts. GPUs that the plan leaves idle go to jobs
that wait, longest run time first. A plan is made anew when jobs come or end, when GPUs come or go, when its
window is over, and (``reactive``) when a job changes its batch size.

What the paper leaves open, and what is done here:

- The order of a job's rounds within the window: who has least run time left comes first (`by_priority`).
- The contention factor of a job is that of the jobs in the system, averaged over the time since it was
  submitted, over GPUs, and at least 1.
- A job without progress has no logarithm: it counts as having a millionth. The logarithm is linear between
  fifths of a job's progress, as in the artifact (``pieces``).
- Sums of run times in H count GPUs, which makes it a bound for jobs of several GPUs.
- Equation 11 counts progress, not ends, and a last round that a job uses in part gains as much less than
  others. Jobs then wait for long a round short of their end. So an end counts beside progress
  (``ending``; 0: as the equation says). The artifact has another rule for it: rho to the power of 100 for
  jobs with less than a round left.
- With Z0 as appendix G defines it, the lambda of 0.001 of section 6.1 leaves the makespan nearly uncounted.
  The default is 10, the upper end of the range that appendix G names (0.1 to 10); the decision page on this
  tells what others give.

With several GPU types (which the paper does not have) run times, progress and rho are those on the quickest
type of each job on which its gang fits, as if it were alone there; a round on another counts as much less as
the job is slower there in its regime now, and the program also chooses types
(`volvelle.systems.shockwave.typed_rounds`). A job whose rates by type are not known is as fast on all.

With ``elastic`` (which the paper does not have either) the number of GPUs of a job that can run on several
is chosen for each window, at one price of a round on a GPU (`volvelle.systems.shockwave.gangs`). Budgets, rho
and Z0 are still those of the GPUs that its user asked for, so that rho says how fair it is to have asked for
them.

What batch sizes are believed to come is the estimator's to say (`regimes`, or `oracle`).
"""

PARTS = {
    "policies": {
        "shockwave": "policy",
    },
    "estimators": {
        "declared-regimes": "regimes",
        "regimes": "regimes",
    },
    "generators": {
        "shockwave": "generator",
    },
}
"""The module of each part, by kind and name."""
