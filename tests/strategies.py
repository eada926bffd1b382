"""What tests use of `volvelle.testing`."""

from volvelle.testing.scenario import *  # noqa: F403
from volvelle.testing.strategies import *  # noqa: F403
