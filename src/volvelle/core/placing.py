"""A placement written in Python is asked: for one job after another, or for all of a decision at once."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from volvelle.core.facets import ClaimsAmounts, PlacesAllAnew, PlacesBatches, PlacesByLane
from volvelle.core.forward.gpus import hold_slot, keep_in_mind, keep_some, release, take_whole_nodes
from volvelle.core.forward.serving import change
from volvelle.core.forward.shared_gpus import fullest_with_room
from volvelle.core.forward.whole_gpus import refuse
from volvelle.core.lanes import Lane, borrowed
from volvelle.core.parts import Gang, take_in_turn
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import CHANGED, NODES_NAMED, State
from volvelle.core.view import rows_by_submission
from volvelle.model.arrays import BoolColumn, IntColumn


def place_jobs(scheduler: SchedulerState) -> None:
    """Choose the GPUs of all jobs that start or resize; a job that finds none gets nothing."""
    s, placement, resources = scheduler.state, scheduler.composition.placement, scheduler.resources
    if isinstance(placement, PlacesAllAnew) and s.count[NODES_NAMED] == 0:
        _place_all_anew(scheduler, placement)
        return
    if isinstance(placement, PlacesBatches) and s.count[NODES_NAMED] == 0:
        _place_together(scheduler, placement)
        return
    claims = (
        isinstance(placement, ClaimsAmounts)
        and scheduler.composition.policy.divides
        and resources.stock is not None
    )
    for i in range(s.count[CHANGED]):
        row = int(s.changed[i])
        gpus = math.ceil(s.jobs.target[row])
        if gpus == 0:
            continue
        if not _place_one(scheduler, row, gpus) and not _goes_anywhere(scheduler, row):
            refuse(s, row)
        elif claims and isinstance(placement, ClaimsAmounts):
            slots = np.array(scheduler.slots_of(row), dtype=np.int64)
            known = scheduler.known[int(s.jobs.number[row])]
            resources.given[:, slots] = np.array([placement.claim(known, slots, resources)]).T


def _place_one(scheduler: SchedulerState, row: int, gpus: int) -> bool:
    s, placement, resources = scheduler.state, scheduler.composition.placement, scheduler.resources
    if s.count[NODES_NAMED] > 0:
        return _place_as_named(scheduler, row)
    if s.jobs.exclusive[row] == 1.0:
        return take_whole_nodes(s, row, gpus, int(s.jobs.target_type[row]))
    if _shares(s, row) or _keeps_some(scheduler, row):
        return True
    free = resources.free_for(int(s.jobs.target_type[row]))
    if int(free.sum()) < gpus:
        return False
    if isinstance(placement, PlacesByLane) and placement.by_lane:
        return _place_in_lane(scheduler, placement, row, gpus, free)
    chosen = placement.choose_for(scheduler.known[int(s.jobs.number[row])], free, gpus, resources)
    if chosen is not None:
        _hold(scheduler, row, chosen)
    return chosen is not None


def _shares(s: State, row: int) -> bool:
    """Whether a job that asks for less than a GPU holds its part of a shared one now."""
    slot = -1
    if s.jobs.gpus[row] < 1.0:
        slot = fullest_with_room(s, row, int(s.jobs.target_type[row]))
    if slot >= 0:
        hold_slot(s, row, -1, slot)
    return slot >= 0


def _place_as_named(scheduler: SchedulerState, row: int) -> bool:
    """Place a job where the policy says; False where it is to have whole nodes, and these are others'."""
    s, node_gpus = scheduler.state, scheduler.resources.node_gpus
    taken = np.zeros(len(node_gpus), dtype=np.int64)
    for at in range(s.count[NODES_NAMED] - 1):
        if s.slots.named_row[at] == row:
            taken[s.slots.named_node[at]] = s.slots.named_gpus[at]
    if s.jobs.exclusive[row] == 1.0 and ((taken > 0) & (taken < node_gpus)).any():
        return False
    _hold(scheduler, row, taken)
    return True


def _place_in_lane(
    scheduler: SchedulerState, placement: PlacesByLane, row: int, gpus: int, free: IntColumn
) -> bool:
    """Place a job by whether it is a guest; False where it finds no place."""
    slots = placement.choose_slots(free, gpus, scheduler.resources, _lane(scheduler, row))
    if slots is None:
        return False
    _hold_slots(scheduler, row, slots)
    return True


def _hold_slots(scheduler: SchedulerState, row: int, slots: IntColumn) -> None:
    last = -1
    for slot in slots.tolist():
        last = hold_slot(scheduler.state, row, last, slot)


