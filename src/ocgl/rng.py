"""Random generators by seed and purpose, so that no purpose shifts another's draws."""

from typing import Any, cast

import numpy as np


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Give the generator of one purpose of one seed.

    >>> bool(generator(0, "split").integers(9) == generator(0, "split").integers(9))
    True
    """
    return np.random.default_rng(np.random.SeedSequence([seed, *purpose.encode()]))


def key(source: np.random.Generator) -> int:
    """Draw the key of one sampling."""
    return int(source.integers(1 << 63))


def state_of(source: np.random.Generator) -> dict[str, Any]:
    """Give the generator's state as JSON."""
    return cast(dict[str, Any], source.bit_generator.state)


def restore(source: np.random.Generator, state: dict[str, Any]) -> None:
    """Put a state from `state_of` back."""
    source.bit_generator.state = state
