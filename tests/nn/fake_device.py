"""Every strategy with every network makes whole updates on an accelerator that is not there.

    python -m tests.nn.fake_device

Torch's fake tensors follow shapes, types and devices, not values. Operations that mix devices fail, and so does reading
a value, for which a real device would have to be waited for. A build of torch without cuda cannot differentiate on a
fake cuda device, so the device is torch's place for a backend of one's own, `privateuseone`.
"""

import json
import sys
import traceback
from itertools import islice
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from ocgl.strategies import GradientStrategy, Learner, find, make_strategy, names
from ocgl.strategies._core.backbones import NAMES
from ocgl.streams import class_stream
from ocgl.testing import small_graph
from ocgl.testing.strategies import batches

DEVICE = "fake:0"
OPTIONS: dict[str, Any] = {"layers": 3, "bias": True, "dropout": 0.1, "residual": True, "layer_norm": True}


def update(strategy: GradientStrategy, passes: int = 4) -> set[str]:
    """Let a strategy learn some batches on the device; return where its parameters and moments are."""
    strategy.__dict__["_device"] = torch.device(DEVICE)
    learner = Learner(type(strategy)(**strategy.hyperparameters()))
    given = list(islice(batches(learner, class_stream(small_graph())), passes))
    with FakeTensorMode(allow_non_fake_inputs=True):
        for batch in given:
            strategy.learn(batch)
        parts = [*strategy.trainer.parameters, *strategy.trainer.optimizer._first, strategy.trainer._nonfinite_there]
        return {str(part.device) for part in parts}


def cases() -> dict[str, GradientStrategy]:
    found: dict[str, GradientStrategy] = {}
    for name in names():
        if issubclass(find(name), GradientStrategy):
            for backbone in NAMES:
                made = make_strategy(name, backbone=backbone, hidden=16, passes=2)
                assert isinstance(made, GradientStrategy)
                found[f"{name} {backbone}"] = made
            made = make_strategy(name, hidden=16, passes=2, norm="sym", **OPTIONS)
            assert isinstance(made, GradientStrategy)
            found[f"{name} with options"] = made
    return found


class Mixing(GradientStrategy):
    """Mixes devices: must fail."""

    def loss(self, examples: Any) -> Any:
        return super().loss(examples) + torch.ones(3).sum()[None]


class Waiting(GradientStrategy):
    """Reads a value of the device in a step: must fail."""

    def loss(self, examples: Any) -> Any:
        loss = super().loss(examples)
        return loss * 2 if loss.item() > 3 else loss


def main() -> None:
    _setup_privateuseone_for_python_backend("fake")
    fake_tensor.CONSTANT_NUMEL_LIMIT = -1  # tensors of one element would be computed on the device for real
    found: dict[str, str] = {}
    wrong = {"mixing": Mixing(hidden=16), "waiting": Waiting(hidden=16)}
    for name, strategy in (cases() | wrong).items():
        try:
            places = update(strategy)
            found[name] = "ok" if places == {DEVICE} else f"on {sorted(places)}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            if name not in wrong:
                traceback.print_exc()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
