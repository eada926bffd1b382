"""The least share that satisfies a deadline, and growth by marginal GPU time (ElasticFlow, Algorithms 1, 2).

The **plan** of one GPU type says how many GPUs each job has from which time on: its share, a step function.
The **profile** has what is free beside all shares, as one more. Jobs run on **levels** only: powers of two,
with a rate for each. Ends are rounded up to whole slots from now on.

- `least_share`: the fewest GPUs with which a job meets its deadline beside those planned already, as late as
  will do: before that it has one level less. A job that meets its deadline on no level takes all that is free
  until then, and goes on behind it.
- `grow`: GPUs that are free now go to one job after another, one level each, by GPU time: the job whose plan
  grows by most GPU-seconds for each GPU that it gains comes first, jobs without GPUs before all.
- `start_gangs`: the same where no job has a second level: then only the present and the next change count.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import count_up_to, then_by
from volvelle.policies.profile import Profile, add, profile_of


class Share(NamedTuple):
    """When a job has how many GPUs.

    at, gpus: it has so many from each time on, seconds. end: when it ends, in whole slots; real_end: in whole
    seconds. area: GPU-seconds of the plan, as the growth compares them. change: the first change of the
    profile after now that it was planned round.
    """

    at: Floats
    gpus: Floats
    end: float
    real_end: float
    area: float
    change: float


class Wish(NamedTuple):
    """A job as it is planned: work left, its deadline (infinite: none), its levels and the rates on them."""

    work: float
    deadline: float
    levels: Floats
    speed: Floats


@kernel
def release(profile: Profile, share: Share, sign: float) -> None:
    """Add the GPUs of a share to what is free; take these away where ``sign`` is negative."""
    parts = len(share.at)
    for part in range(parts):
        until = share.at[part + 1] if part + 1 < parts else share.end
        add(profile, share.at[part], until, sign * share.gpus[part])


@kernel
def whole_slots(since: float, time: float, slot: float) -> float:
    """The first whole number of slots after ``since`` that is no earlier than ``time``."""
    return float(since + np.ceil((time - since) / slot) * slot)


@kernel
def level_within(levels: Floats, free: float) -> int:
    """The place of the highest level that ``free`` GPUs allow; -1 for none."""
    return count_up_to(levels, len(levels), free) - 1


@kernel
def least_share(
    profile: Profile, wish: Wish, first: int, slot: float, at: Floats, gpus: Floats
) -> Share:
    """The least share with which a job meets its deadline, or what it has where it cannot.

    first: the place of the level that it has until anything changes; -1 where that is free to choose.
    at, gpus: room for the share, two entries more than the profile has.
    """
    times, free, size = profile.times, profile.free, profile.size[0]
    now, left, speed = times[0], wish.work, wish.speed
    due = whole_slots(now, wish.deadline, slot)
    begin, count, area, change = now, 0, 0.0, np.inf
    if first >= 0:
        held = wish.levels[first]
        count = _then(at, gpus, 0, now, held)
        begin = times[1] if size > 1 else due
        real_end = np.ceil(now + left / speed[first])
        end = whole_slots(now, real_end, slot)
        alone = begin >= end and wish.deadline >= real_end
        if due >= now and not alone:
            left -= ((wish.deadline if begin == due else begin) - now) * speed[first]
        if alone or left <= 0.0:
            return Share(at[:count], gpus[:count], end, real_end, held * (end - now), change)
        begin = max(begin, now)
        area = held * (begin - now)
    row = count_up_to(times, size, begin) - 1
    if times[row] < begin:
        row += 1
    top, since, rows = _enough(profile, wish, left, row, due)
    while row < rows:  # up to the deadline
        time, wanted = times[row], top if row >= since else top - 1
        change = min(change, time if time > now else np.inf)
        if wanted < 0:
            count = _then(at, gpus, count, time, 0.0)
            change = min(change, times[row + 1])
            row = since
            continue
        level = min(wanted, level_within(wish.levels, free[row]))
        count = _then(at, gpus, count, time, wish.levels[level] if level >= 0 else 0.0)
        bound = times[row + 1] if row + 1 < rows else due
        row += 1
        if level < 0:
            continue
        done = ((bound if bound != due else wish.deadline) - time) * speed[level]
        if row > since and (done >= left or bound == due):
            takes = np.ceil(left / speed[level])
            end = time + np.ceil(takes / slot) * slot
            area += wish.levels[level] * ((end if bound == due else bound) - time)
            return Share(at[:count], gpus[:count], end, time + takes, area, change)
        left -= done
        area += wish.levels[level] * (bound - time)
    time = max(due, begin)
    for row in range(count_up_to(times, size, time) - 1, size):  # and behind it
        time = max(time, times[row])
        change = min(change, time if time > now else np.inf)
        level = level_within(wish.levels, free[row])
        if row + 1 == size:
            level = first if first >= 0 else len(wish.levels) - 1
        count = _then(at, gpus, count, time, wish.levels[level] if level >= 0 else 0.0)
        if level < 0:
            continue
        done = np.inf if row + 1 == size else (times[row + 1] - time) * speed[level]
        if done >= left:
            real_end = np.ceil(time + left / speed[level])
            end = whole_slots(now, real_end, slot)
            area += wish.levels[level] * (end - time)
            return Share(at[:count], gpus[:count], end, real_end, area, change)
        left -= done
        area += wish.levels[level] * (times[row + 1] - time)
    return Share(at[:count], gpus[:count], np.inf, np.inf, np.inf, change)


@kernel
def _then(at: Floats, gpus: Floats, count: int, time: float, held: float) -> int:
    """Note that a job has ``held`` GPUs from a time on, in place; returns how many entries there are."""
    if count > 0 and gpus[count - 1] == held:
        return count
    at[count], gpus[count] = time, held
    return count + 1


@kernel
def _enough(
    profile: Profile, wish: Wish, left: float, row: int, due: float
) -> tuple[int, int, int]:
    """The lowest level that is enough from entry ``row`` on, and the latest entry from which on it is.

    Before that one level less will do. Where none is enough: one above the highest, and the end. The third is
    how many entries begin before the deadline, ``due`` in whole slots.
    """
    times, free, size = profile.times, profile.free, profile.size[0]
    rows = count_up_to(times, size, due)
    if rows > 0 and times[rows - 1] == due:
        rows -= 1
    for top in range(len(wish.levels)):
        done, until = 0.0, wish.deadline
        for since in range(rows - 1, row - 1, -1):
            level = min(top, level_within(wish.levels, free[since]))
            if level >= 0:
                done += (until - times[since]) * wish.speed[level]
                if done >= left:
                    return top, since, rows
            until = times[since]
    return len(wish.levels), size, rows


class Plan(NamedTuple):
    """The shares of all jobs.

    at, gpus: of all shares, one behind another, of which ``used[0]`` entries are in use. first, parts: by
    job, where its `Share` is among them. held: what each has now. end, real_end, area: of its share. change:
    one number, the first time after now at which anything changes.
    """

    profile: Profile
    at: Floats
    gpus: Floats
    used: Ints
    first: Ints
    parts: Ints
    held: Floats
    end: Floats
    real_end: Floats
    area: Floats
    change: Floats


class Wishes(NamedTuple):
    """`Wish` in columns; levels and rates are (jobs, levels), of which each job has ``known``."""

    work: Floats
    deadline: Floats
    levels: Floats
    speed: Floats
    known: Ints


@kernel
def empty_plan(now: float, gpus: float, wishes: Wishes) -> Plan:
    """A plan in which no job has anything yet. A share adds two changes: its deadline and its end."""
    jobs = len(wishes.work)
    profile = profile_of(now, gpus, 2 * (jobs + wishes.known.sum()))
    room = len(profile.times) + 4 * jobs + 2
    first, parts, held = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.zeros(jobs)
    end, real_end, area = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    at, used, change = np.empty(room), np.zeros(1, np.int64), np.full(1, np.inf)
    return Plan(profile, at, np.empty(room), used, first, parts, held, end, real_end, area, change)


@kernel
def _is_full(plan: Plan) -> bool:
    """Whether there may be no room for one more share."""
    return bool(plan.used[0] + len(plan.profile.times) + 2 > len(plan.at))


@kernel
def _with_room(plan: Plan) -> Plan:
    """The same plan with room for one more share."""
    used, needed = plan.used[0], plan.used[0] + len(plan.profile.times) + 2
    at, gpus = np.empty(2 * needed), np.empty(2 * needed)
    at[:used], gpus[:used] = plan.at[:used], plan.gpus[:used]
    return Plan(
        plan.profile,
        at,
        gpus,
        plan.used,
        plan.first,
        plan.parts,
        plan.held,
        plan.end,
        plan.real_end,
        plan.area,
        plan.change,
    )


@kernel
def share_of(plan: Plan, row: int) -> Share:
    """The share of a job so far."""
    first, last = plan.first[row], plan.first[row] + plan.parts[row]
    at, gpus = plan.at[first:last], plan.gpus[first:last]
    return Share(at, gpus, plan.end[row], plan.real_end[row], plan.area[row], np.inf)


@kernel
def _least(plan: Plan, profile: Profile, wish: Wish, first: int, slot: float) -> Share:
    """`least_share`, in what room the plan has."""
    used = plan.used[0]
    return least_share(profile, wish, first, slot, plan.at[used:], plan.gpus[used:])


@kernel
def _give(plan: Plan, row: int, share: Share) -> None:
    """Let a job have ``share``, which lies in what room the plan has, instead of what it had; in place."""
    now = plan.profile.times[0]
    if plan.parts[row] > 0:
        release(plan.profile, share_of(plan, row), 1.0)
    release(plan.profile, share, -1.0)
    plan.first[row], plan.parts[row] = plan.used[0], len(share.at)
    plan.used[0] += len(share.at)
    plan.held[row] = share.gpus[0] if share.end > now else 0.0
    plan.end[row], plan.real_end[row], plan.area[row] = share.end, share.real_end, share.area
    plan.change[0] = min(plan.change[0], _change(share, now))


@kernel
def _change(share: Share, now: float) -> float:
    """The first time after now at which the share, or what it was planned round, changes."""
    return min(share.change, share.end) if share.end > now else share.change


@kernel
def share_out(plan: Plan, order: Ints, wishes: Wishes, slot: float) -> tuple[Plan, int]:
    """The least shares of jobs in ``order``, and how many of these miss their deadlines (Algorithm 1)."""
    missed = 0
    for row in order:
        if _is_full(plan):
            plan = _with_room(plan)
        share = _least(plan, plan.profile, wish_of(wishes, row), -1, slot)
        _give(plan, row, share)
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
    free, without = plan.profile.free, profile_of(0.0, 0.0, len(plan.profile.times))
    gain, winner = np.full(len(wishes.work), -np.inf), 0 if free[0] != 0.0 else -1
    while winner >= 0:
        if _is_full(plan):
            plan = _with_room(plan)
        for row in order:
            level, more = _next_level(plan, wishes, row)
            if level >= wishes.known[row]:
                continue
            gain[row] = -np.inf
            if more > free[0]:
                continue
            gain[row] = np.inf
            if plan.held[row] != 0.0:
                share = _with_level(plan, without, wishes, row, level, slot)
                gain[row] = (share.area - plan.area[row]) / more
        order = then_by(order, -gain)
        winner = -1
        for row in order:
            level, more = _next_level(plan, wishes, row)
            if level < wishes.known[row] and more <= free[0]:
                winner = row
                _give(plan, row, _with_level(plan, without, wishes, row, level, slot))
                break
    return plan, order


@kernel
def _next_level(plan: Plan, wishes: Wishes, row: int) -> tuple[int, float]:
    """The place of the level above what a job has now, and how many GPUs more that is; infinite for none."""
    count, held = wishes.known[row], plan.held[row]
    level = level_within(wishes.levels[row, :count], held) + 1
    return level, wishes.levels[row, level] - held if level < count else np.inf


@kernel
def _with_level(
    plan: Plan, without: Profile, wishes: Wishes, row: int, level: int, slot: float
) -> Share:
    """The share of a job that is on a level now. without: room for the profile without what it had."""
    size = plan.profile.size[0]
    without.times[:size], without.free[:size] = plan.profile.times[:size], plan.profile.free[:size]
    without.size[0] = size
    release(without, share_of(plan, row), 1.0)
    return _least(plan, without, wish_of(wishes, row), level, slot)


@kernel
def start_gangs(plan: Plan, order: Ints, wishes: Wishes, slot: float) -> Plan:
    """`grow` where no job has a second level, as far as the present and the next change go.

    Beside other plans a job that starts now changes nothing sooner than these do, but for its own end. Jobs
    without a deadline need no plan for that, but for the first of these, whose plan says from when on all
    GPUs are free.
    """
    now, free = plan.profile.times[0], plan.profile.free[0]
    if _is_full(plan):
        plan = _with_room(plan)
    without, planned = profile_of(0.0, 0.0, len(plan.profile.times)), np.count_nonzero(plan.parts)
    for row in order:
        gpus, deadline = wishes.levels[row, 0], wishes.deadline[row]
        if plan.held[row] != 0.0 or gpus > free:
            continue
        end = whole_slots(now, np.ceil(now + wishes.work[row] / wishes.speed[row, 0]), slot)
        if deadline < now or (planned == 1 and deadline < np.inf):
            end = _change(_with_level(plan, without, wishes, row, 0, slot), now)
        plan.held[row] = gpus
        plan.change[0] = min(plan.change[0], end if end > now else np.inf)
        free -= gpus
    return plan
