"""HiveD (Zhao et al., OSDI'20): GPUs as buddy cells in powers of two."""

PARTS = {
    "placements": {
        "buddy": "placement",
    },
}
"""The module of each part, by kind and name."""
