"""Events of one job: it enters, starts, resizes, stops, ends.

Each changes the scheduler's columns and, in a simulated world, the truth beside them.
"""

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import touch
from volvelle.core.forward.expected import expect
from volvelle.core.forward.gpus import (
    claim_no_more,
    delay,
    free_later,
    release,
    slots_free_at,
    wait_for_gpus,
)
from volvelle.core.forward.groups import leave_group
from volvelle.core.forward.log import log_event
from volvelle.core.forward.ranking import queue_up, sort_in
from volvelle.core.forward.rates import believed_rate, rate_asked, true_rate
from volvelle.core.forward.running import join_pool, leave_pool, rank, rank_no_more
from volvelle.core.forward.waiting import wait_no_more
from volvelle.core.state import *

_ROUND = int(Reason.ROUND)
_NAN = float("nan")
_LOSSES = 20.0
"""The stops by which a job in a look-ahead loses what it did: jobs that take turns would never end."""


# ---------------------------------------------------------------------- coming and going


@kernel
def enter(s: State, rules: Rules, i: int, now: float) -> int:
    """Let the job in place ``i`` of the arrivals be in the system; returns its row."""
    row = take_row(s)
    jobs = s.jobs
    for column in range(ARRIVAL_COLUMNS):
        jobs.floats[column][row] = s.arrivals[column][i]
    jobs.type[row] = -1.0
    jobs.partner[row] = -1.0
    jobs.first_start[row] = _NAN
    jobs.cpus[row] = _NAN
    jobs.memory[row] = _NAN
    jobs.started[row] = now
    jobs.reason[row] = _ROUND
    join(s, rules, row, now)
    return row


@kernel
def take_row(s: State) -> int:
    """A spare row, empty but for its TOKEN."""
    s.count[SPARE] -= 1
    row = int(s.spare[s.count[SPARE]])
    jobs = s.jobs
    token = jobs.token[row] + 1.0
    for column in range(ARRIVAL_COLUMNS, len(jobs.floats)):
        jobs.floats[column][row] = 0.0
    jobs.token[row] = token
    return row


@kernel
def join(s: State, rules: Rules, row: int, now: float) -> None:
    """Let the job in ``row``, which holds nothing, be among those in the system and wait."""
    jobs, count = s.jobs, s.count
    jobs.slot[row] = -1
    older = count[YOUNGEST]
    while older >= 0 and jobs.number[older] > jobs.number[row]:
        older = jobs.older[older]
    younger = count[OLDEST] if older < 0 else jobs.younger[older]
    jobs.older[row] = older
    jobs.younger[row] = younger
    if older < 0:
        count[OLDEST] = row
    else:
        jobs.younger[older] = row
    if younger < 0:
        count[YOUNGEST] = row
    else:
        jobs.older[younger] = row
    count[JOBS] += 1
    count[VERSION] += 1
    count[SHORT] += 1
    if rules.elastic and jobs.least[row] < jobs.most[row]:
        count[ELASTIC] += 1
    s.clock[DEMAND] += jobs.gpus[row]
    count[DIRTY] = 1
    if jobs.pool[row] >= 0.0:
        touch(s, int(jobs.pool[row]))
    sort_in(s, rules, row)
    queue_up(s, rules, row, now)


@kernel
def leave(s: State, rules: Rules, row: int) -> None:
    """Let the job in ``row`` be through, with all that it holds."""
    note_through(s, s.jobs.number[row])
    part(s, rules, row)


@kernel
def part(s: State, rules: Rules, row: int) -> None:
    """Take the job in ``row`` out of the system, with all that it holds."""
    jobs, count = s.jobs, s.count
    if jobs.held[row] > 0.0:
        give_up(s, rules, row)
    else:
        count[WAITING] -= 1
        if rules.decides == ORDER:
            wait_no_more(s, row)
    if rules.grouped:
        leave_group(s, row)
    older, younger = jobs.older[row], jobs.younger[row]
    if older < 0:
        count[OLDEST] = younger
    else:
        jobs.younger[older] = younger
    if younger < 0:
        count[YOUNGEST] = older
    else:
        jobs.older[younger] = older
    count[JOBS] -= 1
    count[VERSION] += 1
    count[SHORT] -= 1
    if rules.elastic and jobs.least[row] < jobs.most[row]:
        count[ELASTIC] -= 1
    s.clock[DEMAND] -= jobs.gpus[row]
    if count[JOBS] == 0:
        s.clock[DEMAND] = 0.0
    count[DIRTY] = 1
    jobs.token[row] += 1.0
    s.spare[count[SPARE]] = row
    count[SPARE] += 1


