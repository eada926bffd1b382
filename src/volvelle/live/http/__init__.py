"""The HTTP API: what the controller offers, to those who may have it.

::

    request ─▶ Limits ─▶ Gate (whose token?) ─▶ a handler ─▶ Controller
                                                  │
    answer ◀── JSON, one form of error ◀──────────┘

Handlers never wait in the event loop: pictures are there already, what is asked for is awaited, and all else
runs in threads. A user sees and touches only their own jobs; of others' there are rows, without what is
inside.
"""
