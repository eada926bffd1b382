"""The simulated world, and what is done with it: simulations and forecasts.

workload ──▶ World (truth, exact event loop) ⇄ Scheduler (belief) ──▶ Recorder ──▶ Outcomes
"""

from volvelle.callable_room import make_callable

make_callable(__name__, "volvelle.notebook.runs", "simulate")
