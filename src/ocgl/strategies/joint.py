"""Joint: the same network trained offline on everything, the upper bound."""

from typing import Any, ClassVar

from pydantic import PositiveInt
from torch import Tensor

from ocgl.strategies._core.base import strategy
from ocgl.strategies._core.gradient import GRID, Examples, GradientStrategy


@strategy
class Joint(GradientStrategy):
    """A GCN trained in shuffled mini-batches, epoch after epoch, on all training nodes that have arrived.

    L = CE(mini-batch), over all training nodes, until the validation AP has not risen for `patience` epochs

    Batch by batch it learns as `bare` does. `ocgl run` gives it the whole graph and many epochs.

    Args:
        epochs: most epochs.
        patience: epochs without a better validation AP before training stops; the best parameters are kept.
        joint_batch: nodes of a mini-batch.
        curve: train one network from scratch for each task on what has arrived by its end, besides the last.

    >>> Joint(epochs=50).epochs
    50
    """

    name: ClassVar[str] = "joint"
    title: ClassVar[str] = "Joint"
    idea: ClassVar[str] = "offline training on everything, the upper bound"
    update_cost: ClassVar[str] = "G per batch, epochs times"
    reference: ClassVar[str] = "offline training on all tasks at once"
    offline: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"lr": GRID["lr"]}

    epochs: PositiveInt = 200
    patience: PositiveInt = 20
    joint_batch: PositiveInt = 512
    curve: bool = True

    def loss(self, examples: Examples) -> Tensor:
        """L = CE(mini-batch)."""
        return self.cross_entropy(examples)
