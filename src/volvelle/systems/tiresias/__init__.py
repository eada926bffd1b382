"""Tiresias (Gu et al., NSDI'19): discretised least attained service, and the Gittins index."""

PARTS = {
    "policies": {
        "gittins": "gittins",
        "gittins-simulator": "reproductions.gittins",
        "tiresias": "policy",
        "tiresias-afs": "reproductions.tiresias",
        "tiresias-pollux": "reproductions.tiresias",
        "tiresias-shortest": "reproductions.shortest",
        "tiresias-simulator": "reproductions.tiresias",
    },
    "formats": {
        "tiresias": "reader",
    },
}
"""The module of each part, by kind and name."""
