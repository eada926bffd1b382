"""How many GPUs elastic jobs are to have in a window, at one price of a round on a GPU.

Shockwave (NSDI'23) keeps the number of a job's workers. Its market does not ask for that: rounds on a GPU are
what is bought, and a job may use them on few GPUs or on many. GPUs of one type and the rounds of a window
that is planned by counts are alike, so that there is one price p, and each job takes the gang w and the
rounds n that are worth most to it::

    max over w, n of  gain[j, w, 0] + ... + gain[j, w, n - 1]  -  p w n

The price is the lowest at which no more rounds are wanted than there are (the dual of that constraint, as
prices of the market are). The gang is then fixed for the window, and how many rounds each job has is
decided by `volvelle.systems.shockwave.rounds`.
"""

import numpy as np

from volvelle.model.arrays import FloatColumn, Floats, IntColumn

_HALVINGS = 40
"""Of the interval in which the price is."""

_SOONER = 1e-6
"""By which part of all that a job could gain fewer rounds are better than a window of them."""


def choose_gangs(gangs: Floats, gain: Floats, gpu_rounds: float) -> tuple[IntColumn, float]:
    """(jobs,) which of its gangs each job takes at the price that ``gpu_rounds`` have, and that price.

    gangs: (jobs, ways) GPUs, ascending. gain: (jobs, ways, slots) what the first, the second ... round
    adds to the objective. Of what is worth as much the fewest rounds are taken, so that a job that ends in
    the window does so early where GPUs cost nothing. A job that can pay for nothing takes the gang for which
    least is lacking.
    """
    slots = gain.shape[2]
    worth, rounds = np.cumsum(gain, axis=2), np.arange(1, slots + 1)
    worth -= _SOONER * worth.max(axis=(1, 2), keepdims=True, initial=0.0) * rounds / slots
    used = gangs[:, :, None] * rounds

    def at(price: float) -> tuple[IntColumn, FloatColumn]:
        left = (worth - price * used).reshape(len(gangs), -1)
        best = left.argmax(axis=1)
        pays = np.take_along_axis(left, best[:, None], axis=1)[:, 0] > 0.0
        wanted = np.take_along_axis(used.reshape(len(gangs), -1), best[:, None], axis=1)[:, 0]
        return best // slots, wanted * pays

    chosen, wanted = at(0.0)
    too_low, enough = 0.0, float((worth / used).max(initial=0.0))
    if wanted.sum() <= gpu_rounds or enough <= 0.0:
        return chosen, 0.0
    for _ in range(_HALVINGS):
        price = (too_low + enough) / 2
        if at(price)[1].sum() > gpu_rounds:
            too_low = price
        else:
            enough = price
    return at(enough)[0], enough
