"""A job for tests: adds up shuffled numbers, and writes down what it did and which attempt did it.

Its arguments: the folder of its checkpoints, the file it writes into, seconds of an iteration, when to save.
"""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import volvelle.client as vc

EPOCHS, NUMBERS = 3, 40


class Shuffled:
    """The numbers in a new order every time, as a DataLoader gives them."""

    def __len__(self) -> int:
        return NUMBERS

    def __iter__(self) -> Iterator[int]:
        yield from random.sample(range(NUMBERS), NUMBERS)


def main(checkpoint: str, done: str, seconds: str, every: str) -> None:
    """Train."""
    random.seed(7)
    state = vc.restore(default=vc.State(weight=0.0, seen=[]), checkpoint=checkpoint)
    save_every = int(every) if every.isdecimal() else every
    with Path(done).open("a", encoding="utf-8") as lines:
        for number in vc.iterate(Shuffled(), epochs=EPOCHS, save=state.save, every=save_every):
            state.weight = 0.9 * state.weight + number * random.random()
            state.seen.append(number)
            lines.write(f"{vc.progress().iterations + 1} {number} {state.weight!r}\n")
            lines.flush()
            vc.report(weight=state.weight)
            time.sleep(float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
