"""One run: a stream through a learner, judged at any time, resumable at any batch."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import ocgl
from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.memory import peak_rss_bytes
from ocgl.benchmark.protocol import protocol_card
from ocgl.errors import ResumeError
from ocgl.evaluation import Judge
from ocgl.graph import Cost, Labels, Store
from ocgl.state import State
from ocgl.strategies import Learner, Watch, make
from ocgl.streams import Stream
from ocgl.types import Json

_CHUNK = 100_000


@dataclass(frozen=True)
class Progress:
    """Where a run is after a step."""

    step: int
    steps: int
    nodes: int
    anytime: float | None
    nodes_per_second: float


class Run:
    """Wires a stream, a strategy on a store, and a judge; `step` after `step` to the end.

    `folder` puts the store on disk; no number depends on it.
    """

    def __init__(self, config: RunConfig, stream: Stream, test: bool = True, folder: Path | None = None) -> None:
        torch.set_num_threads(1)  # the matrices are small: a second thread costs more than it brings
        threadpool_limits(1)
        self.config = config
        self.stream = stream
        strategy = make(config.strategy, seed=config.seed, **config.strategy_settings(stream.base))
        self.learner = Learner(strategy, config.eval_fanout, config.eval_chunk, Store(folder))
        self.watch = Watch(self.learner)
        self.judge = Judge(stream, config.metric, config.eval_every, test, config.eval_cap)
        self.done = 0
        self.learn_seconds = self.evaluate_seconds = 0.0
        self.most = Cost()
        self.updates = 0
        self._anytime: float | None = None
        self._compile()

    def step(self) -> Progress:
        """Let the next step's nodes arrive, learn its labels, and let the judge ask."""
        step = self.stream.step(self.done)
        arrival, labels = step.arrival, step.labels
        begin = time.perf_counter()
        self.learner.arrive(arrival)
        if labels is not None:
            batch = self.learner.batch(labels)
            begin += self._prequential(step, batch)
            self.learner.learn(batch)
            self._count(batch.neighborhood.cost + self.learner.strategy.further_cost)
        learned = time.perf_counter()
        score = self.judge.after(step, self.learner.predict, self.watch)
        self.learn_seconds += learned - begin
        self.evaluate_seconds += time.perf_counter() - learned
        self._anytime = self._anytime if score is None else score
        self.done += 1
        return self._progress()

    def finish(self, watch: Callable[[Progress], None] = lambda _: None) -> Json:
        """Go to the end of the stream and give the result."""
        while self.done < len(self.stream):
            watch(self.step())
        return self.result()

    def result(self) -> Json:
        """Give everything about the run as JSON."""
        strategy = self.learner.strategy
        return {
            "dataset": self.config.dataset,
            "stream": self.config.stream.kind,
            "strategy": self.config.strategy,
            "profile": self.config.profile,
            "seed": self.config.seed,
            "hyperparameters": strategy.hyperparameters(),
            **self.judge.result(),
            "evaluation": self.judge.evaluation(),
            "matrix": _jsonable(self.judge.matrix * 100),
            "updates": self.updates,
            "undefined_scores": self.judge.undefined,
            "nonfinite_losses": getattr(strategy, "nonfinite_losses", 0),
            "learn_seconds": self.learn_seconds,
            "evaluate_seconds": self.evaluate_seconds,
            "peak_rss_bytes": peak_rss_bytes(),
            "memory_bytes": strategy.memory_bytes,
            "memory_nodes": strategy.memory_nodes,
            "store": "memory" if self.learner.store.folder is None else "disk",
            "store_bytes": self.learner.store.nbytes,
            "cost_per_update": {"most": asdict(self.most), "bound": self._bound()},
            "statistics": self.stream.statistics(),
            "stream_hash": self.stream.content_hash,
            "graph_hash": self.stream.graph.content_hash,
            "protocol": protocol_card(self.config, self.stream, self.learner),
            "versions": {name: version(name) for name in ("torch", "numpy", "numba")} | {"ocgl": ocgl.__version__},
            "config": self.config.model_dump(mode="json"),
        }

    def state(self) -> State:
        """Give all that the rest of the run depends on, but for the stream."""
        facts: Json = {
            "done": self.done,
            "updates": self.updates,
            "learn_seconds": self.learn_seconds,
            "evaluate_seconds": self.evaluate_seconds,
            "most": asdict(self.most),
            "anytime": self._anytime,
            "stream_hash": self.stream.content_hash,
        }
        return State({}, facts).include("learner", self.learner.state()).include("judge", self.judge.state())

    def load_state(self, state: State) -> None:
        """Continue from a state: what had arrived arrives again, everything else is taken as it was."""
        facts = state.facts
        if facts["stream_hash"] != self.stream.content_hash:
            raise ResumeError("the stream differs from the one the run began with: the data or the code has changed")
        self.learner.load_state(state.part("learner"))
        self.judge.load_state(state.part("judge"))
        self.done, self.updates, self._anytime = facts["done"], facts["updates"], facts["anytime"]
        self.learn_seconds, self.evaluate_seconds = facts["learn_seconds"], facts["evaluate_seconds"]
        self.most = Cost(**facts["most"])
        arrived = self.stream.order[: self.stream.cuts[self.done - 1] if self.done else 0]
        for begin in range(0, len(arrived), _CHUNK):
            self.learner.arrive(self.stream.arrival(arrived[begin : begin + _CHUNK]))

    def _compile(self) -> None:
        """Make the kernels compile before the clock runs: two nodes through a twin of the learner."""
        twin = Learner(make(self.config.strategy, **self.config.strategy_settings(self.stream.base)))
        rows = self.stream.graph.x[:2] if self.stream.graph.x is not None else np.zeros((2, 1))
        twin.store.add([0, 1], rows, [[0], [1]])
        twin.learn(Labels(np.array([0, 1]), np.array([0, 1])))
        twin.predict([0])
        Watch(twin)(np.array([0]))

    def _prequential(self, step: Any, batch: Any) -> float:
        begin = time.perf_counter()
        self.judge.before(step, self.learner.strategy.predict(batch.neighborhood, batch.candidates))
        spent = time.perf_counter() - begin
        self.evaluate_seconds += spent
        return spent

    def _count(self, cost: Cost) -> None:
        self.updates += 1
        most = self.most
        self.most = Cost(max(most.nodes, cost.nodes), max(most.edges, cost.edges), max(most.bytes, cost.bytes))

    def _bound(self) -> Json | None:
        look = self.learner.strategy.look
        if not look.bounded or not self.updates:
            return None
        seeds = self.most_seeds + self.learner.strategy.looks_again
        return asdict(look.bound(seeds, self.learner.store.features.row_bound))

    @property
    def most_seeds(self) -> int:
        """How many nodes an update may have."""
        return self.config.stream.batch_size

    def _progress(self) -> Progress:
        nodes = int(self.stream.cuts[self.done - 1])
        spent = self.learn_seconds + self.evaluate_seconds
        return Progress(self.done, len(self.stream), nodes, self._anytime, nodes / max(spent, 1e-9))


def _jsonable(matrix: Any) -> list[list[float | None]]:
    return [[None if np.isnan(v) else float(v) for v in row] for row in matrix]
