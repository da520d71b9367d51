"""Count the fields of a protobuf file on its bytes, before it is parsed.

Knows ONNX's schema through its descriptors only. A parsed field costs a hundred bytes or more and a hostile
one two bytes of file, so a file's size alone bounds nothing.

>>> model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
>>> count_fields(model.SerializeToString())  # version, graph (name), opset (version)
5
"""

from __future__ import annotations

from typing import Any

import onnx

MOST_FIELDS = 1 << 20
_PACKED_SHIFT = 7  # 128 bytes of packed integers, which may be one byte each and take eight, count as one field more
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are no protobuf message, or one of more fields than is allowed."""


def count_fields(raw: bytes, limit: int = MOST_FIELDS) -> int:
    """Count the fields of `raw` as an ONNX model, nested messages included; strings, floats and raw data
    count as one.

    Raises WireError as soon as there are more than `limit`, and for a message that is cut off.
    """
    count = 0
    stack: list[tuple[int, int, Any]] = [(0, len(raw), onnx.ModelProto.DESCRIPTOR)]
    try:
        while stack:
            position, end, descriptor = stack.pop()
            kinds = _kinds(descriptor)
            while position < end:
                tag, position = _varint(raw, position)
                count += 1
                wire = tag & 7
                if wire == _LENGTH:
                    size, position = _varint(raw, position)
                    kind = kinds.get(tag >> 3)
                    if kind is _PACKED:
                        count += size >> _PACKED_SHIFT
                    elif kind is not None and size:
                        stack.append((position, position + size, kind))
                    position += size
                elif wire == _VARINT:
                    position = _varint(raw, position)[1]
                elif wire in (_FIXED64, _FIXED32):
                    position += 8 if wire == _FIXED64 else 4
                else:
                    raise WireError("its bytes are something else")
                if position > end:
                    raise WireError("it is cut off, or its bytes are something else")
                if count > limit:
                    raise WireError(f"it has more than {limit} fields")
    except IndexError:
        raise WireError("it is cut off, or its bytes are something else") from None
    return count


_PACKED = object()
_KINDS: dict[str, dict[int, Any]] = {}


def _kinds(descriptor: Any) -> dict[int, Any]:
    """Return the field numbers that hold messages (their descriptors) or packed integers.

    Strings, bytes and floats cost what their bytes cost.
    """
    kinds = _KINDS.get(descriptor.full_name)
    if kinds is None:
        kinds = {}
        for number, field in descriptor.fields_by_number.items():
            if field.message_type is not None:
                kinds[number] = field.message_type
            elif field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_UINT64, field.CPPTYPE_ENUM):
                kinds[number] = _PACKED
        _KINDS[descriptor.full_name] = kinds
    return kinds


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = raw[position]
    position += 1
    if value < 128:
        return value, position
    value &= 127
    for shift in range(7, 70, 7):
        byte = raw[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise WireError("its bytes are something else")
