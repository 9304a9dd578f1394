"""Decorators that compile numba kernels: cached on disk, without the GIL."""

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
"""Size of a cache line in bytes."""


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    try:
        return cast(Callable[P, R], njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # no folder for the machine code can be written: it is compiled in every process
        return cast(Callable[P, R], njit(nogil=True, **options)(function))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and cache the machine code beside the source file, or in the user's cache folder.

    Division by zero follows numpy: it returns inf or NaN and raises nothing.
    """
    return _compiled(function, error_model="numpy")


def summing(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, and allow the compiler to reorder floating-point sums (SIMD)."""
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function that is inlined into the kernels that call it."""
    return _compiled(function, inline="always")


def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        # read (0), into all cache levels (3), data (1)
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch = cast(Callable[[AnyArray, int], None], intrinsic(_prefetch))
"""Prefetch the cache line of one element of a flat array. Only callable inside a kernel; does not block."""
