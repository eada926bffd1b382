"""Gandiva-Fair (Chaudhary et al., EuroSys'20): fair shares by tickets over GPU types."""

PARTS = {
    "policies": {
        "gandiva-fair": "policy",
    },
}
"""The module of each part, by kind and name."""
