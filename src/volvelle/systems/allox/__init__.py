"""AlloX (Le et al., EuroSys'20): average completion times over GPU types, by matching."""

PARTS = {
    "policies": {
        "allox": "policy",
    },
}
"""The module of each part, by kind and name."""