@kernel
def note_through(s: State, number: float) -> None:
    """Note that a job has ended, where the run waits for it."""
    count = s.count
    if count[TRACKED] > 0 and count[TRACKED_FIRST] <= number <= count[TRACKED_LAST]:
        count[TRACKED] -= 1


# ---------------------------------------------------------------------- what a job holds


@kernel
def hold(s: State, row: int, gpus: float, gpu_type: float) -> None:
    """Count ``gpus`` GPUs of a type as those of the job in ``row``, in place of the GPUs that it held."""
    jobs, count = s.jobs, s.count
    held, pool = jobs.held[row], int(jobs.pool[row])
    if held > 0.0:
        s.types.used[int(jobs.type[row])] -= held
        count[RUNNING] -= 1
    if gpus > 0.0:
        s.types.used[int(gpu_type)] += gpus
        count[RUNNING] += 1
    elif count[RUNNING] == 0:  # no dust of fractions is left
        for each in range(len(s.types.used)):
            s.types.used[each] = 0.0
    if pool >= 0:
        s.pools.taken[pool] += gpus - held
        touch(s, pool)
    most = jobs.most[row]
    if held < most:
        count[SHORT] -= 1
    if gpus < most:
        count[SHORT] += 1
    jobs.held[row] = gpus
    jobs.type[row] = gpu_type


@kernel
def give_up(s: State, rules: Rules, row: int) -> None:
    """Let the job in ``row`` hold nothing; what it still waited for is for others."""
    if rules.decides == ORDER or rules.grouped:
        rank_no_more(s, row)
        if rules.decides == ORDER:
            leave_pool(s, row)
    hold(s, row, 0.0, -1.0)
    if s.count[RELEASES] > 0:
        claim_no_more(s, s.jobs.number[row])
    release(s, row)
    s.jobs.rate[row] = 0.0
    s.jobs.partner[row] = -1.0
    s.jobs.cpus[row] = s.jobs.memory[row] = _NAN


@kernel
def settle(s: State, row: int, now: float) -> None:
    """Count what the job in ``row`` attained and is believed to have done up to now."""
    jobs = s.jobs
    started = jobs.started[row]
    attained = max(now - started, 0.0)
    if started > now and jobs.first_start[row] > now:
        jobs.first_start[row] = _NAN
    jobs.attained[row] += attained
    jobs.attained_gpu[row] += attained * jobs.held[row]
    settle_work(s, row, now)


@kernel
def settle_work(s: State, row: int, now: float) -> None:
    """Count what the job in ``row`` is believed to have done up to now."""
    jobs = s.jobs
    jobs.done[row] += max(now - jobs.progress_from[row], 0.0) * jobs.rate[row]
    jobs.progress_from[row] = max(now, jobs.progress_from[row])


@kernel
def stop(s: State, rules: Rules, row: int, now: float) -> None:
    """Take the GPUs of the job in ``row`` from it at a checkpoint, and let it wait.

    Its GPUs come free when the checkpoint is written.
    """
    jobs = s.jobs
    gpus, gpu_type = jobs.held[row], jobs.type[row]
    free_at = checkpoint_ends(s, rules, row, now)
    if free_at > now:
        delay(s, row, free_at)
    settle(s, row, now)
    over = jobs.starts_over[row] == 1.0 and not (rules.ahead and jobs.preemptions[row] >= _LOSSES)
    if over:
        jobs.done[row] = 0.0
    jobs.preemptions[row] += 1.0
    work = _NAN
    if rules.simulated:
        jobs.true_done[row] += jobs.true_rate[row] * max(now - jobs.since[row], 0.0)
        if over:
            jobs.true_done[row] = 0.0
        jobs.true_rate[row] = 0.0
        jobs.saved[row] = jobs.true_done[row]
        jobs.token[row] += 1.0
        if jobs.truly_asked[row] == 0.0:
            work = jobs.true_done[row]
    give_up(s, rules, row)
    if free_at > now:
        jobs.written[row] = free_at
        expect(s, free_at, STOPPED, jobs.number[row], row, jobs.attempt[row], work)
        if rules.places == COUNTED:
            free_later(s, free_at, gpus, gpu_type, -1.0)
    jobs.started[row] = now
    jobs.reason[row] = _ROUND
    queue_up(s, rules, row, now)


