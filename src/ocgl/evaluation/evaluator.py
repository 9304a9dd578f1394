"""The evaluator: scores predictions on held-out nodes. Only it knows their labels and the task boundaries."""

from typing import Protocol

import numpy as np

from ocgl.errors import ConfigError
from ocgl.evaluation.estimate import COVERAGE, Bootstrap, stratified
from ocgl.evaluation.metrics import Metric, anytime, average_anytime, average_forgetting, average_performance
from ocgl.state import State
from ocgl.streams import TEST, VALIDATION, Step, Stream
from ocgl.types import DoubleArray, IntArray, Json


class Predict(Protocol):
    """A function that returns a class for each node."""

    def __call__(self, ids: IntArray, candidates: IntArray | None = None, /) -> IntArray:
        """Return the predicted class of each node.

        Args:
            ids: ids of the nodes.
            candidates: for each node, the classes to choose from; None except in task-incremental streams.
        """
        ...


class _HeldOut:
    """The validation or test nodes of a stream in order of arrival, so that the arrived nodes are a prefix."""

    def __init__(self, stream: Stream, role: int) -> None:
        nodes = stream.held_out(role)
        self.ids: IntArray = nodes[(stream.scored[nodes] >= 0) & (stream.scored[nodes] < stream.tasks)]
        self.task = stream.scored[self.ids]
        self.truth = stream.graph.y[self.ids].copy()
        self.arrived = np.searchsorted(stream.position[self.ids], stream.cuts, side="left")
        self.weight: DoubleArray | None = None

    def subsample(self, stream: Stream, cap: int) -> int:
        """Reduce the nodes to a stratified sample of each task; return how many there were before."""
        total = len(self.ids)
        chosen, weight = stratified(self.task, self.truth, cap, stream.config["stream_seed"])
        if len(chosen) < total:
            self.ids, self.task, self.truth, self.weight = (
                self.ids[chosen],
                self.task[chosen],
                self.truth[chosen],
                weight,
            )
            self.arrived = np.searchsorted(stream.position[self.ids], stream.cuts, side="left")
        return total


