"""Predictions for a fixed set of nodes, with cached neighbourhood sums."""

import numpy as np

from ocgl.errors import DuplicateNodeError
from ocgl.graph import AggregateCache, is_cacheable
from ocgl.strategies._core.learner import Learner
from ocgl.types import IntArray

_LARGEST_SAMPLE = 1 << 27  # bytes of the nodes' own features, written out


class CachedPredictor:
    """Predicts as `Learner.predict` does, for nodes that are asked about after every update.

    Where the method allows it, each node's sum of raw features is cached until its degree changes, and the forward
    pass goes once over the distinct nodes it needs. Elsewhere neighbourhoods are sampled again: all at once, or, where
    weights depend on which nodes are sampled together (`sym`), in the learner's chunks. If nothing was learned and
    nothing has arrived since the last call with the same nodes, the last predictions are returned.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._cache: AggregateCache | None = None
        self._asked: tuple[tuple[int, ...], IntArray, IntArray | None] | None = None
        self._answer: IntArray = np.empty(0, np.int64)

    def __call__(self, ids: IntArray, candidates: IntArray | None = None) -> IntArray:
        """Return the label of each of these nodes."""
        if not self._is_known(ids, candidates):
            self._answer = self._answered(ids, candidates)
            copied = None if candidates is None else candidates.copy()
            self._asked = (self._version, ids.copy(), copied)
        return self._answer.copy()

    def _is_known(self, ids: IntArray, candidates: IntArray | None) -> bool:
        if self._asked is None or self._asked[0] != self._version or not np.array_equal(self._asked[1], ids):
            return False
        last = self._asked[2]
        return candidates is last or (candidates is not None and last is not None and np.array_equal(candidates, last))

    @property
    def _version(self) -> tuple[int, ...]:
        """What changes when a prediction may change, also where store or strategy were changed directly."""
        learner = self._learner
        return learner.version, learner.store.version, learner.strategy.updates

    def _answered(self, ids: IntArray, candidates: IntArray | None) -> IntArray:
        learner = self._learner
        sampling, strategy = learner.query_sampling, learner.strategy
        if len(ids) == 0 or len(strategy.labels) == 0:
            return learner.predict(ids, candidates)
        if not (is_cacheable(sampling) and strategy.supports_cached_aggregates(learner.store.features)):
            whole = max(learner.chunk, _LARGEST_SAMPLE // (4 * learner.store.features.width))
            return learner.predict(ids, candidates, None if sampling.norm == "sym" else whole)
        if self._cache is None:
            self._cache = AggregateCache(learner.store, sampling, learner.query_key)
        try:
            neighborhood, order = self._cache.sample(ids)
        except DuplicateNodeError:
            return learner.predict(ids, candidates)
        if candidates is not None:
            sorted_candidates = np.empty_like(candidates)
            sorted_candidates[order] = candidates
            candidates = sorted_candidates
        return strategy.predict(neighborhood, candidates)[order]
