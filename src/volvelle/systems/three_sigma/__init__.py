"""3Sigma (Park et al., EuroSys'18): jobs by distributions of their run times."""

PARTS = {
    "policies": {
        "3sigma": "policy",
    },
}
"""The module of each part, by kind and name."""
