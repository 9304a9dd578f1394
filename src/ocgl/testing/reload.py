"""Saved learners in a new process: `python -m ocgl.testing.reload FOLDER ...` loads each, learns on, and predicts.

A folder holds `stream.npz`, `state.safetensors` and `strategy.json`; the scores go to `now.npy` and `later.npy`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ocgl.experiments.stepping import arrivals
from ocgl.files import write_array, write_json
from ocgl.state import State
from ocgl.strategies import Learner, Strategy, make_strategy
from ocgl.strategies._core.registry import is_findable, spec_of
from ocgl.streams import Stream
from ocgl.types import FloatArray


def all_scores(learner: Learner) -> FloatArray:
    """Return the scores of all nodes of a store, sampled with a fixed key."""
    neighborhood = learner.store.sample(learner.store.ids, learner.strategy.sampling, 0)
    return learner.strategy.scores(neighborhood)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread, as runs do: with another number of threads sums are rounded otherwise."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def scores_of_the_rest(
    learner: Learner, stream: Stream, done: int, load: State | None
) -> tuple[FloatArray, FloatArray]:
    """Return scores after `done` batches, and after the rest of the stream.

    Args:
        learner: an untrained learner.
        stream: the stream.
        done: batches to learn first, or to skip if a state is given.
        load: the state after those batches; None to learn them.
    """
    now: FloatArray | None = None
    for number, (_, batch) in enumerate(arrivals(learner, stream), start=1):
        if number == done and load is not None:
            learner.load_state(load)
        elif number > done or load is None:
            learner.learn(batch)
        if number == done:
            now = all_scores(learner)
    assert now is not None
    return now, all_scores(learner)


@_one_thread()
def state_after(learner: Learner, stream: Stream, done: int) -> State:
    """Return the state of an untrained learner after it has learned some batches."""
    for _, batch in islice(arrivals(learner, stream), done):
        learner.learn(batch)
    return learner.state()


def in_new_process(strategy: Strategy, state: State, stream: Stream, done: int, folder: Path) -> list[FloatArray]:
    """Return what a new process predicts with a state: right away, and after learning the rest of the stream.

    Args:
        strategy: the strategy; it must be in a file, so that the other process finds it.
        state: state of a learner after `done` batches.
        stream: the stream that it learns.
        done: number of batches that were learned.
        folder: an empty folder.
    """
    write(strategy, state, stream, done, folder)
    read_in_new_process([folder])
    return scores_in(folder)


def write(strategy: Strategy, state: State, stream: Stream, done: int, folder: Path) -> None:
    """Write what a new process needs to go on; the arguments are those of `in_new_process`."""
    assert is_findable(strategy)
    stream.save(folder / "stream.npz")
    state.save(folder / "state.safetensors")
    made = {"strategy": spec_of(strategy), "seed": strategy.seed, "done": done}
    write_json(folder / "strategy.json", made | {"hyperparameters": strategy.hyperparameters()})


def read_in_new_process(folders: list[Path]) -> None:
    """Let one new process go on with what was written into some folders."""
    command = [sys.executable, "-m", "ocgl.testing.reload", *map(str, folders)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"the new process ended with code {ended.returncode}")


def scores_in(folder: Path) -> list[FloatArray]:
    """Return what a new process has predicted: right away, and after learning the rest of the stream."""
    return [np.load(folder / name, allow_pickle=False) for name in ("now.npy", "later.npy")]


def main(folder: Path) -> None:
    """Load the state in the folder, predict, learn the rest of the stream, and predict again."""
    made = json.loads((folder / "strategy.json").read_text())
    strategy = make_strategy(made["strategy"], seed=made["seed"], **made["hyperparameters"])
    state = State.load(folder / "state.safetensors")
    found = scores_of_the_rest(Learner(strategy), Stream.load(folder / "stream.npz"), made["done"], state)
    for name, scores in zip(("now.npy", "later.npy"), found, strict=True):
        write_array(folder / name, scores)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        main(Path(given))