def _lane(scheduler: SchedulerState, row: int) -> Lane:
    """The lane in which a job starts, if all jobs of the decision do; and where dedicated jobs stand now."""
    s, view, owner = scheduler.state, scheduler.view(), scheduler.resources.owner
    jobs, slots = view.jobs, np.flatnonzero(owner >= 0)
    place = {int(each): at for at, each in enumerate(jobs.rows)}
    held, since = jobs.held, np.where(jobs.running, jobs.column("started"), view.now)
    for changed in map(int, s.changed[: s.count[CHANGED]]):
        held[place[changed]] = s.jobs.target[changed]
    unowned = view.gpus - float(view.owned.sum())
    guests = borrowed(jobs.pool, held, since, view.owned, unowned)
    holders = np.array([jobs.row_of[number] for number in owner[slots].tolist()], dtype=np.int64)
    dedicated = np.zeros(len(owner), dtype=np.bool_)
    dedicated[slots] = ~guests[holders]
    return Lane(bool(guests[place[row]]), dedicated)


def _goes_anywhere(scheduler: SchedulerState, row: int) -> bool:
    """Whether a job that may not be stopped here, and finds no place for its GPUs, holds others now."""
    s, stops = scheduler.state, scheduler.composition.policy.stops_jobs
    if s.jobs.held[row] == 0.0 or (stops and s.jobs.preemptible[row] == 1.0):
        return False
    free = scheduler.resources.free_for(int(s.jobs.target_type[row]))
    emptiest = np.argsort(-free, kind="stable")
    _hold(scheduler, row, take_in_turn(free, emptiest, int(s.jobs.target[row])))
    return True


def _keeps_some(scheduler: SchedulerState, row: int) -> bool:
    """Whether a job that gets fewer GPUs holds some of its own now, where the placement lets it."""
    s = scheduler.state
    if s.jobs.held[row] == 0.0 or s.jobs.gpus[row] < 1.0 or not scheduler.rules.keeps_place:
        return False
    return keep_some(s, row, int(s.jobs.target[row]), int(s.jobs.target_type[row]))


def _hold(scheduler: SchedulerState, row: int, taken: IntColumn) -> None:
    """Let the job in ``row`` hold as many GPUs of each node as ``taken`` says."""
    placement, resources = scheduler.composition.placement, scheduler.resources
    last = -1
    for node in np.flatnonzero(taken).tolist():
        slots = resources.free_slots(node)
        for slot in placement.pick(slots, int(taken[node]), node, resources).tolist():
            last = hold_slot(scheduler.state, row, last, slot)


# ---------------------------------------------------------------------- all of a decision together


def _place_together(scheduler: SchedulerState, placement: PlacesBatches) -> None:
    """Ask for the places of all jobs of one GPU type, then of the next."""
    s = scheduler.state
    for gpu_type, placed in _by_type(scheduler).items():
        rows = placed
        gangs = [_gang(scheduler, row, s.jobs.target[row]) for row in rows]
        free = scheduler.resources.free_for(gpu_type)
        chosen = placement.choose_batch(gangs, free.copy(), scheduler.resources)
        if _waiting(chosen) and placement.moves:
            rows, chosen = _moved(scheduler, placement, gpu_type, rows, gangs, free, chosen)
        for row, taken in zip(rows, chosen, strict=True):
            if taken is not None:
                _hold(scheduler, row, taken)
        for row, taken in zip(rows, chosen, strict=True):
            if taken is None and not _goes_anywhere(scheduler, row):
                refuse(s, row)


def _by_type(scheduler: SchedulerState) -> dict[int, list[int]]:
    """The gangs that get GPUs, by GPU type, once whole nodes, parts of GPUs and what jobs keep are held."""
    s = scheduler.state
    by_type: dict[int, list[int]] = {}
    for row in map(int, s.changed[: s.count[CHANGED]]):
        if s.jobs.target[row] == 0.0:
            continue
        if s.jobs.exclusive[row] == 1.0 or s.jobs.gpus[row] < 1.0:
            if not _place_one(scheduler, row, math.ceil(s.jobs.target[row])):
                refuse(s, row)
        elif not _keeps_some(scheduler, row):
            by_type.setdefault(int(s.jobs.target_type[row]), []).append(row)
    return by_type


def _gang(scheduler: SchedulerState, row: int, gpus: float) -> Gang:
    return Gang(scheduler.known[int(scheduler.state.jobs.number[row])], int(gpus))


def _waiting(chosen: Sequence[IntColumn | None]) -> int:
    """How many jobs find no place."""
    return sum(taken is None for taken in chosen)


