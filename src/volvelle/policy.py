"""The imports of a policy's author: ``from volvelle import policy`` (docs/how-to/write-a-policy.md)."""

from volvelle.core import columns
from volvelle.core.columns import *  # noqa: F403 - all of them, as they are listed there
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow, fill
from volvelle.core.groups import Changes, Grouped, change
from volvelle.core.order_policy import OrderPolicy, fill_in_order, order, rank
from volvelle.core.policy import Allocation, Kernel, Period, Policy, policies
from volvelle.core.space import Dimension, Space
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import JobView, View
from volvelle.model.job import Job
from volvelle.plan.plan import Plan, Window
from volvelle.plan.policy import PlanPolicy

register = policies.register

__all__ = [
    "INFINITY",
    "TARGET",
    "TARGET_REASON",
    "TARGET_TYPE",
    "Allocation",
    "Changes",
    "ClusterNow",
    "Dimension",
    "Grouped",
    "Job",
    "JobView",
    "Kernel",
    "OrderPolicy",
    "Period",
    "Plan",
    "PlanPolicy",
    "Policy",
    "Reason",
    "Space",
    "View",
    "Window",
    "change",
    "fill",
    "fill_in_order",
    "kernel",
    "order",
    "rank",
    "register",
]
__all__ += [name for name in vars(columns) if name.isupper()]
