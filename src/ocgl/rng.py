"""Random generators, one per seed and purpose: draws for one purpose never shift those of another."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of a purpose.

    Args:
        seed: seed of the run.
        purpose: name of what is drawn, for example `"split"`; part of the seed sequence.

    >>> bool(generator(0, "split").integers(9) == generator(0, "split").integers(9))
    True
    """
    return np.random.default_rng(np.random.SeedSequence([seed, *purpose.encode()]))


def key(source: np.random.Generator) -> int:
    """Draw a 63-bit key for one call of a neighbourhood sampler."""
    return int(source.integers(1 << 63))


def derived_key(key: int, number: int) -> int:
    """Return a key for a further sample, given the key of the first one.

    >>> derived_key(7, 1) == derived_key(7, 1), derived_key(7, 1) == derived_key(7, 2)
    (True, False)
    """
    return int(np.random.SeedSequence([key, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def state_of(source: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as a JSON-serialisable dictionary."""
    return cast(dict[str, Any], source.bit_generator.state)


def restore(source: np.random.Generator, state: dict[str, Any]) -> None:
    """Set a generator to a state returned by `state_of`."""
    source.bit_generator.state = state


@contextmanager
def seeded_torch(seed: int, *numbers: int, device: str = "cpu") -> Iterator[None]:
    """Let torch draw by a seed and further numbers inside the block, and leave its generators as they were.

    Args:
        seed: the seed.
        numbers: further numbers that the draws depend on.
        device: a device whose generator is seeded as well as that of the CPU, if it has one of its own.

    >>> import torch
    >>> with seeded_torch(0, 1):
    ...     first = torch.rand(2)
    >>> with seeded_torch(0, 1):
    ...     torch.equal(first, torch.rand(2))
    True
    """
    import torch

    chosen = int(np.random.SeedSequence([seed, *numbers]).generate_state(1, np.uint64)[0]) >> 1
    there = None if device == "cpu" else getattr(torch, device, None)
    there = there if hasattr(there, "get_rng_state") else None
    before, before_there = torch.get_rng_state(), None if there is None else there.get_rng_state()
    torch.default_generator.manual_seed(chosen)
    if there is not None:
        there.manual_seed(chosen)
    try:
        yield
    finally:
        torch.set_rng_state(before)
        if there is not None:
            there.set_rng_state(before_there)
