"""Epoch-based termination: a job ends with its work."""

from typing import ClassVar

from volvelle.core.parts import Termination, terminations


@terminations.register
class Completion(Termination):
    """A job ends when all its work is done."""

    name: ClassVar[str] = "completion"
