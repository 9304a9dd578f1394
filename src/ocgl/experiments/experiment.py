"""One run: a stream through a learner, evaluated at any time, resumable at any batch."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import ocgl
from ocgl.errors import ResumeError
from ocgl.evaluation import Evaluator
from ocgl.experiments.config import RunConfig
from ocgl.experiments.memory import peak_rss_bytes
from ocgl.experiments.protocol import protocol_card
from ocgl.experiments.results import Evaluation, RunResult, Statistics, UpdateCost
from ocgl.experiments.storage import kind_of, predictor_for
from ocgl.graph import Batch, Cost, GraphStore, Labels
from ocgl.state import State
from ocgl.strategies import CachedPredictor, Learner, Strategy, make_strategy
from ocgl.strategies._core.backbones import GCN_NAME, title_of_backbone
from ocgl.streams import Step, Stream
from ocgl.types import Json

Prequential = Literal["evaluated", "every", "never"]


@dataclass(frozen=True)
class Progress:
    """Where a run is after a step.

    Attributes:
        step: steps done.
        steps: steps of the stream.
        nodes: nodes that have arrived.
        anytime: the last AP_t, between 0 and 1; None before the first evaluation.
        evaluated: whether this step was evaluated.
        nodes_per_second: nodes per second of learning and evaluating so far.
    """

    step: int
    steps: int
    nodes: int
    anytime: float | None
    evaluated: bool
    nodes_per_second: float


Callback = Callable[[Progress], None]
"""Called after every step of a run."""


class Experiment:
    """Connects a stream, a strategy on a store, and an evaluator; `step` after `step` to the end.

    Args:
        config: what to run.
        stream: the stream that the config describes.
        strategy: the strategy object to train; made from the config if not given.
        test: whether test nodes may be read; not so in tuning.
        store: an empty store; in memory if None. No number depends on it.
        prequential: which batches are predicted before they are learned; the config's if not given.
    """

    def __init__(
        self,
        config: RunConfig,
        stream: Stream,
        strategy: Strategy | None = None,
        test: bool = True,
        store: GraphStore | None = None,
        prequential: Prequential | None = None,
    ) -> None:
        torch.set_num_threads(1)  # the matrices are small: a second thread costs more than it brings
        threadpool_limits(1)
        self.config = config
        self.stream = stream
        self.strategy = strategy if strategy is not None else self._make_strategy(config.seed)
        self.learner = Learner(self.strategy, config.eval_fanout, config.eval_chunk, store, config.device)
        self.predictor = predictor_for(self.learner)
        self.evaluator = Evaluator(stream, config.metric, config.eval_every, test, config.eval_cap)
        self.done = 0
        self.learn_seconds = self.evaluate_seconds = 0.0
        self.most = Cost()
        self.updates = 0
        self._prequential: Prequential = prequential or config.prequential
        self._anytime: float | None = None
        self._evaluated = True  # nothing was learned yet: the first question costs nothing
        self._compile()

    def step(self) -> Progress:
        """Let the next nodes arrive, learn the labels that have become known, and evaluate if it is time."""
        step = self.stream.step(self.done)
        arrival, changes, labels = step.arrival, step.changes, step.labels
        begin = time.perf_counter()
        self.learner.arrive(arrival)
        if changes is not None:
            changes.apply(self.learner)
        if labels is not None:
            batch = self.learner.batch(labels)
            begin += self._predict_first(step, batch)
            self.learner.learn(batch)
            self._count(batch.cost)
        learned = time.perf_counter()
        score = self.evaluator.after(step, self.learner.predict, self.predictor)
        self.learn_seconds += learned - begin
        self.evaluate_seconds += time.perf_counter() - learned
        self._evaluated = score is not None
        self._anytime = self._anytime if score is None else score
        self.done += 1
        return self._progress()

    def finish(self, callbacks: Iterable[Callback] = ()) -> RunResult:
        """Go to the end of the stream and return the result; `callbacks` are called after every step."""
        callbacks = tuple(callbacks)
        while self.done < len(self.stream):
            progress = self.step()
            for callback in callbacks:
                callback(progress)
        return self.result()

    def result(self) -> RunResult:
        """Return everything about the run so far."""
        strategy, evaluator, config = self.strategy, self.evaluator, self.config
        tried = int(evaluator.prequential[0].sum())
        asked = Evaluation(**evaluator.evaluation(), prequential_labels=tried)
        return RunResult(
            dataset=config.dataset,
            stream=config.stream.kind,
            strategy=config.strategy,
            title=_title(strategy),
            profile=config.profile,
            seed=config.seed,
            setting="main",
            buffer=config.buffer,
            hyperparameters=_as_json(strategy.hyperparameters()),
            **evaluator.result(),
            evaluation=asked,
            matrix=_as_lists(evaluator.matrix * 100),
            updates=self.updates,
            undefined_scores=evaluator.undefined,
            nonfinite_losses=getattr(strategy, "nonfinite_losses", 0),
            learn_seconds=self.learn_seconds,
            evaluate_seconds=self.evaluate_seconds,
            peak_rss_bytes=peak_rss_bytes(),
            memory_bytes=strategy.memory_bytes,
            memory_nodes=strategy.memory_nodes,
            store=kind_of(self.learner.store),
            store_bytes=self.learner.store.nbytes,
            cost_per_update=UpdateCost(most=self.most, bound=self._bound()),
            statistics=Statistics(**self.stream.statistics()),
            stream_hash=self.stream.content_hash,
            graph_hash=self.stream.graph.content_hash,
            protocol=protocol_card(config, self.stream, self.learner),
            versions=_versions(strategy),
            config=config,
        )

    def state(self) -> State:
        """Return all that the rest of the run depends on, but for the stream."""
        facts: Json = {
            "done": self.done,
            "updates": self.updates,
            "learn_seconds": self.learn_seconds,
            "evaluate_seconds": self.evaluate_seconds,
            "most": asdict(self.most),
            "anytime": self._anytime,
            "evaluated": self._evaluated,
            "stream_hash": self.stream.content_hash,
            "config": self.config.model_dump(mode="json"),
        }
        state = State({}, facts).include("learner", self.learner.state())
        return state.include("evaluator", self.evaluator.state())

    def load_state(self, state: State) -> None:
        """Continue from a state: the nodes that had arrived arrive again, everything else is taken as it was."""
        facts = state.facts
        if facts["stream_hash"] != self.stream.content_hash:
            raise ResumeError("the stream differs from the one the run began with: the data or the code has changed")
        if facts["config"] != self.config.model_dump(mode="json"):
            own, given = self.config.model_dump(mode="json"), facts["config"]
            other = ", ".join(sorted(key for key in own if given.get(key) != own[key]))
            raise ResumeError(f"the checkpoint is of another run: it has another {other}")
        self.learner.load_state(state.part("learner"))
        self.evaluator.load_state(state.part("evaluator"))
        self.done, self.updates = facts["done"], facts["updates"]
        self._anytime, self._evaluated = facts["anytime"], facts["evaluated"]
        self.learn_seconds, self.evaluate_seconds = facts["learn_seconds"], facts["evaluate_seconds"]
        self.most = Cost(**facts["most"])
        self.stream.replay(self.learner, self.done)

    def _make_strategy(self, seed: int) -> Strategy:
        return make_strategy(self.config.strategy, seed=seed, **self.config.resolved(self.stream.base))

    def _compile(self) -> None:
        """Compile the kernels before the clock runs: two nodes through a second strategy of the same kind."""
        twin = Learner(type(self.strategy)(seed=0, **self.strategy.hyperparameters()), device=self.strategy.device_name)
        rows = self.stream.graph.x[:2] if self.stream.graph.x is not None else np.zeros((2, 1))
        twin.store.add([0, 1], rows, [[0], [1]])
        twin.learn(Labels(np.array([0, 1]), np.array([0, 1])))
        twin.predict([0])
        CachedPredictor(twin)(np.array([0]))

    def _predict_first(self, step: Step, batch: Batch) -> float:
        """Predict a batch before it is learned, if that is wanted; return the seconds it took.

        By default only right after an evaluated step: a method that has to solve for its weights has just done so.
        """
        if self._prequential == "never" or (self._prequential == "evaluated" and not self._evaluated):
            return 0.0
        begin = time.perf_counter()
        self.evaluator.before(step, self.strategy.predict(batch.neighborhood, batch.candidates))
        spent = time.perf_counter() - begin
        self.evaluate_seconds += spent
        return spent

    def _count(self, cost: Cost) -> None:
        self.updates += 1
        most = self.most
        self.most = Cost(max(most.nodes, cost.nodes), max(most.edges, cost.edges), max(most.bytes, cost.bytes))

    def _bound(self) -> Cost | None:
        if not self.strategy.sampling.bounded or not self.updates:
            return None
        return self.strategy.update_bound(self.most_seeds, self.learner.store.features.row_bound)

    @property
    def most_seeds(self) -> int:
        """Most nodes of an update."""
        return self.config.stream.batch_size

    def _progress(self) -> Progress:
        nodes = int(self.stream.cuts[self.done - 1])
        spent = self.learn_seconds + self.evaluate_seconds
        return Progress(self.done, len(self.stream), nodes, self._anytime, self._evaluated, nodes / max(spent, 1e-9))


def _title(strategy: Strategy) -> str:
    """Return the name of a method in tables, with its network where that is not the GCN."""
    title, network = strategy.title or strategy.name, strategy.hyperparameters().get("backbone", GCN_NAME)
    return title if network == GCN_NAME else f"{title} ({title_of_backbone(network)})"


def _versions(strategy: Strategy) -> dict[str, str]:
    """Return the versions of what computes the numbers."""
    names = ["torch", "numpy", "numba"]
    if strategy.hyperparameters().get("backbone", GCN_NAME) != GCN_NAME and find_spec("torch_geometric"):
        names.append("torch_geometric")
    return {name: version(name) for name in names} | {"ocgl": ocgl.__version__}


def _as_lists(matrix: Any) -> list[list[float | None]]:
    return [[None if np.isnan(v) else float(v) for v in row] for row in matrix]


def _as_json(values: Json) -> Json:
    """Write tuples as lists, as they come back from a file."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