@kernel
def checkpoint_ends(s: State, rules: Rules, row: int, now: float) -> float:
    """When the GPUs of the job in ``row`` are free in fact if it stops now: it writes a checkpoint first."""
    began = now >= (s.jobs.since[row] if rules.simulated else s.jobs.progress_from[row])
    return float(now + s.jobs.checkpoint[row] if began else now)


@kernel
def start(s: State, rules: Rules, row: int, now: float) -> None:
    """Let the job in ``row`` run on what it is to hold, which it holds by name already."""
    jobs = s.jobs
    gpus, gpu_type = jobs.target[row], jobs.target_type[row]
    resized = jobs.held[row] > 0.0
    stays = resized and changes_partner(s, rules, row)
    if resized:
        gap = 0.0 if stays else jobs.resize[row]
        settle(s, row, now)
        if s.count[RELEASES] > 0:
            claim_no_more(s, jobs.number[row])
    else:
        gap = jobs.start_gap[row]
        jobs.start_gap[row] = jobs.restore[row]
        jobs.attempt[row] += 1.0
        s.count[WAITING] -= 1
    hold(s, row, gpus, gpu_type)
    begin = now
    if rules.places != COUNTED:
        begin = slots_free_at(s, row, now)
    elif s.count[RELEASES] > 0:
        begin = wait_for_gpus(s, now, int(gpu_type), jobs.number[row], gpus)
    begin = max(begin, jobs.written[row]) if rules.simulated else now
    if jobs.first_start[row] != jobs.first_start[row]:
        jobs.first_start[row] = begin
    jobs.started[row] = begin
    jobs.progress_from[row] = max(begin, jobs.progress_from[row]) if stays else begin + gap
    jobs.rate[row] = believed_rate(s, row)
    jobs.reason[row] = 0.0
    if jobs.time_limit[row] > 0.0:
        left = max(jobs.time_limit[row] - jobs.attained[row], 0.0)
        s.clock[TIMED] = min(s.clock[TIMED], now + left)  # where it begins late, that is seen then
    if (rules.decides == ORDER or rules.grouped) and not resized:
        rank(s, row)
        if rules.decides == ORDER:
            join_pool(s, row)
    if rules.simulated and not stays:  # else Python says how it goes on
        if resized:
            jobs.true_done[row] += jobs.true_rate[row] * max(now - jobs.since[row], 0.0)
            jobs.saved[row] = jobs.true_done[row]
        jobs.saved_at[row] = begin
        jobs.cadence_from[row] = begin + gap
        jobs.since[row] = begin + gap
        run(s, rules, row)
    if rate_asked(s, rules, row):
        s.unrated[s.count[UNRATED]] = row
        s.count[UNRATED] += 1


@kernel
def changes_partner(s: State, rules: Rules, row: int) -> bool:
    """Whether the running job in ``row`` stays where it is, and only its partner is to be another or none."""
    asked = not rules.simulated or s.jobs.truly_asked[row] == 1.0
    return bool(rules.in_place and asked and s.jobs.type[row] == s.jobs.target_type[row])


@kernel
def run(s: State, rules: Rules, row: int) -> None:
    """Let the job in ``row`` make progress from SINCE on, and expect its end."""
    jobs = s.jobs
    jobs.token[row] += 1.0
    jobs.true_rate[row] = true_rate(s, row)
    if jobs.true_rate[row] > 0.0:
        end = jobs.since[row] + (jobs.true_work[row] - jobs.true_done[row]) / jobs.true_rate[row]
        if rules.tick > 0.0:
            end = at_tick(end, rules.tick)
        expect(s, end, MILESTONE, jobs.number[row], row, jobs.token[row], 0.0)


@kernel
def at_tick(time: float, tick: float) -> float:
    """The first multiple of ``tick`` at or after ``time``."""
    ticks = time / tick
    whole = float(int(ticks))
    return (whole + 1.0 if whole < ticks else whole) * tick


@kernel
def begins_late(s: State, rules: Rules, row: int) -> None:
    """Note when the job in ``row`` really gets the GPUs it was given, where that is not at once."""
    jobs = s.jobs
    if rules.simulated and jobs.held[row] > 0.0 and jobs.started[row] > s.clock[NOW]:
        s.count[EVENTS] += 1
        log_event(s, rules, BEGAN, jobs.number[row], jobs.attempt[row], jobs.started[row])
