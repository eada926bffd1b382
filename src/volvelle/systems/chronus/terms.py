"""The terms of Chronus' guarantees: its parameters."""

from typing import Annotated

from pydantic import Field

from volvelle.core.policy import Policy
from volvelle.model.validation import Seconds


class Terms(Policy):
    """The parameters of `chronus`, by which each of its decisions goes."""

    lease: Annotated[Seconds, Field(gt=0)] = Field(1200.0, description="length of an SLO lease")
    parts: Annotated[int, Field(ge=1)] = Field(4, description="best-effort leases in an SLO lease")
    user_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that guaranteed jobs of one user may request together"
    )
    pool_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="of the cluster, that guaranteed jobs of one pool may request together"
    )
    period: Annotated[Seconds, Field(gt=0)] = Field(
        10800.0, description="over which work that came is compared with what the cluster can do"
    )
    yielding: Annotated[float, Field(gt=0)] = Field(
        3.0, description="how much larger guaranteed jobs with time to spare count"
    )
    margin: Annotated[float, Field(ge=0, lt=10)] = Field(
        0.0, description="share by which jobs may take longer than believed, to begin with"
    )
    broken: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.01, description="share of guarantees that may be broken where estimates are wrong"
    )
    rounded: bool = Field(
        False,
        description="gangs count as 1, 2, 4, ... GPUs or whole nodes, as for placement round-up (Eq. 6)",
    )
