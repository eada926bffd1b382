"""Failures of a delivery."""


class DeliveryFailed(Exception):  # noqa: N818 - it is what happened
    """A notification was not taken. permanent: nor would it be the next time."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(" ".join(message.split()))
        self.permanent = permanent
