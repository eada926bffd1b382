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

register = policies.register

__all__ = [
    "Allocation",
    "OrderPolicy",
    "Period",
    "Policy",
    "View",
    "fill_in_order",
    "order",
    "rank",
    "register",
]
