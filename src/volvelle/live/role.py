"""Roles of users, and of the agents of nodes."""

from enum import StrEnum


class Role(StrEnum):
    """Use the cluster, or operate it too. An agent is no user: it speaks for the node that its key is for."""

    USER = "user"
    OPERATOR = "operator"
    AGENT = "agent"
