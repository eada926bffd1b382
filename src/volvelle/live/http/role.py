"""What somebody with a token may do."""

from enum import StrEnum


class Role(StrEnum):
    """Use the cluster, or run it too."""

    USER = "user"
    OPERATOR = "operator"
