"""The simulated world, and what is done with it: simulations and forecasts.

workload ──▶ World (truth, exact event loop) ⇄ Scheduler (belief) ──▶ Recorder ──▶ Outcomes
"""
