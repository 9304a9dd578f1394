"""What an operator should hear of: drifts, batches that could not be learned, losses that are no number."""

import logging

from ocgl.serving.engine import Engine

logger = logging.getLogger("ocgl.serving")
TEXTS = {
    "drifts": "drift",
    "failed": "a batch could not be learned",
    "losses": "a loss was not finite: are features scaled?",
}


class Notices:
    """Logs what has happened since the last call.

    Args:
        engine: the state of the service.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told = self._counts()

    def tell(self) -> None:
        """Log what is new."""
        counts = self._counts()
        if counts == self._told:
            return
        for (strategy, what), count in counts.items():
            if count > self._told[strategy, what]:
                recent = self._engine.scores[strategy].recent
                facts = {"strategy": strategy, "so_far": count, "recent_accuracy": recent}
                logger.warning(TEXTS[what], extra={"facts": facts})
        self._told = counts

    def _counts(self) -> dict[tuple[str, str], int]:
        found = {}
        for name, (failed, losses) in self._engine.troubles().items():
            found[name, "drifts"] = self._engine.scores[name].drift_count
            found[name, "failed"], found[name, "losses"] = failed, losses
        return found
