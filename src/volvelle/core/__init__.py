"""The core: a scheduler that is a pure state machine.

    events ──▶ Scheduler(admission ∘ policy ∘ placement, estimator) ──▶ decision
                     │
                     └──▶ Journal: every event and every decision, in order

Words: an **event** is what happened in the world; a **decision** is one value carrying arrays of what
changes; the **state** is columns of the jobs in the system and who holds which GPU; a **part** is a named,
parametrised piece of a **composition**; a **fork** is a copy that can run ahead.
"""
