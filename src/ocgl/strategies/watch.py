"""The same questions again and again, at the cost of what has changed since."""

import numpy as np

from ocgl.errors import DuplicateNodeError
from ocgl.graph import Standing, can_stand
from ocgl.strategies.learner import Learner
from ocgl.types import IntArray

_LARGEST_LOOK = 1 << 27  # bytes of the nodes' own features, written out


class Watch:
    """Answers as `Learner.predict` does, node for node, for a set of nodes that is asked about after every update.

    Where the method allows, each node's sum of raw features is kept until its degree changes, and the forward pass is
    one pass over the distinct nodes it needs. Elsewhere the look is taken anew: whole, or, where the weights depend
    on which nodes are looked at together (`sym`), in the learner's chunks. Asked twice about the same nodes with
    nothing learned and nothing arrived in between, it gives the answer that it has.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._standing: Standing | None = None
        self._asked: tuple[tuple[int, ...], IntArray, IntArray | None] | None = None
        self._answer: IntArray = np.empty(0, np.int64)

    def __call__(self, ids: IntArray, candidates: IntArray | None = None) -> IntArray:
        """Give the label of each of these nodes."""
        if not self._is_known(ids, candidates):
            self._answer = self._answered(ids, candidates)
            kept = None if candidates is None else candidates.copy()
            self._asked = (self._version, ids.copy(), kept)
        return self._answer.copy()

    def _is_known(self, ids: IntArray, candidates: IntArray | None) -> bool:
        if self._asked is None or self._asked[0] != self._version or not np.array_equal(self._asked[1], ids):
            return False
        last = self._asked[2]
        return candidates is last or (candidates is not None and last is not None and np.array_equal(candidates, last))

    @property
    def _version(self) -> tuple[int, ...]:
        """What tells that an answer may have changed, also where store or strategy were changed by themselves."""
        learner = self._learner
        return learner.version, len(learner.store), learner.store.edges, getattr(learner.strategy, "updates", 0)

    def _answered(self, ids: IntArray, candidates: IntArray | None) -> IntArray:
        learner = self._learner
        look, strategy = learner.question_look, learner.strategy
        if len(ids) == 0 or len(strategy.labels) == 0:
            return learner.predict(ids, candidates)
        if not (can_stand(look) and strategy.starts_from_sums(learner.store.features)):
            whole = max(learner.chunk, _LARGEST_LOOK // (4 * learner.store.features.width))
            return learner.predict(ids, candidates, None if look.norm == "sym" else whole)
        if self._standing is None:
            self._standing = Standing(learner.store, look, learner.question_key)
        try:
            seen, order = self._standing.look(ids)
        except DuplicateNodeError:
            return learner.predict(ids, candidates)
        if candidates is not None:
            sorted_candidates = np.empty_like(candidates)
            sorted_candidates[order] = candidates
            candidates = sorted_candidates
        return strategy.predict(seen, candidates)[order]