class Evaluator:
    """Scores a learner on a stream, without training it.

    After every `every`-th step and after the last step of each task, the evaluator scores the arrived validation nodes
    of the tasks so far (anytime scores). After each task it also scores the arrived test nodes, which gives a row of
    the performance matrix.

    Args:
        stream: the stream that the learner is trained on.
        metric: `accuracy` or `f1:CLASS`.
        every: evaluate after every K-th step.
        test: whether to score test nodes; False in tuning, where the evaluator does not even hold them.
        cap: estimate the anytime scores from about this many validation nodes per task, with a bootstrap interval.
            Test scores stay exact.

    Attributes:
        matrix: the performance matrix; row i has the scores of each task after task i.
        undefined: how many anytime scores were undefined so far.
    """

    def __init__(
        self, stream: Stream, metric: str = "accuracy", every: int = 1, test: bool = True, cap: int | None = None
    ) -> None:
        if every < 1:
            raise ConfigError(f"eval_every must be positive, not {every}")
        if cap is not None and cap < 1:
            raise ConfigError(f"eval_cap must be positive, not {cap}")
        self._stream = stream
        self.metric = Metric.parse(metric)
        self.every = every
        self._validation = _HeldOut(stream, VALIDATION)
        self._test = _HeldOut(stream, TEST) if test else None
        self._refuse_senseless(stream)
        self._total = len(self._validation.ids) if cap is None else self._validation.subsample(stream, cap)
        self._full_validation = self._validation if cap is None else _HeldOut(stream, VALIDATION)
        self._bootstrap: Bootstrap | None = None
        if self._validation.weight is not None:
            held, seed = self._validation, stream.config["stream_seed"]
            self._bootstrap = Bootstrap(held.task, held.truth, self._validation.weight, stream.tasks, seed)
        self._steps: list[int] = []
        self._scores: list[DoubleArray] = []
        self.matrix: DoubleArray = np.full((stream.tasks, stream.tasks), np.nan)
        self.undefined = 0
        self._undefined = 0
        self._tried: IntArray = np.zeros(len(stream), np.int64)
        self._right: IntArray = np.zeros(len(stream), np.int64)

    def _refuse_senseless(self, stream: Stream) -> None:
        """Raise `ConfigError` if a score would be undefined all the way through."""
        needed, name = (self._validation, "validation") if self._test is None else (self._test, "test")
        if not len(needed.ids):
            split = list(stream.config["split"])
            raise ConfigError(f"split {split} leaves no {name} node to score; give it a part of the nodes")
        positive = self.metric.positive
        if positive is not None and not stream.is_prefix:
            classes = np.unique(np.concatenate([self._validation.truth, *([self._test.truth] if self._test else [])]))
            if positive not in classes:
                known = ", ".join(map(str, classes[:20].tolist()))
                raise ConfigError(f"metric {self.metric.name}: no node to score has class {positive}; classes: {known}")

    def before(self, step: Step, predicted: IntArray) -> None:
        """Record the predictions of a step's labels, made before learning them (prequential accuracy).

        Args:
            step: the step, which must bring labels.
            predicted: the predicted class of each labelled node.
        """
        labels = self._stream.labels_at(step.index)
        assert labels is not None
        self._tried[step.index] = len(predicted)
        self._right[step.index] = int((predicted == labels.labels).sum())

    def after(self, step: Step, predict: Predict, predict_validation: Predict | None = None) -> float | None:
        """Run the evaluations that are due after a step; return AP_t if validation nodes were evaluated, else None.

        Args:
            step: the step that was just learned.
            predict: returns the classes of nodes.
            predict_validation: used for validation nodes instead of `predict`; a predictor with a cache is faster
                here, as the same nodes are evaluated every time.
        """
        ended = np.nonzero(self._stream.ends == step.index)[0]
        due = (step.index + 1) % self.every == 0 or len(ended) > 0 or step.index + 1 == len(self._stream)
        if due:
            self._steps.append(step.index)
            self._scores.append(
                self._evaluate(self._validation, step.index, predict_validation or predict, self._bootstrap)
            )
            self.undefined += self._undefined
        if len(ended) and self._test is not None:
            self.matrix[ended] = self._evaluate(self._test, step.index, predict)
            if (self._stream.starts > 0).any():  # a straddling batch starts the next task before its row
                self.matrix[ended, ended.max() + 1 :] = np.nan
        return float(anytime(self._scores[-1][None])[0]) if due else None

    def peek(self, step: int, predict: Predict) -> float:
        """Return the exact AP_t after a step, without recording it (for early stopping of offline training).

        Args:
            step: index of the step.
            predict: returns the classes of nodes.
        """
        return float(anytime(self._evaluate(self._full_validation, step, predict)[None])[0])

    def _evaluate(self, held: _HeldOut, step: int, predict: Predict, bootstrap: Bootstrap | None = None) -> DoubleArray:
        arrived = int(held.arrived[step])
        evaluated = np.nonzero(self._stream.starts[held.task[:arrived]] <= step)[0]
        there = self._stream.are_there(held.ids[evaluated], step)
        evaluated = evaluated if there is None else evaluated[there]
        ids, task, truth = held.ids[evaluated], held.task[evaluated], held.truth[evaluated]
        candidates = self._stream.candidates(ids)
        if len(ids) == 0:
            predicted: IntArray = np.empty(0, np.int64)
        else:
            predicted = predict(ids) if candidates is None else predict(ids, candidates)
        weight = None if held.weight is None else held.weight[evaluated]
        scores = self.metric.per_task(predicted, truth, task, self._stream.tasks, weight)
        present = np.bincount(task, minlength=self._stream.tasks) > 0
        self._undefined = int(np.isnan(scores[present]).sum())
        if bootstrap is not None:
            bootstrap.add(self.metric, evaluated, predicted, truth)
        return scores

    @property
    def steps(self) -> IntArray:
        """The indices of the steps after which validation nodes were evaluated."""
        return np.array(self._steps, np.int64)

    @property
    def scores(self) -> DoubleArray:
        """The validation scores (evaluated steps x tasks), nan where a score is undefined."""
        return np.array(self._scores).reshape(-1, self._stream.tasks)

    @property
    def anytime(self) -> DoubleArray:
        """AP_t of the evaluated steps."""
        return anytime(self.scores)

    @property
    def prequential(self) -> tuple[IntArray, IntArray]:
        """For each step, how many labels were predicted before learning, and how many of them correctly."""
        return self._tried, self._right

    def result(self) -> Json:
        """Return the scores in percent; None where a score is undefined.

        `AF` follows the paper's formula (T - 1 tasks), `AF_T` its printed numbers (T tasks).
        """
        tasks = self._stream.tasks
        scores = {
            "AP": average_performance(self.matrix),
            "AF": average_forgetting(self.matrix, tasks - 1),
            "AF_T": average_forgetting(self.matrix, tasks),
            "AAP": average_anytime(self.scores),
            "AP_validation": average_performance(self.scores) if self._scores else float("nan"),
            "prequential": self._right.sum() / self._tried.sum() if self._tried.any() else float("nan"),
        }
        return {name: None if np.isnan(value) else 100 * float(value) for name, value in scores.items()}

    def evaluation(self) -> Json:
        """Return whether the anytime scores are exact or an estimate, from how many nodes, and the interval of AAP."""
        nodes = {"nodes": len(self._validation.ids), "of": self._total}
        if self._bootstrap is None:
            return {"anytime": "exact", **nodes}
        interval = self._bootstrap.interval()
        percent = None if interval is None else [100 * bound for bound in interval]
        return {"anytime": "estimate", **nodes, "AAP_interval": percent, "coverage": COVERAGE}

    def state(self) -> State:
        """Return a copy of all scores so far."""
        arrays = {"steps": self.steps, "scores": self.scores, "matrix": self.matrix.copy()}
        counts = {"tried": self._tried.copy(), "right": self._right.copy()}
        state = State(arrays | counts, {"undefined": self.undefined})
        return state if self._bootstrap is None else state.include("bootstrap", self._bootstrap.state())

    def load_state(self, state: State) -> None:
        """Replace the scores by those of a saved state."""
        self.undefined = state.facts["undefined"]
        self._steps = state.arrays["steps"].tolist()
        self._scores = list(np.array(state.arrays["scores"]))
        self.matrix = np.array(state.arrays["matrix"])
        self._tried, self._right = np.array(state.arrays["tried"]), np.array(state.arrays["right"])
        if self._bootstrap is not None:
            self._bootstrap.load_state(state.part("bootstrap"))
