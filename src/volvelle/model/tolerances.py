"""Tolerances of comparisons, each named by what it compares: sums of floats carry rounding errors.

Floors and steps that belong to one published algorithm stand with that algorithm.
"""

SAME_MOMENT = 1e-6
"""Seconds: times on one clock that differ by no more are the same."""

SAME_END = 1e-3
"""Seconds: an end that is later than its guarantee or deadline by no more keeps it."""

SAME_AMOUNT = 1e-9
"""GPUs, CPUs, GB: amounts that differ by no more are the same."""

LEFT_GPUS = 1e-11
"""GPUs: what is left over when GPUs are divided among jobs, and is nothing."""

GRANTED = 1e-6
"""GPUs: how far the sum of what a policy grants may exceed the GPUs of the cluster."""

SAME_SHARE = 1e-9
"""Relative: shares, ratios and sums that differ by no more are the same."""

SOLVED = 1e-6
"""Relative: what an optimum of a solver may lose when it is a constraint of the next program."""

WHOLE_NUMBER = 1e-9
"""A number that is closer to a whole one counts as that one when it is rounded up or down."""

WHOLE_SAMPLE = 1e-8
"""The same for samples of a batch on each GPU, as Pollux' simulator has it."""

WHOLE_ROUND = 1e-6
"""The same for rounds and slots, whose lengths are divided by each other."""

LEAST_DIVISOR = 1e-12
"""Weights, gains, rates and work below this count as this where something is divided by them."""
