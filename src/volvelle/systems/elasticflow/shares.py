"""The least share that satisfies a deadline, and growth by marginal GPU time (ElasticFlow, Algorithms 1, 2).

The **plan** of one GPU type says how many GPUs each job has from which time on. Its columns are the times at
which anything changes, the first of them now; GPUs free at a time are those that no job has then. Jobs run on
**levels** only: powers of two, with a rate for each. Ends are rounded up to whole slots from now on.

- `least_share`: the fewest GPUs with which a job meets its deadline beside those planned already, as late as
  will do: before that it has one level less. A job that meets its deadline on no level takes all that is free
  until then, and goes on behind it.
- `grow`: GPUs that are free now go to one job after another, one level each, by GPU time: the job whose plan
  grows by most GPU-seconds for each GPU that it gains comes first, jobs without GPUs before all.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import BoolColumn, Floats, Ints


class Share(NamedTuple):
    """When a job has how many GPUs.

    at, gpus: it has so many from each time on, seconds. end: when it ends, in whole slots; real_end: in whole
    seconds. area: GPU-seconds of the plan, as the growth compares them.
    """

    at: Floats
    gpus: Floats
    end: float
    real_end: float
    area: float


class Wish(NamedTuple):
    """A job as it is planned: work left, its deadline (infinite: none), its levels and the rates on them."""

    work: float
    deadline: float
    levels: Floats
    speed: Floats


@kernel
def whole_slots(since: float, time: float, slot: float) -> float:
    """The first whole number of slots after ``since`` that is no earlier than ``time``."""
    return float(since + np.ceil((time - since) / slot) * slot)


@kernel
def level_within(levels: Floats, free: float) -> int:
    """The place of the highest level that ``free`` GPUs allow; -1 for none."""
    return int(np.searchsorted(levels, free, side="right")) - 1


@kernel
def least_share(times: Floats, free: Floats, wish: Wish, first: int, slot: float) -> Share:
    """The least share with which a job meets its deadline, or what it has where it cannot.

    times, free: GPUs that are free from each time on, the first of them now, all of them at the last.
    first: the place of the level that it has until anything changes; -1 where that is free to choose.
    """
    now, left = times[0], wish.work
    due = whole_slots(now, wish.deadline, slot)
    bounds, there = _with_bound(times, free, due)
    begin = now
    at, gpus = np.empty(2 * len(bounds) + 2), np.empty(2 * len(bounds) + 2)
    count = 0
    if first >= 0:
        at[0], gpus[0], count = now, wish.levels[first], 1
        begin = times[1] if len(times) > 1 else due
        real_end = np.ceil(now + left / wish.speed[first])
        end = whole_slots(now, real_end, slot)
        if begin >= end and wish.deadline >= real_end:
            return Share(at[:1], gpus[:1], end, real_end, gpus[0] * (end - now))
        until = wish.deadline if begin == due else begin
        if due >= now:
            left -= (until - now) * wish.speed[first]
        if left <= 0.0:
            return Share(at[:1], gpus[:1], end, real_end, gpus[0] * (end - now))
        begin = max(begin, now)
    from_row = int(np.searchsorted(bounds, begin))
    top, since = _enough(bounds, there, wish, left, from_row, due)
    for row in range(from_row, len(bounds)):  # up to the deadline
        if bounds[row] >= due:
            break
        wanted = top if bounds[row] >= since else top - 1
        level = min(wanted, level_within(wish.levels, there[row]))
        at[count] = bounds[row]
        gpus[count] = wish.levels[level] if level >= 0 else 0.0
        count += 1
        if level < 0:
            continue
        until = wish.deadline if bounds[row + 1] == due else bounds[row + 1]
        done = (until - bounds[row]) * wish.speed[level]
        last = bounds[row + 1] == due and since < np.inf
        if bounds[row] >= since and (done >= left or last):
            takes = np.ceil(left / wish.speed[level])
            end = bounds[row] + np.ceil(takes / slot) * slot
            counted = end if bounds[row + 1] == due else bounds[row + 1]
            return Share(
                at[:count],
                gpus[:count],
                end,
                bounds[row] + takes,
                _area(at, gpus, count, counted),
            )
        left -= done
    at_row = int(np.searchsorted(bounds, max(due, begin)))
    for row in range(at_row, len(bounds)):  # and behind it
        level = level_within(wish.levels, there[row])
        if row + 1 == len(bounds):
            level = first if first >= 0 else len(wish.levels) - 1
        at[count] = bounds[row]
        gpus[count] = wish.levels[level] if level >= 0 else 0.0
        count += 1
        if level < 0:
            continue
        done = (
            np.inf
            if row + 1 == len(bounds)
            else (bounds[row + 1] - bounds[row]) * wish.speed[level]
        )
        if done >= left:
            real_end = np.ceil(bounds[row] + left / wish.speed[level])
            end = whole_slots(now, real_end, slot)
            return Share(at[:count], gpus[:count], end, real_end, _area(at, gpus, count, end))
        left -= done
    return Share(at[:count], gpus[:count], np.inf, np.inf, np.inf)


@kernel
def _enough(
    bounds: Floats, there: Floats, wish: Wish, left: float, from_row: int, due: float
) -> tuple[int, float]:
    """The lowest level that is enough until the deadline, and the latest time from which on it is.

    Before that time one level less will do. Where none is enough: the highest, and infinity.
    """
    for top in range(len(wish.levels)):
        done, until = 0.0, wish.deadline
        for row in range(len(bounds) - 1, from_row - 1, -1):
            if bounds[row] >= due:
                continue
            level = min(top, level_within(wish.levels, there[row]))
            if level >= 0:
                done += (until - bounds[row]) * wish.speed[level]
                if done >= left:
                    return top, bounds[row]
            until = bounds[row]
    return len(wish.levels), np.inf


@kernel
def _with_bound(times: Floats, free: Floats, due: float) -> tuple[Floats, Floats]:
    """The same GPUs with a bound at ``due``, unless that is past, or there is one."""
    row = int(np.searchsorted(times, due, side="right"))
    if row == 0 or times[row - 1] == due:
        return times, free
    bounds, there = np.empty(len(times) + 1), np.empty(len(times) + 1)
    bounds[:row], there[:row] = times[:row], free[:row]
    bounds[row], there[row] = due, free[row - 1]
    bounds[row + 1 :], there[row + 1 :] = times[row:], free[row:]
    return bounds, there


@kernel
def _area(at: Floats, gpus: Floats, count: int, end: float) -> float:
    """GPU-seconds until ``end``."""
    total = 0.0
    for i in range(count):
        total += gpus[i] * ((at[i + 1] if i + 1 < count else end) - at[i])
    return total


class Plan(NamedTuple):
    """The shares of all jobs.

    times: at which anything changes, the first of them now. held: (jobs, times), GPUs from each time on.
    free: by time. end, real_end, area: of each job's `Share`.
    """

    times: Floats
    held: Floats
    free: Floats
    end: Floats
    real_end: Floats
    area: Floats


@kernel
def empty_plan(now: float, gpus: float, jobs: int) -> Plan:
    """A plan in which no job has anything yet."""
    end, real_end, area = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    return Plan(np.full(1, now), np.zeros((jobs, 1)), np.full(1, gpus), end, real_end, area)


@kernel
def free_for(plan: Plan, row: int) -> tuple[Floats, Floats]:
    """The GPUs that are free for a job, its own with them, without times at which nothing changes."""
    free = plan.free + plan.held[row]
    changes = np.ones(len(free), dtype=np.bool_)
    changes[1:] = free[1:] != free[:-1]
    return plan.times[changes], free[changes]


@kernel
def with_share(plan: Plan, row: int, share: Share) -> Plan:
    """The plan in which a job has ``share`` instead of what it had."""
    bounds = np.append(share.at, share.end)
    new = bounds[~_isin(bounds, plan.times)]
    times = np.sort(np.append(plan.times, new))
    column = np.searchsorted(plan.times, times, side="right") - 1
    held, free = plan.held[:, column], plan.free[column] + plan.held[row][column]
    place = np.searchsorted(share.at, times, side="right") - 1
    held[row] = np.where(times < share.end, share.gpus[np.maximum(place, 0)], 0.0)
    free = free - held[row]
    plan.end[row], plan.real_end[row], plan.area[row] = share.end, share.real_end, share.area
    return Plan(times, held, free, plan.end, plan.real_end, plan.area)


@kernel
def _isin(values: Floats, among: Floats) -> BoolColumn:
    """Whether each value is among sorted ones."""
    place = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: BoolColumn = among[place] == values
    return found


class Wishes(NamedTuple):
    """`Wish` in columns; levels and rates are (jobs, levels), of which each job has ``known``."""

    work: Floats
    deadline: Floats
    levels: Floats
    speed: Floats
    known: Ints


@kernel
def share_out(plan: Plan, order: Ints, wishes: Wishes, slot: float) -> tuple[Plan, int]:
    """The least shares of jobs in ``order``, and how many of these miss their deadlines (Algorithm 1)."""
    missed = 0
    for row in order:
        times, free = free_for(plan, row)
        share = least_share(times, free, wish_of(wishes, row), -1, slot)
        plan = with_share(plan, row, share)
        missed += share.real_end > wishes.deadline[row]
    return plan, missed


@kernel
def wish_of(wishes: Wishes, row: int) -> Wish:
    """A job's own."""
    count = wishes.known[row]
    return Wish(
        wishes.work[row],
        wishes.deadline[row],
        wishes.levels[row, :count],
        wishes.speed[row, :count],
    )


