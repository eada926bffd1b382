"""The live world: the scheduler that was simulated, now on real jobs.

::

    user ─▶ API ─▶ Controller ─▶ Scheduler (core, unchanged)
                    │   ▲
     Store ◀────────┤   │ reports
    (journal, jobs) ▼   │
                  orders│
                    Executor ─▶ agents on nodes ─▶ job processes (`volvelle.client`)

Words: an *order* is what the controller wants of an executor, a *report* what an executor saw; an *attempt*
is one run of a job on the same GPUs, from its start to its end: the fence against late news. Attempts of a
job are numbered from 1 by the controller, one for each time that a decision gives it GPUs, so numbers may be
skipped. A *page* is the little file through which a job and the agent of its node speak, without a message.
A *picture* is what the controller shows of itself after each cycle.
"""
