"""Blox (Agarwal et al., EuroSys'24): placements by bandwidth and skew, and the synthesizer of policies."""

PARTS = {
    "switchers": {"synthesizer": "synthesizer:Synthesizer"},
    "placements": {
        "bandwidth-aware": "bandwidth",
        "consolidated-random": "bandwidth",
        "profiled": "profiled",
        "skew": "skew",
    },
}
"""The module of each part, by kind and name."""
