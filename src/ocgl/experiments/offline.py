"""The run of an offline bound: trained on all that has arrived, many times over, and evaluated as the others are."""

import time
from collections.abc import Iterable

import numpy as np

from ocgl.experiments.experiment import Callback, Experiment, Progress
from ocgl.experiments.results import RunResult
from ocgl.graph import GraphStore
from ocgl.rng import generator
from ocgl.strategies import CachedPredictor, Learner
from ocgl.strategies.joint import Joint
from ocgl.types import IntArray


class OfflineExperiment(Experiment):
    """Trains up to the end of each task (or of the last only); AP on test nodes after the last, no AAP and no AF.

    The curve's value at task k is the validation AP over the tasks up to k of a network trained on the nodes that had
    arrived by the end of task k.
    """

    @property
    def joint(self) -> Joint:
        """The strategy, with its options for offline training."""
        assert isinstance(self.strategy, Joint)
        return self.strategy

    @property
    def _ends(self) -> list[int]:
        """The steps at which a network is trained: the end of each task, or of the last only."""
        ends: list[int] = self.stream.ends.tolist()
        return ends if self.joint.curve else ends[-1:]

    def step(self) -> Progress:
        """Go to the end of the next task and train there from scratch."""
        end = next(e for e in self._ends if e >= self.done)
        begin = time.perf_counter()
        self.learner = self._fitted(end)
        self.strategy = self.learner.strategy
        self.learn_seconds += time.perf_counter() - begin
        self._anytime = self.evaluator.after(self.stream.step(end), self.learner.predict)
        self.done = end + 1
        return self._progress()

    def finish(self, callbacks: Iterable[Callback] = ()) -> RunResult:
        """Train up to each task and return the result; what an offline method does not have is None."""
        result = super().finish(callbacks)
        values = [None if np.isnan(ap) else 100 * float(ap) for ap in self.evaluator.anytime]
        asked = result.evaluation.model_copy(update={"AAP_interval": None, "prequential_labels": None})
        return result.model_copy(
            update={
                **dict.fromkeys(("AAP", "AF", "AF_T", "prequential")),
                "evaluation": asked,
                "curve": list(zip(self.evaluator.steps.tolist(), values, strict=True)),
                "matrix": [result.matrix[-1]],
            }
        )

    def _fitted(self, end: int) -> Learner:
        learner = Learner(
            type(self.joint)(seed=self.joint.seed, **self.joint.hyperparameters()),
            self.config.eval_fanout,
            self.config.eval_chunk,
            GraphStore(self.learner.store.folder),
            self.config.device,
        )
        predictor = CachedPredictor(learner)
        self.stream.replay(learner, end + 1)
        train = self.stream.label_order[: self.stream.label_cuts[end]]
        there = self.stream.are_there(train, end)
        train = train if there is None else train[there]
        rng = generator(self.joint.seed, f"epochs {end}")
        best, best_state, since = -1.0, learner.strategy.state(), 0
        for _ in range(self.joint.epochs):
            self._epoch(learner, rng.permutation(train))
            value = self.evaluator.peek(end, predictor)
            since += 1
            if value > best or np.isnan(value):  # nothing to choose by: the last is as good as any
                best, best_state, since = np.nan_to_num(value, nan=-1.0), learner.strategy.state(), 0
            if since >= self.joint.patience:
                break
        learner.strategy.load_state(best_state)
        return learner

    def _epoch(self, learner: Learner, train: IntArray) -> None:
        for begin in range(0, len(train), self.joint.joint_batch):
            part = train[begin : begin + self.joint.joint_batch]
            self._count(learner.learn(learner.batch(self.stream.labels_of(part))).cost)

    @property
    def most_seeds(self) -> int:
        """Most nodes of an update."""
        return self.joint.joint_batch
