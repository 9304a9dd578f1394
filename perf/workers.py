"""Trials per second of two workers against one."""

import time

from ocgl.experiments import configure
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.trials import tuning_score
from perf.updates import Row

TRIALS = 12
ROUNDS = 2


def seconds(workers: int) -> float:
    """Time trials on a pool whose workers have loaded everything."""
    configs = [configure("amazon-computer", "bare", overrides={"passes": 5}, seed=seed) for seed in range(TRIALS)]
    with LocalExecutor(workers) as pool:
        list(pool.map(tuning_score, configs[:workers], [None] * workers))
        begin = time.perf_counter()
        list(pool.map(tuning_score, configs, [None] * TRIALS))
        return time.perf_counter() - begin


def measure() -> list[Row]:
    spent = {workers: min(seconds(workers) for _ in range(ROUNDS)) / TRIALS for workers in (1, 2)}
    return [Row("seconds per trial, two workers", spent[2], "one worker", spent[1], 1.8, "s", name="workers")]


if __name__ == "__main__":
    for row in measure():
        print(f"{row.what}: {row.ours:.2f}, {row.reference}: {row.theirs:.2f}, {row.ratio:.2f} times as many trials")
