"""An agent that learns to beat first in, first out: it climbs, from weights of nothing, to better ones.

Needs ``volvelle[gym]``. A job's score is the weighted sum of its columns (`volvelle.gym.COLUMNS`).
"""

import numpy as np

from volvelle.gym import COLUMNS, SchedulingEnv

env = SchedulingEnv("lognormal:jobs=40,load=2", "1x8", interval=600.0)


def episode(weights: np.ndarray, seed: int) -> float:
    """The reward of an episode: minus the hours that all jobs take, with their waits."""
    (jobs, _), total, over = env.reset(seed=seed), 0.0, False
    while not over:
        scores = jobs @ weights / max(np.abs(weights).sum(), 1.0)  # from -1 to 1
        jobs, reward, over, *_ = env.step(scores.astype(np.float32))
        total += reward
    return total


def learn(rounds: int = 20) -> np.ndarray:
    """The best weights of a climb over three episodes."""
    draw, best = np.random.default_rng(0), np.zeros(len(COLUMNS))
    reached = -np.inf
    for _ in range(rounds):
        tried = best + draw.normal(size=len(best))
        if (reward := sum(episode(tried, seed) for seed in range(3))) > reached:
            best, reached = tried, reward
    return best


if __name__ == "__main__":
    learnt, fifo, fresh = learn(), np.zeros(len(COLUMNS)), range(100, 110)
    for name, weights in (("fifo", fifo), ("learnt", learnt)):
        hours = -np.mean([episode(weights, seed) for seed in fresh])
        print(f"{name:8}{hours:.0f} job-hours on average, on ten fresh workloads")
    print(*(f"{name} {weight:+.2f}" for name, weight in zip(COLUMNS, learnt, strict=True)))
