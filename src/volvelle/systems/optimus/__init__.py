"""Optimus (Peng et al., EuroSys'18): GPUs where they shorten jobs most, and ends of jobs from their loss."""

PARTS = {
    "policies": {
        "optimus": "policy",
    },
    "estimators": {
        "convergence": "estimator",
    },
}
"""The module of each part, by kind and name."""
