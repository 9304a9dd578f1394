"""The offline upper bound: trained on all that has arrived, many times over, and judged as the others are."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.run import Progress, Run
from ocgl.graph import Store
from ocgl.rng import generator
from ocgl.strategies import Learner, Watch, make
from ocgl.strategies.joint import Joint
from ocgl.streams import Stream
from ocgl.types import IntArray, Json


class JointRun(Run):
    """Trains to the end of each task (or of the last only); AP on test nodes after the last, no AAP and no AF.

    The curve's value at task k is the validation AP over the tasks up to k of a model trained on the nodes that had
    arrived by the end of task k; it fills the anytime scores at that step.
    """

    def __init__(self, config: RunConfig, stream: Stream, test: bool = True, folder: Path | None = None) -> None:
        super().__init__(config, stream, test, folder)
        assert isinstance(self.learner.strategy, Joint)
        self.settings = self.learner.strategy
        self._ends = stream.ends.tolist() if self.settings.curve else [int(stream.ends[-1])]

    def step(self) -> Progress:
        """Go to the end of the next task and train there from scratch."""
        end = next(e for e in self._ends if e >= self.done)
        arrived = self.stream.order[: self.stream.cuts[end]]
        begin = time.perf_counter()
        self.learner = self._fitted(arrived, end)
        self.learn_seconds += time.perf_counter() - begin
        self._anytime = self.judge.after(self.stream.step(end), self.learner.predict)
        self.done = end + 1
        return self._progress()

    def finish(self, watch: Callable[[Progress], None] = lambda _: None) -> Json:
        """Train up to each task and give the result; what an offline model does not have is None."""
        result = super().finish(watch)
        result |= dict.fromkeys(("AAP", "AF", "AF_T", "prequential"))
        result["evaluation"].pop("AAP_interval", None)
        values = [None if np.isnan(ap) else 100 * float(ap) for ap in self.judge.anytime]
        curve = [[step, value] for step, value in zip(self.judge.steps.tolist(), values, strict=True)]
        return result | {"curve": curve, "matrix": [result["matrix"][-1]]}

    def _fitted(self, arrived: IntArray, end: int) -> Learner:
        learner = Learner(
            make(self.config.strategy, seed=self.config.seed, **self.config.strategy_settings(self.stream.base)),
            self.config.eval_fanout,
            self.config.eval_chunk,
            Store(self.learner.store.folder),
        )
        watch = Watch(learner)
        learner.arrive(self.stream.arrival(arrived))
        train = self.stream.label_order[: self.stream.label_cuts[end]]
        rng = generator(self.config.seed, f"epochs {end}")
        best, best_state, since = -1.0, learner.strategy.state(), 0
        for _ in range(self.settings.epochs):
            self._epoch(learner, rng.permutation(train))
            value = self.judge.peek(end, watch)
            since += 1
            if value > best or np.isnan(value):  # nothing to choose by: the last is as good as any
                best, best_state, since = np.nan_to_num(value, nan=-1.0), learner.strategy.state(), 0
            if since >= self.settings.patience:
                break
        learner.strategy.load_state(best_state)
        return learner

    def _epoch(self, learner: Learner, train: IntArray) -> None:
        for begin in range(0, len(train), self.settings.joint_batch):
            part = train[begin : begin + self.settings.joint_batch]
            self._count(learner.learn(self.stream.labels_of(part)).neighborhood.cost)

    @property
    def most_seeds(self) -> int:
        """How many nodes an update may have."""
        return self.settings.joint_batch
