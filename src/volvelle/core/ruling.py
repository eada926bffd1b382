"""The rules of the forward loop that follow from the parts of a composition, with their kernels."""

from collections.abc import Callable

from volvelle.core.composition import Composition
from volvelle.core.facets import PlacesAnew
from volvelle.core.forward.groups import by_groups
from volvelle.core.key_facts import goes_by_time, never_rises
from volvelle.core.machine_code.kernels import marked
from volvelle.core.mistakes import check_kernel
from volvelle.core.order_policy import kept_order
from volvelle.core.orders import Key, compilable_keys, interpreted_keys
from volvelle.core.policy import Kernel, Policy
from volvelle.core.state import ASKED, COUNTED, KERNEL, ORDER, Rules, State


def rules_of(
    s: State,
    parts: Composition,
    kernel: Kernel | None,
    before: Rules,
    rates_are_known: Callable[[], bool],
) -> Rules:
    """The rules by these parts, the others as ``before``; the state knows the kernels of parts afterwards.

    kernel: of the policy. rates_are_known: whether the rates of all jobs are in tables.
    """
    policy, placement, key = parts.policy, parts.placement, kept_order(parts.policy)
    decides = _decides(s, key, kernel, before.simulated, rates_are_known, policy.divisible)
    kernel_learns = kernel is not None and kernel.learn is not None
    notes = decides == KERNEL and s.compiled and kernel_learns
    policy_learns = kernel_learns or type(policy.decider).learn is not Policy.learn
    if decides != ORDER:
        key = None
    places = COUNTED
    if placement.names_gpus:
        places = ASKED if placement.kernel is None else KERNEL
    if (place := placement.kernel) is not None:
        check_kernel(f"placement {placement.name!r}", place, "state, gpu_type, wanted", marked)
        s.place = place
    return before._replace(
        decides=decides,
        grouped=decides == KERNEL and kernel is not None and kernel.group is not None,
        yields=decides == KERNEL and kernel is not None and kernel.yields,
        tells=kernel.tells if decides == KERNEL and kernel is not None else -1,
        names_nodes=decides == KERNEL and kernel is not None and kernel.names_nodes,
        serves_all=kernel is not None and kernel.serves_all and not policy.divides,
        preemptive=bool(getattr(policy.decider, "preemptive", True)),
        strict=bool(getattr(policy.decider, "strict", False)),
        elastic=bool(getattr(policy.decider, "elastic", True)),
        keys_fall=key is not None and never_rises(key),
        keys_move=key is not None and goes_by_time(key),
        time_varying=policy.time_varying,
        round=policy.round or 0.0,
        places=places,
        keeps_place=not isinstance(placement, PlacesAnew),
        in_place=policy.decider.shares_in_place,
        learns=before.learns or (policy_learns and not notes),
        notes=notes,
        divides=policy.divides,
    )


def _decides(
    s: State,
    key: Key | None,
    kernel: Kernel | None,
    simulated: bool,
    rates_are_known: Callable[[], bool],
    divisible: bool,
) -> int:
    """The way in which decisions are made; the state has the kernels for it afterwards."""
    if key is not None:
        if not s.compiled:
            s.key = interpreted_keys(key)
            return ORDER
        if (keys := _compiled(key)) is not None:
            s.key = keys
            return ORDER
    if kernel is None or (kernel.rates and not rates_are_known()):
        return ASKED
    if kernel.yields and not (simulated and s.compiled):
        return ASKED  # what it says of its decisions is Python's to say
    if kernel.group is not None:
        s.group, s.decide = by_groups(kernel.group, kernel.decide)
    elif s.compiled:
        from volvelle.core.machine import deciding, learning  # noqa: PLC0415 - loads llvmlite

        s.decide = deciding(kernel.decide, divisible, kernel.names_nodes)
        if kernel.learn is not None:
            s.learn = learning(kernel.learn)
    else:
        return ASKED
    s.memory = kernel.memory
    return KERNEL


def _compiled(key: Key) -> Callable[..., None] | None:
    """``key`` as a kernel; None where it is beyond Numba."""
    from volvelle.core.machine_code.kinds import NotCompilable  # noqa: PLC0415 - llvmlite
    from volvelle.core.machine_code.loading import address  # noqa: PLC0415 - llvmlite
    from volvelle.core.machine_code.words import KERNELS  # noqa: PLC0415 - as above

    keys = compilable_keys(key)
    try:
        address(keys, KERNELS["key"])
    except NotCompilable:
        return None
    return keys
