"""The one way kernels are compiled: numba, cached on disk, without the interpreter lock."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ocgl.types import AnyArray

P = ParamSpec("P")
R = TypeVar("R")

LINE = 64
"""Bytes of a cache line."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and keep the machine code beside the source file; division by zero is as in numpy."""
    return cast(Callable[P, R], njit(cache=True, nogil=True, error_model="numpy")(function))


def summing(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as `kernel` does, for sums whose terms may be added in any order: they go several at a time."""
    return cast(Callable[P, R], njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small helper that other kernels inline."""
    return cast(Callable[P, R], njit(cache=True, nogil=True, inline="always")(function))


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(function, [address, number(0), number(3), number(1)])  # to read, keep close, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch = cast(Callable[[AnyArray, int], None], intrinsic(_prefetch))
"""Inside a kernel: ask for the cache line of an element of a flat array, without waiting for it."""
