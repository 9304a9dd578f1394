"""The one way kernels are compiled: numba, cached on disk, without the interpreter lock."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and keep the machine code beside the source file."""
    return cast(Callable[P, R], njit(cache=True, nogil=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small helper that other kernels inline."""
    return cast(Callable[P, R], njit(cache=True, nogil=True, inline="always")(function))
