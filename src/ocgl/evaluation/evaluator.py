"""The evaluator: holds the held-out labels and the task boundaries, asks for predictions, never teaches."""

from typing import Protocol

import numpy as np

from ocgl.errors import ConfigError
from ocgl.evaluation.estimate import COVERAGE, Bootstrap, stratified
from ocgl.evaluation.metrics import Metric, anytime, average_anytime, average_forgetting, average_performance
from ocgl.state import State
from ocgl.streams import TEST, VALIDATION, Step, Stream
from ocgl.types import DoubleArray, IntArray, Json


class Predict(Protocol):
    """Answers with a label for each node; `candidates` are given in task-incremental streams only."""

    def __call__(self, ids: IntArray, candidates: IntArray | None = None, /) -> IntArray:
        """Predict."""
        ...


class _HeldOut:
    """Held-out nodes of a role in order of arrival: those that have arrived are always a prefix."""

    def __init__(self, stream: Stream, role: int) -> None:
        nodes = stream.held_out(role)
        self.ids: IntArray = nodes[(stream.scored[nodes] >= 0) & (stream.scored[nodes] < stream.tasks)]
        self.task = stream.scored[self.ids]
        self.truth = stream.graph.y[self.ids].copy()
        self.arrived = np.searchsorted(stream.position[self.ids], stream.cuts, side="left")
        self.weight: DoubleArray | None = None

    def thin(self, stream: Stream, cap: int) -> int:
        """Keep a part of the nodes of each task; gives how many there were."""
        whole = len(self.ids)
        chosen, weight = stratified(self.task, self.truth, cap, stream.config["stream_seed"])
        if len(chosen) < whole:
            self.ids, self.task, self.truth, self.weight = (
                self.ids[chosen],
                self.task[chosen],
                self.truth[chosen],
                weight,
            )
            self.arrived = np.searchsorted(stream.position[self.ids], stream.cuts, side="left")
        return whole


class Evaluator:
    """Scores a learner on a stream. It holds the held-out labels and the task boundaries, and never teaches.

    After every `every`-th step, and after the last step of each task, it asks for the validation nodes that have
    arrived of the tasks seen so far. After each task it fills a row of the performance matrix, on the test nodes that
    have arrived.

    Args:
        stream: the stream that the learner is driven over.
        metric: `accuracy`, or `f1:CLASS`.
        every: evaluate after every K-th step.
        test: whether test nodes may be read; in tuning they are not even held.
        cap: estimate the anytime scores from about this many validation nodes of each task, with an interval. Test
            scores stay exact.
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
        self._whole = len(self._validation.ids) if cap is None else self._validation.thin(stream, cap)
        self._all = self._validation if cap is None else _HeldOut(stream, VALIDATION)
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

    def before(self, step: Step, predicted: IntArray) -> None:
        """Note how many labels of a step were predicted right before they were learned (prequential accuracy)."""
        labels = self._stream.labels_at(step.index)
        assert labels is not None
        self._tried[step.index] = len(predicted)
        self._right[step.index] = int((predicted == labels.labels).sum())

    def after(self, step: Step, predict: Predict, watch: Predict | None = None) -> float | None:
        """Ask what is due after a step. Gives AP_t when the validation nodes were asked.

        `watch` answers for the validation nodes, where given: they are the same ones every time.
        """
        ended = np.nonzero(self._stream.ends == step.index)[0]
        due = (step.index + 1) % self.every == 0 or len(ended) > 0 or step.index + 1 == len(self._stream)
        if due:
            self._steps.append(step.index)
            self._scores.append(self._ask(self._validation, step.index, watch or predict, self._bootstrap))
            self.undefined += self._undefined
        if len(ended) and self._test is not None:
            self.matrix[ended] = self._ask(self._test, step.index, predict)
            if (self._stream.starts > 0).any():  # a straddling batch may have begun the next task: not its row's yet
                self.matrix[ended, ended.max() + 1 :] = np.nan
        return float(anytime(self._scores[-1][None])[0]) if due else None

    def peek(self, step: int, predict: Predict) -> float:
        """Give the exact AP_t as it would be after a step, without noting it (for early stopping offline)."""
        return float(anytime(self._ask(self._all, step, predict)[None])[0])

    def _ask(self, held: _HeldOut, step: int, predict: Predict, bootstrap: Bootstrap | None = None) -> DoubleArray:
        arrived = int(held.arrived[step])
        asked = np.nonzero(self._stream.starts[held.task[:arrived]] <= step)[0]
        ids, task, truth = held.ids[asked], held.task[asked], held.truth[asked]
        predicted = predict(ids, self._stream.candidates(ids))
        weight = None if held.weight is None else held.weight[asked]
        scores = self.metric.per_task(predicted, truth, task, self._stream.tasks, weight)
        present = np.bincount(task, minlength=self._stream.tasks) > 0
        self._undefined = int(np.isnan(scores[present]).sum())
        if bootstrap is not None:
            bootstrap.add(self.metric, asked, predicted, truth)
        return scores

    @property
    def steps(self) -> IntArray:
        """The steps after which validation nodes were asked."""
        return np.array(self._steps, np.int64)

    @property
    def scores(self) -> DoubleArray:
        """Their scores per task (steps x tasks), nan for tasks not neighborhood."""
        return np.array(self._scores).reshape(-1, self._stream.tasks)

    @property
    def anytime(self) -> DoubleArray:
        """AP_t of those steps."""
        return anytime(self.scores)

    @property
    def prequential(self) -> tuple[IntArray, IntArray]:
        """Labels tried and predicted right, step by step."""
        return self._tried, self._right

    def result(self) -> Json:
        """Give AP, AF (by the formula), AF_T (as printed in the paper), AAP and prequential accuracy, in percent."""
        tasks = self._stream.tasks
        figures = {
            "AP": average_performance(self.matrix),
            "AF": average_forgetting(self.matrix, tasks - 1),
            "AF_T": average_forgetting(self.matrix, tasks),
            "AAP": average_anytime(self.scores),
            "AP_validation": average_performance(self.scores) if self._scores else float("nan"),
            "prequential": self._right.sum() / self._tried.sum() if self._tried.any() else float("nan"),
        }
        return {name: None if np.isnan(value) else 100 * float(value) for name, value in figures.items()}

    def evaluation(self) -> Json:
        """Say whether the anytime scores are exact or an estimate, from how many nodes, and how far AAP may be off."""
        nodes = {"nodes": len(self._validation.ids), "of": self._whole}
        if self._bootstrap is None:
            return {"anytime": "exact", **nodes}
        interval = self._bootstrap.interval()
        percent = None if interval is None else [100 * bound for bound in interval]
        return {"anytime": "estimate", **nodes, "AAP_interval": percent, "coverage": COVERAGE}

    def state(self) -> State:
        """Give all scores so far."""
        arrays = {"steps": self.steps, "scores": self.scores, "matrix": self.matrix}
        state = State(arrays | {"tried": self._tried, "right": self._right}, {"undefined": self.undefined})
        return state if self._bootstrap is None else state.include("bootstrap", self._bootstrap.state())

    def load_state(self, state: State) -> None:
        """Take scores."""
        self.undefined = state.facts["undefined"]
        self._steps = state.arrays["steps"].tolist()
        self._scores = list(np.array(state.arrays["scores"]))
        self.matrix = np.array(state.arrays["matrix"])
        self._tried, self._right = np.array(state.arrays["tried"]), np.array(state.arrays["right"])
        if self._bootstrap is not None:
            self._bootstrap.load_state(state.part("bootstrap"))
