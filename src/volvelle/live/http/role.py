"""Roles of users."""

from enum import StrEnum


class Role(StrEnum):
    """Use the cluster, or operate it too."""

    USER = "user"
    OPERATOR = "operator"
