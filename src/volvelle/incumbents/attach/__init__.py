"""Attaching to a scheduler that a site has: forecasts of its jobs, how well was told, replay of a recording.

::

    poll ─▶ Recording ─▶ Replay ─▶ Follower.observe, tell ─▶ table, HTTP API, Prometheus, summary
                          │
                          └ Incumbent: what reads the answers, the site's rules, the look-ahead

A scheduler declares an `Incumbent` among the ``attached`` of its package, and a command that attaches to it
among the ``attaches``.
"""

PARTS: dict[str, dict[str, str]] = {"commands": {"attach": "command:app"}}
"""The module of each part, by kind and name."""
