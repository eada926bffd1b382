"""What one imports to write a policy: ``from volvelle import policy`` (docs/how-to/write-a-policy.md)."""

from volvelle.core.policy import (
    Allocation,
    OrderPolicy,
    Period,
    Policy,
    fill_in_order,
    order,
    policies,
    rank,
)
from volvelle.core.view import View
from volvelle.plan.plan import Plan, Window
from volvelle.plan.policy import PlanPolicy

register = policies.register

__all__ = [
    "Allocation",
    "OrderPolicy",
    "Period",
    "Plan",
    "PlanPolicy",
    "Policy",
    "View",
    "Window",
    "fill_in_order",
    "order",
    "rank",
    "register",
]
