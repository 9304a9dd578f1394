"""Joint: the same model trained offline on everything, the upper bound."""

from typing import Any, ClassVar

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from ocgl.strategies.base import STRICT
from ocgl.strategies.training import GCNStrategy


@dataclass(kw_only=True, config=STRICT)
class Joint(GCNStrategy):
    """A GCN trained in shuffled mini-batches, epoch after epoch, on all training nodes of the graph at hand.

    It stops when the validation AP has not risen for `patience` epochs and keeps the best parameters. `curve` trains
    one model from scratch for each task k on what has arrived by its end, besides the last. Batch by batch it learns
    as `bare` does; what makes it joint is that `ocgl run` gives it the whole graph and many epochs.

    >>> Joint(epochs=50).epochs
    50
    """

    name: ClassVar[str] = "joint"
    reference: ClassVar[str] = "offline training on all tasks at once"
    offline: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"lr": GCNStrategy.grid["lr"]}

    epochs: PositiveInt = 200
    patience: PositiveInt = 20
    joint_batch: PositiveInt = 512
    curve: bool = True
