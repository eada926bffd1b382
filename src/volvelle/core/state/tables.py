"""The tables of which the state is made."""

from typing import Final

from volvelle.core.state.table import Floats, Ints, StateTable


class Jobs(StateTable):
    """A column for each attribute of a job; a job keeps its row while it is in the system.

    Times are seconds since the run's start. Whole numbers and flags are floats where policies read them.
    """

    # What a job comes with.
    number: Floats  # order of submission
    submit: Floats  # when it was submitted
    gpus: Floats  # the gang requested
    least: Floats  # fewest GPUs it runs on
    most: Floats  # most GPUs it can use
    types: Floats  # bit t is set where GPU type t will do
    pool: Floats  # index into the cluster's pools, -1 without
    weight: Floats  # of its share, 1 unless it says so
    preemptible: Floats  # 1 where GPUs may be taken from it
    total: Floats  # units of work believed in all
    scale: Floats  # the estimator's factor on what remains
    full_rate: Floats  # units per second believed on the most GPUs, as a mean of what is to come
    request_rate: Floats  # the same on the GPUs it requests
    unit_rate: Floats  # units per second and GPU of a job that scales linearly anywhere, else NaN
    table: Floats  # index into `State.rates`, -1: only Python knows how fast it is, unless it is linear
    curve: Floats  # index into `volvelle.core.view.View.rates`, -1 until a policy asks
    start_gap: Floats  # seconds its next start costs
    restore: Floats  # seconds a resume costs
    resize: Floats  # seconds a resize costs
    checkpoint: Floats  # seconds a stop costs
    priority: Floats  # the higher the sooner, where the policy heeds it
    time_limit: Floats  # seconds with GPUs after which it is ended, 0 for none
    exclusive: Floats  # 1 where it has whole nodes
    starts_over: Floats  # 1 where a stop loses what it has done
    deadline: Floats  # that of its most valuable reward, infinite where it has none
    user: Floats  # a number for each user, 0 for none
    declared_cpus: Floats  # CPUs of the whole job
    declared_memory: Floats  # GB of the whole job
    nodes: Floats  # nodes that it asks for, 0 where any will do
    estimate: Floats  # seconds that its user says it takes, 0 where none are said
    id_number: Floats  # with which its id begins, 0 where it begins with none
    # The truth about it, in a simulated world.
    true_work: Floats  # units in all
    true_unit_rate: Floats  # as unit_rate
    true_table: Floats  # as table
    truly_asked: Floats  # 1 where only Python knows what happens to it next and how fast it is
    # What it holds and has done, as the scheduler knows it.
    held: Floats  # GPUs held now
    type: Floats  # GPU type held, -1 none
    pinned: Floats  # 1 where it stays where it is: on a draining node
    first_start: Floats  # when it first got GPUs, NaN before
    started: Floats  # when it got the GPUs it holds; of a job without any, since when it waits
    progress_from: Floats  # when work at ``rate`` began or begins (after a restore)
    attained: Floats  # seconds with GPUs, up to ``started``
    attained_gpu: Floats  # GPU-seconds, up to ``started``
    done: Floats  # units of work believed done, up to ``progress_from``
    rate: Floats  # units per second believed, with the GPUs it holds
    attempt: Floats  # starts so far
    preemptions: Floats  # stops by the scheduler so far
    failures: Floats
    reason: Floats  # why it waits: a Reason, as the policy or the placement said
    partner: Floats  # number of the job with which it shares its GPUs, -1 none
    cpus: Floats  # per GPU, where the policy divides them; NaN elsewhere
    memory: Floats  # GB per GPU, likewise
    # What the last decision made of it.
    key: Floats  # what it is served by; of a running job a bound on it
    target: Floats  # GPUs it is to hold
    target_type: Floats
    # The truth, as it goes on.
    true_done: Floats  # units done at ``since``
    since: Floats  # when progress at ``true_rate`` began or begins
    true_rate: Floats
    written: Floats  # when the checkpoint of its last stop is written
    saved: Floats  # units safe in the last checkpoint
    saved_at: Floats  # when that was written (or the run began)
    cadence_from: Floats  # from when the checkpoints of its own accord are counted
    token: Floats  # outdates what is expected of earlier rates
    # Links to other jobs and to GPUs, -1 for none.
    child: Ints  # first child in the heap of the jobs that wait
    next: (
        Ints  # next sibling in it; or the next job of its group; or, of one that runs, of its pool
    )
    previous: Ints  # previous sibling, or parent; or the job before it
    kind: Ints  # its class: jobs that need the same; or its group
    older: Ints  # the job submitted before it
    younger: Ints  # and after it
    slot: Ints  # the first GPU it holds, where GPUs have names
    old_slots: Ints  # where the GPUs stand that it gives up in this decision


PLACE: Final = {name: place for place, name in enumerate(Jobs.float_columns)}
"""Where a job's columns of floats stand, by name."""
ARRIVAL_COLUMNS: Final = PLACE["held"]
"""Columns that a job comes with."""
KNOWN_COLUMNS: Final = PLACE["key"]
"""Columns that belong to the scheduler: what is kept of a job that its user holds."""
TRUTH: Final = range(PLACE["true_work"], ARRIVAL_COLUMNS)
"""Columns that say the truth about a job, in a simulated world."""
COLUMNS: Final = len(Jobs.float_columns)
"""Columns before those that a policy keeps of its own."""


