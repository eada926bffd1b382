"""AFS (Hwang et al., NSDI'21): elastic shares by the contest of two jobs."""

PARTS = {
    "policies": {
        "afs-l": "policy",
        "afs-p": "policy",
    },
}
"""The module of each part, by kind and name."""
