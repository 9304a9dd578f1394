"""The memory that an object holds."""

import gc
import types

import numpy as np


def held_bytes(owner: object) -> int:
    """Return the bytes of all arrays and tensors that are reachable from an object, except through code."""
    import torch

    visited, total, queue = {id(owner)}, 0, [owner]
    while queue:
        item = queue.pop()
        parts = gc.get_referents(item)
        if isinstance(item, np.ndarray):
            whole = not isinstance(item.base, np.ndarray)
            total += item.nbytes if whole else 0
            parts += [] if whole else [item.base]  # a view holds all of the array that it is a view of
        elif isinstance(item, torch.Tensor):
            total += item.untyped_storage().nbytes()
        for part in parts:
            code = isinstance(part, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType)
            if not code and id(part) not in visited:
                visited.add(id(part))
                queue.append(part)
    return total
