"""The goodput function that a job which tunes its own batch size reports (Pollux, OSDI'21)."""

from typing import NamedTuple

import msgspec


class StepParameters(NamedTuple):
    """Pollux' model of a step's seconds, on a local batch of ``m`` samples a GPU and ``n`` GPUs.

    compute = alpha_c + beta_c m; exchange = alpha + beta max(n - 2, 0) with the parameters ``_n`` across
    nodes, ``_r`` within one, and nothing on one GPU; a step takes (compute^gamma + exchange^gamma) ^
    (1 / gamma): their sum where gamma is 1, nearly the longer of them where it is 10.
    """

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float


class Goodput(msgspec.Struct, frozen=True, gc=False):
    """A job's goodput function: the model of its steps, its gradient's noise, its batch sizes.

    grad_sqr, grad_var: squared norm and variance of the gradient at the initial batch size.
    A GPU holds ``least_local`` to ``most_local`` samples at once.
    """

    steps: StepParameters
    grad_sqr: float
    grad_var: float
    initial_batch: int
    most_batch: int
    least_local: int
    most_local: int
