"""A packed word as data: its fields, their places and values. Pure arithmetic.

>>> fields = Bits("low", 0, 0, 4, "first"), Bits("high", 0, 8, 8, "second", signed=True)
>>> pair = Format("pair", 16, "two numbers", fields)
>>> hex(pair.pack({"low": 3, "high": -2})), pair.unpack(0xFE03), list(pair.gaps())
('0xfe03', {'low': 3, 'high': -2}, [(4, 4)])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ..errors import FormatError

Value = int | tuple[int, ...]


@dataclass(frozen=True)
class Codes:
    """Named numbers, rendered as an enumeration; the names of its members begin with `prefix`."""

    name: str
    prefix: str
    values: type[IntEnum]
    width: int
    meaning: str


@dataclass(frozen=True)
class Constant:
    """A number that a format gives a name."""

    name: str
    value: int
    width: int
    meaning: str


@dataclass(frozen=True)
class Bits:
    """A field of a format: `count` numbers of `width` bits, the first at bit `low` of the 32-bit word `word`.

    In a format that is one word, `word` is 0 and `low` counts on beyond 31. `signed`: two's complement.
    `least`, `most`: the range that the hardware obeys, where it is smaller than what fits. `codes`: the names
    of the values.
    """

    name: str
    word: int
    low: int
    width: int
    meaning: str
    count: int = 1
    signed: bool = False
    least: int | None = None
    most: int | None = None
    codes: Codes | None = None

    @property
    def start(self) -> int:
        """Its lowest bit in the format."""
        return 32 * self.word + self.low

    @property
    def end(self) -> int:
        """The bit above its highest."""
        return self.start + self.count * self.width

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value that the hardware obeys."""
        lowest = -(1 << self.width - 1) if self.signed else 0
        highest = (1 << self.width - self.signed) - 1
        if self.codes:
            highest = max(self.codes.values)
        return lowest if self.least is None else self.least, highest if self.most is None else self.most

    def put(self, value: Value) -> int:
        """The word with only this field set. Raises FormatError for numbers that do not fit."""
        numbers = value if isinstance(value, tuple) else (value,)
        if len(numbers) != self.count:
            raise FormatError(f"field {self.name} takes {self.count} numbers, not {len(numbers)}")
        lowest, beyond = (-(1 << self.width - 1), 1 << self.width - 1) if self.signed else (0, 1 << self.width)
        word = 0
        for place, number in enumerate(numbers):
            if not lowest <= number < beyond:
                raise FormatError(f"field {self.name} takes {self.width} bits, so {number} does not fit")
            word |= (int(number) & (1 << self.width) - 1) << self.start + place * self.width
        return word

    def get(self, word: int) -> Value:
        """The field's value in the format's word: a number, or a tuple where `count` is not 1."""
        return self.number(word) if self.count == 1 else tuple(self.number(word, place) for place in range(self.count))

    def number(self, word: int, place: int = 0) -> int:
        """One of the numbers of the field in the format's word."""
        number = word >> self.start + place * self.width & (1 << self.width) - 1
        return number - (1 << self.width) if self.signed and number >> self.width - 1 else number


@dataclass(frozen=True)
class Format:
    """A packed word of `wire_bits`; `fields` by ascending position. FormatError where two of them overlap."""

    name: str
    wire_bits: int
    meaning: str
    fields: tuple[Bits, ...]
    constants: tuple[Constant, ...] = ()

    def __post_init__(self) -> None:
        end = 0
        for field in self.fields:
            if field.start < end:
                raise FormatError(
                    f"field {field.name} of {self.name} must begin at bit {end} or above, not {field.start}"
                )
            end = field.end
        if end > self.wire_bits:
            raise FormatError(f"{self.name} has {self.wire_bits} bits, and its fields need {end}")
        if len({field.name for field in self.fields}) != len(self.fields):
            raise FormatError(f"the names of the fields of {self.name} must differ")

    @property
    def bits(self) -> int:
        """Bits up to the highest field; those above, up to `wire_bits`, are zero."""
        return self.fields[-1].end

    def field(self, name: str) -> Bits:
        """The field of that name. Raises KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name}")

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Lowest bit and width of every run of unused bits below the highest field."""
        end = 0
        for field in self.fields:
            if field.start > end:
                yield end, field.start - end
            end = field.end

    def pack(self, values: Mapping[str, Value]) -> int:
        """The word of these fields, the others zero. Raises FormatError for unknown names and misfits."""
        unknown = sorted(set(values) - {field.name for field in self.fields})
        if unknown:
            raise FormatError(f"{self.name} has no field {unknown[0]}")
        word = 0
        for field in self.fields:
            if field.name in values:
                word |= field.put(values[field.name])
        return word

    def number(self, name: str, word: int) -> int:
        """One field's value; of several numbers the first. KeyError when there is no such field."""
        return self.field(name).number(word)

    def numbers(self, word: int) -> dict[str, int]:
        """Every field's value by its name, as `number` gives it."""
        return {field.name: field.number(word) for field in self.fields}

    def unpack(self, word: int) -> dict[str, Value]:
        """Every field's value by its name."""
        return {field.name: field.get(word) for field in self.fields}
