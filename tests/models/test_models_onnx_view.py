"""Views of planes against arrays that are really moved, and rectangles of average pools against windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.models.onnx.reading.pools import borders
from fluidnpu.models.onnx.reading.view import AxisView


def elements(view: AxisView, plane: Any) -> Any:
    """The values that a view shows of a plane (height, width, channels), in the shape of the view."""
    picked = plane[:, :, view.channels.reshape(-1)].reshape(*plane.shape[:2], *view.channels.shape)
    factors = iter(range(2, picked.ndim))
    order = [next(factors) if token == "c" else "hw".index(token) for axis in view.axes for token in axis]
    return np.squeeze(picked, tuple({0, 1} - set(order))).transpose(np.argsort(np.argsort(order))).reshape(view.shape)


def divisors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_moves_show_the_elements_that_numpy_moves(data: st.DataObject) -> None:
    height, width, channels = (data.draw(st.sampled_from([1, 2, 3, 6])) for _ in range(3))
    plane = np.arange(height * width * channels).reshape(height, width, channels)
    order = data.draw(st.permutations("chw"))
    view = AxisView.of(order, (height, width, channels))
    array = plane.transpose(["hwc".index(axis) for axis in order])
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["transpose", "split", "join", "insert", "remove", "take"]))
        axis = data.draw(st.integers(0, array.ndim - 1))
        if kind == "transpose":
            moved = data.draw(st.permutations(range(array.ndim)))
            view, array = view.transpose(moved), array.transpose(moved)
        elif kind in ("split", "join"):
            shape = list(array.shape)
            if kind == "split":
                first = data.draw(st.sampled_from(divisors(shape[axis])))
                shape[axis : axis + 1] = [first, shape[axis] // first]
            elif axis:
                shape[axis - 1 : axis + 1] = [shape[axis - 1] * shape[axis]]
            if (found := view.reshape(shape)) is None:  # height or width would be split
                assert kind == "split"
                assert not view.holds(axis, "")
                continue
            view, array = found, array.reshape(shape)
        elif kind == "insert":
            view, array = view.insert(axis), np.expand_dims(array, axis)
        elif kind == "remove" and array.shape[axis] == 1 and array.ndim > 1:
            view, array = view.remove(axis), np.squeeze(array, axis)
        elif kind == "take" and view.holds(axis, "") and not any({"c"} < set(text) for text in view.axes):
            chosen = data.draw(st.lists(st.integers(0, array.shape[axis] - 1), min_size=1, max_size=4))
            view, array = view.take(axis, chosen), np.take(array, chosen, axis)
        assert view.shape == array.shape
        np.testing.assert_array_equal(elements(view, plane), array)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_constants_spread_as_they_broadcast(data: st.DataObject) -> None:
    view = AxisView.of("chw", (2, 3, 4)).transpose(data.draw(st.permutations(range(3))))
    shape = tuple(data.draw(st.sampled_from([1, size])) for size in view.shape)
    constant = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    found = view.spread(constant)
    fits = all(have == 1 or view.axes[axis] == "c" for axis, have in enumerate(shape))
    assert (found is not None) == fits
    if found is not None:
        plane = np.zeros((2, 3, 4))
        plane[:, :, view.index] = found
        np.testing.assert_array_equal(elements(view, plane), np.broadcast_to(constant, view.shape))


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(1, 12), kernel=st.integers(1, 5), stride=st.integers(1, 3), dilation=st.integers(1, 2),
    begin=st.integers(0, 4), end=st.integers(0, 4), counted=st.booleans(),
)  # fmt: skip
def test_borders_group_the_windows_of_an_axis(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, counted: bool
) -> None:
    extent = (kernel - 1) * dilation + 1
    outputs = (size + begin + end - extent) // stride + 1
    if outputs < 1:
        return
    found = borders(
        size=size, kernel=kernel, stride=stride, dilation=dilation, begin=begin, end=end, counted=counted, outputs=outputs
    )  # fmt: skip
    places = [[o * stride - begin + tap * dilation for tap in range(kernel)] for o in range(outputs)]
    inside = [[tap for tap, place in enumerate(row) if 0 <= place < size] for row in places]
    if not counted and not all(inside):
        assert found == []
        return
    assert [one.first for one in found] == [0, *np.cumsum([one.outputs for one in found])[:-1]]
    for one in found:
        for output in range(one.first, one.first + one.outputs):
            taps = list(range(one.tap, one.tap + one.taps))
            assert taps == (list(range(kernel)) if counted else inside[output])
            assert one.divisor == (kernel if counted else len(inside[output]))
