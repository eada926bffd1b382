"""HiveD (OSDI'20) without preemption, as anticipatory scheduling compares itself with it (SIA, section 6.1).

A pool is a virtual cluster. Its jobs are **dedicated**, first come, first served, as far as what it owns
goes; a job behind the first that exceeds it may start as an **opportunistic** job on any idle GPUs, first
come, first served over all pools, and stays one to its end. In HiveD dedicated jobs preempt opportunistic
ones. Here no job is preempted, which is the meaning of the star of HiveD*: a dedicated job without idle GPUs
waits, and GPUs that are idle or come free are kept for such jobs, so that no new opportunistic job delays
them further.

HiveD leaves the order within a virtual cluster, and the choice of opportunistic jobs, to users; here both are
as above. GPUs are counted; a placement (``buddy``) keeps cells. Jobs of no pool, and jobs wider than their
pool, are opportunistic. Jobs are gangs.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.columns import COUNT, GPUS, HELD, POOL, TYPES
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET_REASON, ClusterNow, keep_running, let_have
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.gangs import gang_type

_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)
_RESERVED = int(Reason.RESERVED)

ROLE = COUNT
"""Own column: how a job that runs was started."""
UNKNOWN, DEDICATED, OPPORTUNISTIC = 0.0, 1.0, 2.0


@policies.register
class HivedNonpreemptive(Policy):
    """Each pool first come, first served on what it owns; idle GPUs to whoever comes first."""

    name: ClassVar[str] = "hived-nonpreemptive"
    source: ClassVar[str] = "HiveD (OSDI'20); anticipatory scheduling (SIA) section 6.1, HiveD*"
    optimises: ClassVar[str] = "utilisation, with what a pool owns for its own jobs first"
    work_conserving: ClassVar[bool] = False
    keeps_running: ClassVar[bool] = True
    gangs: ClassVar[bool] = True
    columns: ClassVar[int] = 1

    def kernel(self, *, named: bool) -> Kernel | None:
        """Keep running jobs, then start dedicated jobs, then opportunistic ones."""
        return Kernel(decide, np.zeros(0), rates=False)


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`Kernel`), without a memory."""
    out[:] = serve_roles(jobs, cluster.capacity, cluster.quota, cluster.owned, cluster.lends)
    return INFINITY


@compiled
def serve_roles(
    matrix: Floats, capacity: Floats, quota: Floats, owned: Floats, lends: Floats
) -> Floats:
    """Dedicated jobs, then opportunistic ones, each by submission. `ROLE` is changed in place.

    Returns (4, jobs): as `volvelle.core.fill.fill` does, and the order.
    """
    jobs = matrix.shape[1]
    given = np.zeros((4, jobs))
    free, left, own = capacity.copy(), quota.copy(), owned.copy()
    keep_running(matrix, free, left, given)
    for row in range(jobs):
        held, pool = matrix[HELD, row], int(matrix[POOL, row])
        if held == 0.0:
            matrix[ROLE, row] = UNKNOWN
            continue
        if matrix[ROLE, row] == UNKNOWN:  # it ran before this policy came
            within = pool >= 0 and held <= own[pool] + SAME_AMOUNT
            matrix[ROLE, row] = DEDICATED if within else OPPORTUNISTIC
        if matrix[ROLE, row] == DEDICATED:
            own[pool] -= held
    idle = free.copy()  # also what is kept for dedicated jobs that wait
    spent = np.zeros(len(owned), dtype=np.bool_)  # whose next job exceeds what they own
    for role in (DEDICATED, OPPORTUNISTIC):
        for row in range(jobs):
            need, pool = matrix[GPUS, row], int(matrix[POOL, row])
            if matrix[HELD, row] > 0.0 or matrix[ROLE, row] == DEDICATED:
                continue
            if role == DEDICATED:
                if pool < 0 or spent[pool] or need > owned[pool] + SAME_AMOUNT:
                    continue
                if need > min(own[pool], left[pool]) + SAME_AMOUNT:
                    spent[pool] = True
                    continue
                own[pool] -= need
            elif pool >= 0 and (lends[pool] == 0.0 or need > left[pool] + SAME_AMOUNT):
                given[TARGET_REASON, row] = _QUOTA
                continue
            chosen = gang_type(need, matrix[TYPES, row], free)
            if chosen >= 0:
                let_have(matrix, row, chosen, need, free, left, given)
                idle[chosen] -= need
            elif role == DEDICATED:
                given[TARGET_REASON, row] = _GPUS_SHORT
                _keep_back(matrix, row, free)
            else:
                fits = gang_type(need, matrix[TYPES, row], idle) >= 0
                given[TARGET_REASON, row] = _RESERVED if fits else _GPUS_SHORT
                continue
            matrix[ROLE, row] = role
    # a dedicated job is placed before an opportunistic one
    given[3] = np.argsort(matrix[ROLE], kind="mergesort")
    return given


@compiled
def _keep_back(matrix: Floats, row: int, free: Floats) -> None:
    """Keep idle GPUs of the type of which a waiting job finds most."""
    wished, most = int(matrix[TYPES, row]), -1
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1 and (most < 0 or free[gpu_type] > free[most]):
            most = gpu_type
    if most >= 0:
        free[most] -= min(free[most], matrix[GPUS, row])
