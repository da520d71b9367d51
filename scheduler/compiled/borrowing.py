"""Arrays that compiled code borrows, so that it counts no references to them.

Numba counts references to an array whenever a view of it is cut or a tuple with it is handed on, by an atomic
addition to memory; in a loop that cuts a board's state out of shared arrays at every event that was two
fifths of the time. A borrowed array has no counter. Whoever lends it must keep it until the borrower returns.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fluidnpu.dse import has_numba

T = TypeVar("T")


def borrow(lent: T) -> T:
    """Return an array, or a tuple with arrays in it, without their counters; in plain Python as it is."""
    return lent


if has_numba():
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    def _without(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        """Return the value with the owners of all its arrays set to none."""
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value=value)
            array.meminfo = ir.Constant(array.meminfo.type, None)
            array.parent = ir.Constant(array.parent.type, None)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            for place, member in enumerate(kind.types):
                inner = _without(context, builder, member, builder.extract_value(value, place))
                value = builder.insert_value(value, inner, place)
        return value

    @intrinsic  # type: ignore[untyped-decorator]
    def _borrow(typing: Any, lent: Any) -> Any:
        def generated(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _without(context, builder, signature.args[0], args[0])

        return lent(lent), generated

    @overload(borrow)  # type: ignore[untyped-decorator]
    def _borrowed(lent: Any) -> Any:
        def call(lent: Any) -> Any:
            return _borrow(lent)

        return call
