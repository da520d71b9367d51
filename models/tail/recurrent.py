"""Recurrent operators: RNN, GRU and LSTM, in one direction or two, with all that ONNX gives them.

Gates stand in ONNX's order: LSTM input, output, forget, cell; GRU update, reset, hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .call import Array, Operator, OperatorCall, bounded
from .pointwise import sigmoid

_Function = Callable[[Array], Array]
_FUNCTIONS: dict[str, _Function] = {
    "sigmoid": sigmoid,
    "tanh": lambda x: np.asarray(np.tanh(x)),
    "relu": lambda x: np.asarray(np.maximum(x, 0)),
}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


class _Cells:
    """The cells of one direction: weights, bias, activations, and one step of them."""

    def __init__(self, call: OperatorCall, kind: str, direction: int, functions: list[_Function]) -> None:
        hidden, gates = call[2].shape[-1], _GATES[kind]
        if call[1].shape[1] != gates * hidden or call[2].shape[1] != gates * hidden:
            raise ValueError(f"weights of {kind} must have {gates * hidden} rows, not {call[1].shape[1]}")
        bias = call.optional(3)
        both = np.zeros(2 * gates * hidden, call[0].dtype) if bias is None else bias[direction]
        self.kind, self.hidden, self.functions = kind, hidden, functions
        self.w, self.r = call[1][direction].T, call[2][direction].T
        self.w_bias, self.r_bias = both[: gates * hidden], both[gates * hidden :]
        peep = call.optional(7) if kind == "LSTM" else None
        self.peep = None if peep is None else peep[direction]
        self.before_reset = bool(call.integer("linear_before_reset", 0))
        self.coupled = bool(call.integer("input_forget", 0))
        self.clip = call.attributes.get("clip")

    def _clipped(self, x: Array) -> Array:
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)

    def step(self, x: Array, state: Array, cell: Array) -> tuple[Array, Array]:
        """Return the next state and cell for x (batch, gates * hidden), the weighted input with its bias."""
        if self.kind == "RNN":
            return self.functions[0](self._clipped(x + state @ self.r + self.r_bias)), cell
        return self._gru(x, state, cell) if self.kind == "GRU" else self._lstm(x, state, cell)

    def _gru(self, x: Array, state: Array, cell: Array) -> tuple[Array, Array]:
        n = self.hidden
        gates = self.functions[0](self._clipped(x[:, : 2 * n] + state @ self.r[:, : 2 * n] + self.r_bias[: 2 * n]))
        update, reset = gates[:, :n], gates[:, n:]
        if self.before_reset:
            more = reset * (state @ self.r[:, 2 * n :] + self.r_bias[2 * n :])
        else:
            more = (reset * state) @ self.r[:, 2 * n :] + self.r_bias[2 * n :]
        new = self.functions[1](self._clipped(x[:, 2 * n :] + more))
        return (1 - update) * new + update * state, cell

    def _lstm(self, x: Array, state: Array, cell: Array) -> tuple[Array, Array]:
        n, (gate, squash, out) = self.hidden, self.functions
        total = x + state @ self.r + self.r_bias
        i, o, f, c = (total[:, part * n : (part + 1) * n] for part in range(4))
        if self.peep is None and not self.coupled:  # three gates at once
            gates = gate(self._clipped(total[:, : 3 * n]))
            cell = gates[:, 2 * n :] * cell + gates[:, :n] * squash(self._clipped(c))
            return gates[:, n : 2 * n] * out(cell), cell
        peep = np.zeros(3 * n, x.dtype) if self.peep is None else self.peep
        p_i, p_o, p_f = (peep[part * n : (part + 1) * n] for part in range(3))
        into = gate(self._clipped(i + p_i * cell))
        keep = 1 - into if self.coupled else gate(self._clipped(f + p_f * cell))
        cell = keep * cell + into * squash(self._clipped(c))
        return gate(self._clipped(o + p_o * cell)) * out(cell), cell


def _recurrent(kind: str) -> Operator:
    def run(call: OperatorCall) -> tuple[Array, ...]:
        """Run all directions; x (steps, batch, size), or (batch, steps, size) with layout 1."""
        turned = bool(call.integer("layout", 0))
        x = call[0].swapaxes(0, 1) if turned else call[0]
        steps, batch, hidden = x.shape[0], x.shape[1], call[2].shape[-1]
        direction = call.text("direction", "forward")
        if direction not in _DIRECTIONS:
            raise ValueError(f"a direction must be one of {', '.join(_DIRECTIONS)}, not {direction[:40]}")
        ways = _DIRECTIONS[direction]
        bounded([steps, len(ways), batch, hidden])
        made = np.zeros((steps, len(ways), batch, hidden), x.dtype)
        states, cells = np.zeros((2, len(ways), batch, hidden), x.dtype)
        lengths = call.optional(4)
        ends = np.full(batch, steps) if lengths is None else lengths.reshape(-1)
        for way, backwards in enumerate(ways):
            states[way] = _first(call, 5, way, turned, states[way])
            if kind == "LSTM":
                cells[way] = _first(call, 6, way, turned, cells[way])
            part = _Cells(call, kind, way, _functions(call, kind, way, len(ways)))
            weighted = x @ part.w + part.w_bias
            for index in range(steps):
                if lengths is None:  # all sequences end together
                    last = steps - 1 - index if backwards else index
                    states[way], cells[way] = part.step(weighted[last], states[way], cells[way])
                    made[last, way] = states[way]
                    continue
                at = np.full(batch, index)
                if backwards:  # each sequence from its own end
                    at = np.where(index < ends, ends - 1 - index, index)
                state, cell = part.step(weighted[at, np.arange(batch)], states[way], cells[way])
                alive = (index < ends)[:, None]
                states[way], cells[way] = np.where(alive, state, states[way]), np.where(alive, cell, cells[way])
                made[at, way, np.arange(batch)] = np.where(alive, state, 0)
        if turned:
            return made.transpose(2, 0, 1, 3), states.swapaxes(0, 1), cells.swapaxes(0, 1)
        return made, states, cells

    return run


def _first(call: OperatorCall, index: int, way: int, turned: bool, otherwise: Array) -> Array:
    given = call.optional(index)
    if given is None:
        return otherwise
    return given[:, way] if turned else given[way]


def _functions(call: OperatorCall, kind: str, way: int, ways: int) -> list[_Function]:
    names = list(call.attributes.get("activations", _USUAL[kind] * ways))
    count = len(_USUAL[kind])
    own = [str(name).lower() for name in names[way * count : (way + 1) * count]]
    if len(names) != ways * count or not set(own) <= set(_FUNCTIONS) or call.attributes.get("activation_alpha"):
        raise ValueError(f"activations of {kind} must be {count} of Sigmoid, Tanh and Relu a direction, not {own}")
    return [_FUNCTIONS[name] for name in own]


RECURRENT: dict[str, Operator] = {kind: _recurrent(kind) for kind in _GATES}