@kernel
def grow(plan: Plan, order: Ints, wishes: Wishes, slot: float) -> tuple[Plan, Ints]:
    """GPUs that are free now, one level after another (Algorithm 2), and the jobs as they stood at the end.

    Of equal ones the first in ``order`` goes first, anew after each level. A job at its highest level stands
    where it stood.
    """
    if plan.free[0] == 0.0:
        return plan, order
    gain = np.full(len(wishes.work), -np.inf)
    winner = 0
    while winner >= 0:
        for row in order:
            level, more = _next_level(plan, wishes, row)
            if level >= wishes.known[row]:
                continue
            gain[row] = -np.inf
            if more > plan.free[0]:
                continue
            if plan.held[row, 0] == 0.0:
                gain[row] = np.inf
            else:
                share = _with_level(plan, wishes, row, level, slot)
                gain[row] = (share.area - plan.area[row]) / more
        order = order[np.argsort(-gain[order], kind="mergesort")]
        winner = -1
        for row in order:
            level, more = _next_level(plan, wishes, row)
            if level < wishes.known[row] and more <= plan.free[0]:
                winner = row
                plan = with_share(plan, row, _with_level(plan, wishes, row, level, slot))
                break
    return plan, order


@kernel
def _next_level(plan: Plan, wishes: Wishes, row: int) -> tuple[int, float]:
    """The place of the level above what a job has now, and how many GPUs more that is; infinite for none."""
    count, held = wishes.known[row], plan.held[row, 0]
    level = level_within(wishes.levels[row, :count], held) + 1
    return level, wishes.levels[row, level] - held if level < count else np.inf


@kernel
def _with_level(plan: Plan, wishes: Wishes, row: int, level: int, slot: float) -> Share:
    """The share of a job that is on a level now."""
    times, free = free_for(plan, row)
    return least_share(times, free, wish_of(wishes, row), level, slot)
