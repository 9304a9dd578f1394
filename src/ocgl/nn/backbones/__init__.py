"""Networks of torch_geometric layers, one file each: `nn/backbones/NAME.py` has a class `Net`.

`Net(in_channels, hidden, layers)` makes one; `forward(x, edge_index)` returns one row per node. A name here is a value
of the hyperparameter `backbone`.
"""

from importlib import import_module
from pathlib import Path

from torch import nn

from ocgl.errors import MissingExtraError

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))
"""The shipped networks beside `gcn`."""


def shipped(name: str) -> type[nn.Module]:
    """Return the class of a shipped network; without torch_geometric, raise `MissingExtraError`."""
    try:
        net: type[nn.Module] = import_module(f"ocgl.nn.backbones.{name}").Net
    except ImportError as error:
        raise MissingExtraError(f"the backbone {name}", "pyg") from error
    return net