class Classes(StateTable):
    """Jobs that need the same.

    first: the row of the first of them that waits. next: another class of the same pool. only: the one GPU
    type of ``types``, negative where these are several.
    """

    least: Floats
    most: Floats
    types: Floats
    pool: Floats
    first: Ints
    next: Ints
    only: Ints


class Tournament(StateTable):
    """Rows of jobs that are served first, and GPUs that one needs (`volvelle.core.forward.classes`)."""

    need: Floats
    first: Ints


class Groups(StateTable):
    """Jobs in the system by group, in order of submission, where the policy decides by groups.

    demand: GPUs that its jobs can use. first, last: rows.
    """

    demand: Floats
    first: Ints
    last: Ints


class Ranks(StateTable):
    """Running jobs by what bounds their keys, in blocks (`volvelle.core.forward.running`)."""

    bound: Floats
    row: Ints


class Blocks(StateTable):
    """Blocks of `Ranks`: their numbers in order, those not in use last; jobs in the block of a number."""

    number: Ints
    jobs: Ints


BLOCK: Final = 64
"""Places in a block."""


class Expected(StateTable):
    """A heap of what comes: when, what, of which job. ``stamp``: its token, or the attempt of a checkpoint.

    value: of a checkpoint the units of work in it, NaN where Python knows.
    """

    at: Floats
    kind: Floats
    of: Floats
    row: Floats
    stamp: Floats
    value: Floats


MILESTONE, STOPPED, REPORT, TUNING = range(4)
"""Kinds of what is expected: a job ends, or something that Python knows happens to it; its checkpoint is
written; it tells its loss; it looks for a better batch size."""


class Releases(StateTable):
    """GPUs that come free later, where they are counted. claim: number of the job that waits, or -1."""

    at: Floats
    gpus: Floats
    type: Floats
    claim: Floats


class Types(StateTable):
    """GPUs by type: that take jobs, that jobs hold, and that are left during a decision.

    first_key: of jobs that wait (`volvelle.core.forward.classes.note_first_keys`). offered: free by name, on
    nodes that take jobs. sizes: of its nodes, as bits. tree, leaves: where its tree of `FreeNodes` begins,
    and places of leaves in it.
    """

    capacity: Floats
    used: Floats
    free: Floats
    first_key: Floats
    offered: Ints
    sizes: Ints
    tree: Ints
    leaves: Ints


class Pools(StateTable):
    """GPUs by pool: the most that its jobs may hold, that they hold, and that are left during a decision.

    owned: that it owns. lends: whether it does (0 or 1). classes: the first of its
    classes. running: the first of its jobs that run, under an order. touched: 1 where it is in ``list``, of
    those to be counted anew.
    """

    quota: Floats
    owned: Floats
    lends: Floats
    taken: Floats
    left: Floats
    classes: Ints
    running: Ints
    touched: Ints
    list: Ints


class Nodes(StateTable):
    """Nodes: free GPUs, their type, whether it takes jobs (0 or 1), the first of its slots.

    offered: free GPUs, none where it takes no jobs. leaf: its place in the tree of its type. picked: a list
    of nodes, for a job that is placed.
    """

    free: Ints
    type: Ints
    up: Ints
    slot: Ints
    offered: Ints
    leaf: Ints
    picked: Ints


class FreeNodes(StateTable):
    """For each GPU type a segment tree of counts of free GPUs, as bits; of leaves also their nodes.

    `volvelle.core.forward.free_nodes` keeps it.
    """

    counts: Ints
    node: Ints


class Slots(StateTable):
    """GPUs by name: number of the job that holds it (-1: none), its node, the next of the same job.

    The owner of a GPU of which jobs hold parts is `SHARED`. free_at: when it is free in fact. old: slots
    given up in a decision. shared: billionths of it that jobs hold. sharing: a list of those that are shared.
    named_row, named_node, named_gpus: a list of what a policy that chooses nodes gives to the job in a row.
    foreseen: billionths of it that jobs will hold, while a decision is cut to what can be named; ``old`` is a
    list of these then.
    """

    free_at: Floats
    owner: Ints
    node: Ints
    next: Ints
    old: Ints
    shared: Ints
    sharing: Ints
    named_row: Ints
    named_node: Ints
    named_gpus: Ints
    foreseen: Ints


SHARED: Final = -2
"""The owner of a GPU of which jobs hold parts."""


class EventLog(StateTable):
    """An event: of which job, in which attempt; the meaning of ``value`` depends on the kind."""

    kind: Floats
    number: Floats
    attempt: Floats
    value: Floats


(
    FINISHED,
    CHECKPOINTED,  # value: units of work that are safe
    BEGAN,  # value: when it gets the GPUs it was given
    SUBMITTED,
    WOKEN,
    REJECTED,  # by the decision of that moment, as is
    CONCLUDED,
    OBJECT,  # an event that Python brought; number: its place in the list of these
    TIMED_OUT,  # ended by its time limit, by the decision of that moment
) = range(9)
"""Kinds of what happened."""


class DecisionLog(StateTable):
    """From when on a job holds so many GPUs of a type. starts: so far. slots_end: of its GPUs' names."""

    job: Floats
    gpus: Floats
    type: Floats
    starts: Floats
    partner: Floats
    slots_end: Floats


class MomentLog(StateTable):
    """Moments, where their events and decisions end, and when the scheduler asked to be woken then."""

    time: Floats
    events_end: Floats
    decisions_end: Floats
    wake: Floats
