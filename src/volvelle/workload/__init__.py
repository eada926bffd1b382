"""Workloads: traces read, written, described and fitted, and workloads generated.

trace file ──▶ reader ──▶ Workload (jobs by submission, import report) ──▶ a world
parameters ──▶ generator ──┘
"""