def _moved(
    scheduler: SchedulerState,
    placement: PlacesBatches,
    gpu_type: int,
    rows: list[int],
    gangs: list[Gang],
    free: IntColumn,
    chosen: Sequence[IntColumn | None],
) -> tuple[list[int], Sequence[IntColumn | None]]:
    """The rows and places of jobs that are moved, so that fewer wait, and of ``gangs``.

    GPUs that moved jobs held are released. Without any move: ``rows`` and their places as already ``chosen``.
    """
    running = _movable(scheduler, gpu_type)
    held = [_held(scheduler, row) for row in running]
    movable = [
        _gang(scheduler, row, nodes.sum())._replace(nodes=nodes)
        for row, nodes in zip(running, held, strict=True)
    ]
    free = np.sum([free, *held], axis=0)
    anew = placement.choose_batch([*movable, *gangs], free, scheduler.resources)
    theirs, ours = anew[: len(running)], anew[len(running) :]
    if _waiting(theirs) or _waiting(ours) >= _waiting(chosen):
        return rows, chosen
    moves = [
        (row, taken)
        for row, taken, nodes in zip(running, theirs, held, strict=True)
        if taken is not None and (taken != nodes).any()
    ]
    _release(scheduler, [row for row, _ in moves])
    return [*(row for row, _ in moves), *rows], [*(taken for _, taken in moves), *ours]


def _movable(scheduler: SchedulerState, gpu_type: int) -> list[int]:
    """Rows of jobs that go on with the GPUs of a type that they hold, and may be stopped."""
    s = scheduler.state
    jobs, changed = s.jobs, {int(row) for row in s.changed[: s.count[CHANGED]]}
    return [
        row
        for row in map(int, rows_by_submission(s))
        if jobs.held[row] > 0.0
        and jobs.type[row] == gpu_type
        and jobs.pinned[row] == 0.0
        and jobs.preemptible[row] == 1.0
        and jobs.exclusive[row] == 0.0
        and jobs.gpus[row] >= 1.0
        and row not in changed
    ]


def _held(scheduler: SchedulerState, row: int) -> IntColumn:
    """GPUs on each node that the job in ``row`` holds."""
    resources = scheduler.resources
    nodes = resources.slot_node[scheduler.slots_of(row)]
    held: IntColumn = np.bincount(nodes, minlength=len(resources.nodes))
    return held


def _release(scheduler: SchedulerState, rows: list[int]) -> None:
    """Let the decision give the jobs in ``rows`` as many GPUs as they hold, and release these."""
    s = scheduler.state
    jobs, end = s.jobs, 0
    for row in map(int, s.changed[: s.count[CHANGED]]):
        end = max(end, int(jobs.old_slots[row] + jobs.held[row]) if jobs.held[row] >= 1.0 else 0)
    for row in rows:
        jobs.target[row], jobs.target_type[row] = jobs.held[row], jobs.type[row]
        change(s, row)
        end = keep_in_mind(s, row, end)
        release(s, row)


# ---------------------------------------------------------------------- jobs that run, too


def _place_all_anew(scheduler: SchedulerState, placement: PlacesAllAnew) -> None:
    """Ask for the GPUs of all jobs of one GPU type, those that run among them, then of the next."""
    resources = scheduler.resources
    for gpu_type, placed in _by_type(scheduler).items():
        usable = resources.schedulable & (resources.node_type == gpu_type)
        usable_slot = usable[resources.slot_node]
        held = {row: scheduler.slots_of(row) for row in _movable(scheduler, gpu_type)}
        held = {row: slots for row, slots in held.items() if usable_slot[slots].all()}
        chosen = _anew(scheduler, placement, held, placed, usable_slot)
        if any(chosen[row] is None for row in held):
            chosen = _anew(scheduler, placement, {}, placed, usable_slot)
        for row, slots in held.items():
            taken = chosen.get(row)
            if taken is not None and slots == taken.tolist():
                del chosen[row]
        _release(scheduler, [row for row in held if row in chosen])
        for row, taken in chosen.items():
            if taken is not None:
                _hold_slots(scheduler, row, taken)
            elif not _goes_anywhere(scheduler, row):
                refuse(scheduler.state, row)


def _anew(
    scheduler: SchedulerState,
    placement: PlacesAllAnew,
    held: Mapping[int, Sequence[int]],
    placed: Sequence[int],
    usable: BoolColumn,
) -> dict[int, IntColumn | None]:
    """The slots of jobs that run and of those ``placed``, by row."""
    target, free = scheduler.state.jobs.target, usable & (scheduler.resources.owner == -1)
    gangs = [_gang(scheduler, row, len(slots)) for row, slots in held.items()]
    gangs += [_gang(scheduler, row, target[row]) for row in placed]
    for slots in held.values():
        free[slots] = True
    chosen = placement.choose_gpus(gangs, free, scheduler.resources)
    return dict(zip([*held, *placed], chosen, strict=True))
