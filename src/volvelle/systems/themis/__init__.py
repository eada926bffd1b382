"""Themis (Mahajan et al., NSDI'20): finish-time fairness by auctions."""

PARTS = {
    "policies": {
        "themis": "policy",
    },
}
"""The module of each part, by kind and name."""
