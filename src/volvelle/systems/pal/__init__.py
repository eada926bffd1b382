"""PAL: placement by the variability of GPUs (Jain et al., SC'24), and its PM-First.

GPUs of one type differ in speed, and by how much depends on the application: jobs are of variability
classes, and each GPU has a slowdown for each class (`JobSpec.variability`, `Node.slowdowns`). A job is as
fast as the slowest of its GPUs. Scores are slowdowns by bins (K-means); PAL goes through the matrix of
locality and variability by the product of the two, PM-First by variability alone. Jobs of the class that
varies most choose first, and jobs that run are placed anew.

The whole text of the paper was not at hand: the rules are those of its public artifact. Departures:
bins are the optimum in one dimension; their number is the one of the best silhouette (the artifact's loop
returns after two bins); of equal nodes the one with the fewest GPUs of the bin is taken; a gang pays its
`spread_slowdown` for each node beyond the fewest, where the artifact has one factor for all that stand on
several; jobs move only when another one is placed, and within a class those that run choose in order of
submission.
"""

PARTS = {
    "placements": {
        "pal": "placement",
        "pm-first": "placement",
    },
}
"""The module of each part, by kind and name."""
