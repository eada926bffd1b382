"""Orders: a policy as a key per job, smallest first, which a shared fill turns into allocations."""

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from volvelle.core.columns import GPUS, LEAST, MOST
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, fill
from volvelle.core.key_facts import goes_by_durations, goes_by_each_job
from volvelle.core.orders import Key, all_rounded, numbers, wrong_keys
from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.view import JobView, View
from volvelle.model.arrays import IntColumn

_PLAIN = (bool, float, int, str)
"""Types of defaults that make an argument of a key a parameter."""


class OrderPolicy(Policy):
    """A policy that is an order: subclasses give `key`, smallest first, ties by submission."""

    kind: ClassVar[str] = "order"
    one_of: ClassVar[tuple[str, ...]] = ("key", "order_key", "allocate")

    preemptive: bool = Field(True, description="take GPUs from jobs later in the order")
    strict: bool = Field(False, description="stop at the first job that does not fit")
    elastic: bool = Field(True, description="let elastic jobs use more or fewer GPUs than they ask")

    @property
    def resizes(self) -> bool:
        """As the parameter ``elastic`` says."""
        return self.elastic

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """An order that does not say whether it needs durations needs them if its key reads them."""
        super().__pydantic_init_subclass__(**kwargs)
        if "key" in vars(cls):
            _check_arguments(cls.key, "self", "jobs", "now")
        if "key" in vars(cls) and "needs_durations" not in vars(cls):
            cls.needs_durations = goes_by_durations(cls.key)

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """One number for each job; the smallest is served first."""
        raise NotImplementedError

    @property
    def order_key(self) -> Key:
        """`key` as a function of jobs and now; it may name parameters that are numbers."""
        return self.key

    def allocate(self, view: View) -> Allocation:
        """Serve the jobs in order of `key`; it is not needed where all can be served."""
        if enough := all_served(view, elastic=self.elastic):
            return enough
        return fill_in_order(
            view,
            self.ranked(view),
            preemptive=self.preemptive,
            strict=self.strict,
            elastic=self.elastic,
        )

    def ranked(self, view: View) -> IntColumn:
        """Places in a view in order of `key`."""
        jobs = view.jobs.declaring(view.spec)
        with np.errstate(all="ignore"):  # infinite keys are keys, and NaN is refused
            keys = numbers(self.order_key, self.key(jobs, view.now), f"policy {self.name!r}")
        jobs_there = len(view.jobs)
        if keys.shape != (jobs_there,):
            what = f"keys of shape {keys.shape} for {jobs_there} jobs"
            raise wrong_keys(self.order_key, f"policy {self.name!r} gave {what}")
        if (unknown := np.isnan(keys)).any():
            what = f"NaN as the key of job {int(view.jobs.number[unknown.argmax()])}"
            raise wrong_keys(self.order_key, f"policy {self.name!r} gave {what}")
        return rank(keys)


def _check_arguments(key: Callable[..., ArrayLike], *wanted: str) -> None:
    """Raise `Problem` where ``key`` cannot be called with the arguments of an order."""
    try:
        inspect.signature(key).bind(*wanted)
    except TypeError:
        asked = f"{key.__name__}({', '.join(wanted)})"
        raise wrong_keys(key, "a key has other arguments", mend=f"define {asked}") from None


def kept_order(policy: Policy) -> Key | None:
    """The key of a policy that is nothing but an order by each job alone, which can be kept; else None."""
    policy = policy.decider
    kind = type(policy)
    same = ("allocate", "next_wake", "learn", "hear", "divide")
    if not isinstance(policy, OrderPolicy) or policy.columns or policy.__private_attributes__:
        return None
    if any(getattr(kind, name) is not getattr(OrderPolicy, name) for name in same):
        return None
    return policy.order_key if goes_by_each_job(policy.order_key) else None


def rank(keys: NDArray[np.float64]) -> IntColumn:
    """Places in a view by ascending key, ties (see `volvelle.core.orders.rounded`) by submission."""
    order: IntColumn = np.argsort(all_rounded(keys), kind="stable")
    return order


def all_served(view: View, *, elastic: bool) -> Allocation | None:
    """The allocation in which every job has all it can use, where there is enough for that.

    Then no order matters. None where there is not, or where types or pools need a closer look.
    """
    jobs = view.jobs
    if len(view.capacity) > 1 or len(view.quota):
        return None
    most = jobs.max_gpus if elastic else jobs.gpus
    if most.sum() > view.capacity[0] or jobs.column("pinned").any():
        return None
    return Allocation(most, np.zeros(len(jobs)), np.zeros(len(jobs)))


def fill_in_order(
    view: View, order: IntColumn, *, preemptive: bool, strict: bool, elastic: bool
) -> Allocation:
    """The allocation of serving jobs in ``order``, each with all it can use or nothing."""
    matrix = view.jobs.matrix
    least, most = (LEAST, MOST) if elastic else (GPUS, GPUS)
    given = fill(
        matrix, order, matrix[least], matrix[most], view.capacity, view.quota, preemptive, strict
    )
    return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], order)


def order(
    name: str,
    *,
    source: str = "",
    optimises: str = "",
    time_varying: bool = False,
) -> Callable[[Callable[[JobView, float], ArrayLike]], type[OrderPolicy]]:
    """Register a function from (jobs, now) to a key per job as the policy called ``name``.

    Further arguments with defaults are the policy's parameters, of the types of these.
    """

    def decorate(key: Callable[[JobView, float], ArrayLike]) -> type[OrderPolicy]:
        _check_arguments(key, "jobs", "now")
        parameters = _parameters(key)

        def values(self: OrderPolicy) -> dict[str, Any]:
            return {name: self.__dict__[name] for name in parameters}

        def method(self: OrderPolicy, jobs: JobView, now: float) -> ArrayLike:
            return key(jobs, now, **values(self))

        namespace: dict[str, Any] = {
            "__doc__": key.__doc__,
            "__module__": key.__module__,
            "__qualname__": key.__qualname__,
            "name": name,
            "source": source,
            "optimises": optimises,
            "time_varying": time_varying,
            "key": method,
            "order_key": property(lambda self: partial(key, **values(self)) if parameters else key),
            "__annotations__": {
                "name": ClassVar[str],
                "source": ClassVar[str],
                "optimises": ClassVar[str],
                "time_varying": ClassVar[bool],
            }
            | {name: type(default) for name, default in parameters.items()},
        } | parameters
        policy: type[OrderPolicy] = types.new_class(
            key.__name__, (OrderPolicy,), exec_body=lambda body: body.update(namespace)
        )
        policies.register(policy)
        return policy

    return decorate


def _parameters(key: Callable[..., ArrayLike]) -> dict[str, Any]:
    """Arguments of ``key`` beside jobs and now, with their defaults. Raises `Problem` for other kinds."""
    arguments = [*inspect.signature(key).parameters.values()][2:]
    for each in arguments:
        if each.kind is not each.POSITIONAL_OR_KEYWORD or type(each.default) not in _PLAIN:
            what = f"its argument {each} cannot be a parameter"
            raise wrong_keys(
                key, what, mend="give it a number, a text, True or False as its default"
            )
    return {each.name: each.default for each in arguments}
