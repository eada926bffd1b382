"""Gavel (Narayanan et al., OSDI'20): heterogeneity-aware policies over GPU types.

A policy says which fraction of the time each job is to spend on each GPU type: the solution of a linear
program in the matrix X of fractions (jobs x types), with the rates T of the jobs as measured on each type.
All of them share (`volvelle.systems.gavel.base`)

    X >= 0;   sum over types of X(i, t) <= 1 for each job i
    sum over jobs of gpus(i) X(i, t) <= GPUs of type t, for each type t

With ``space_sharing`` X has a row for each pair of jobs too that may run on the same GPUs, at the rates
they have beside each other (`volvelle.systems.gavel.demand`); a pair takes its GPUs once and its time from
both. A job whose neighbour ends goes on at the rate of the pair until the round ends, as in Gavel's
simulator; each of a pair holds one half of the GPUs in the books. A change of neighbour is a move.

The policies differ in what they maximise; a round mechanism (`volvelle.policies.rounds`) turns fractions into
whole jobs on whole GPUs. The formulas are those of Gavel's simulator as described for the reference results
beside the repository.

========================  ==========================================================
`gavel-las`               max-min fairness, weighted (`las`)
`gavel-hierarchical`      max-min fairness by water filling, pools as entities (`hierarchical`)
`gavel-ftf`               finish-time fairness (`finish_time`)
`gavel-makespan`          minimum makespan (`totals`)
`gavel-throughput`        largest sum of rates (`totals`)
`gavel-cost`              largest sum of rates over prices (`totals`)
`gavel-fifo`              first in, first out, on the fastest free type (`fifo`)
========================  ==========================================================
"""

PARTS = {
    "policies": {
        "gavel-cost": "totals",
        "gavel-fifo": "fifo",
        "gavel-ftf": "finish_time",
        "gavel-hierarchical": "hierarchical",
        "gavel-las": "las",
        "gavel-makespan": "totals",
        "gavel-throughput": "totals",
    },
    "generators": {
        "gavel": "generator",
    },
    "formats": {
        "gavel": "reader",
    },
}
"""The module of each part, by kind and name."""
