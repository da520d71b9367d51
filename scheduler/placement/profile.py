"""Time and memory that one network takes on one type of device, block by block. Pure data and JSON.

A block is the least piece that a plan moves: between two blocks exactly one tensor crosses. An exit stands at
the end of a block; its head is priced apart, since a plan may leave it out.

>>> profile = Profile.of_table("toy", LatencyTable(ns=((10, 15), (20, 25))))
>>> profile.latency == LatencyTable(ns=((10, 15), (20, 25))), profile.exits
(True, (0, 1))
>>> Profile.loads(profile.dumps()) == profile
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from fluidnpu.dse import Design, LatencyTable

from ..errors import FleetError

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Block:
    """One piece of a network on one type of device. Raises FleetError.

    `ns[batch - 1]`: duration without the exit's head; `head_ns`: that of the head, zeros where the block
    ends at no exit. `cut_bytes`: one sample's tensor that the next block reads. `weights_bytes`: of block
    and head.
    """

    name: str
    ns: tuple[int, ...]
    head_ns: tuple[int, ...] = ()
    exit: str = ""
    cut_bytes: int = 0
    weights_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ns", tuple(self.ns))
        object.__setattr__(self, "head_ns", tuple(self.head_ns) or (0,) * len(self.ns))
        if not self.ns:
            raise FleetError(f"block '{self.name}' must have a duration for at least one batch size, and it has none")
        if len(self.head_ns) != len(self.ns):
            raise FleetError(
                f"block '{self.name}' must have a head's duration for each of {len(self.ns)} batch sizes, "
                f"not {len(self.head_ns)}"
            )
        for batch, value in enumerate(self.ns, 1):
            if not _whole(value, 1):
                raise FleetError(
                    f"block '{self.name}' at batch {batch} must take whole nanoseconds above zero, not {value!r}"
                )
        for name, value in (("cut_bytes", self.cut_bytes), ("weights_bytes", self.weights_bytes)):
            if not _whole(value, 0):
                raise FleetError(f"{name} of block '{self.name}' must be a whole number from 0, not {value!r}")
        if not all(_whole(value, 0) for value in self.head_ns):
            raise FleetError(f"the head of block '{self.name}' must take whole nanoseconds from 0, not {self.head_ns}")
        if any(self.head_ns) and not self.exit:
            raise FleetError(f"block '{self.name}' must name the exit whose head it prices")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One network on one type of device. Raises FleetError.

    The last block ends at the last exit. `slot_bytes`: device memory that a sample in flight takes. `digest`
    of the design, program or measurement that the times come from, `source` in words.
    """

    network: str
    blocks: tuple[Block, ...]
    slot_bytes: int = 0
    design: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.blocks:
            raise FleetError(f"the profile of '{self.network}' must have at least one block, and it has none")
        for block in self.blocks:
            if len(block.ns) != self.b_max:
                raise FleetError(
                    f"every block of '{self.network}' must have {self.b_max} batch sizes, and '{block.name}' has "
                    f"{len(block.ns)}"
                )
        if not self.blocks[-1].exit:
            raise FleetError(
                f"the last block of '{self.network}' must end at an exit, and '{self.blocks[-1].name}' does not"
            )
        if not _whole(self.slot_bytes, 0):
            raise FleetError(f"slot_bytes of '{self.network}' must be a whole number from 0, not {self.slot_bytes!r}")

    @property
    def b_max(self) -> int:
        """Largest batch that was counted or measured."""
        return len(self.blocks[0].ns)

    @cached_property
    def exits(self) -> tuple[int, ...]:
        """The block that each exit ends, in order."""
        return tuple(index for index, block in enumerate(self.blocks) if block.exit)

    @cached_property
    def latency(self) -> LatencyTable:
        """The table by stage, heads included, for a policy on one device."""
        rows, first = [], 0
        for last in self.exits:
            members = self.blocks[first : last + 1]
            rows.append(tuple(sum(b.ns[k] + b.head_ns[k] for b in members) for k in range(self.b_max)))
            first = last + 1
        return LatencyTable(ns=tuple(rows))

    @property
    def weights_bytes(self) -> int:
        """Weights of all blocks and heads."""
        return sum(block.weights_bytes for block in self.blocks)

    def memory_bytes(self, batch: int) -> int:
        """Device memory of the whole network with `batch` samples in flight."""
        return self.weights_bytes + batch * self.slot_bytes

    @classmethod
    def of_table(cls, network: str, table: LatencyTable, *, slot_bytes: int = 0, source: str = "") -> Profile:
        """Take every stage as one block, its head inside."""
        blocks = tuple(Block(name=f"stage{k}", ns=row, exit=f"exit{k}") for k, row in enumerate(table.ns))
        return cls(network=network, blocks=blocks, slot_bytes=slot_bytes, source=source)

    @classmethod
    def of_design(cls, design: Design) -> Profile:
        """Take every stage of a design as one block, heads inside; memory is that of its layers' tensors.

        A slot holds every tensor at a place of its own (ADR 5), padding left out.
        The cut of a stage is its widest output, an upper bound, since layer shapes do not say which goes on.
        """
        word, blocks = design.word_bytes, []
        for stage, name in enumerate(design.exits):
            members = [layer for layer in design.layers if layer.stage == stage]
            blocks.append(
                Block(
                    name=f"stage{stage}",
                    ns=design.latency.ns[stage],
                    exit=name,
                    cut_bytes=word * max(layer.r * layer.c * layer.groups for layer in members),
                    weights_bytes=word * sum(layer.p * layer.c * layer.groups for layer in members if layer.macs),
                )
            )
        origin = f"{design.model} model on {design.board}, memory {design.memory}"
        slot = word * sum(layer.r * layer.c * layer.groups for layer in design.layers)
        return cls(
            network=design.network,
            blocks=tuple(blocks),
            slot_bytes=slot,
            design=design.digest,
            source=f"measured on {design.board}" if design.is_measured else origin,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, with schema number and digest."""
        return {"schema": SCHEMA, "kind": "profile", "digest": self.digest, **self._facts()}

    def _facts(self) -> dict[str, Any]:
        facts = asdict(self)
        facts["blocks"] = [
            {**block, "ns": list(block["ns"]), "head_ns": list(block["head_ns"])} for block in facts["blocks"]
        ]
        return facts

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every field."""
        text = json.dumps(self._facts(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def dumps(self) -> str:
        """Write canonical JSON."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def loads(cls, text: str, source: str = "profile") -> Profile:
        """Read what `dumps` wrote. Raises FleetError naming the file `source`."""
        try:
            raw = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise FleetError(f"profile '{source}' must be JSON: {error}") from None
        return cls.from_dict(raw, source)

    @classmethod
    def from_dict(cls, raw: object, source: str = "profile") -> Profile:
        """Read what `to_dict` gave. Raises FleetError."""
        if not isinstance(raw, Mapping) or raw.get("kind") != "profile":
            raise FleetError(f"'{source}' must be a profile in JSON, an object whose kind is 'profile'")
        if raw.get("schema") != SCHEMA:
            raise FleetError(f"profile '{source}' must have schema {SCHEMA}, not {raw.get('schema')!r}")
        try:
            body = {key: value for key, value in raw.items() if key not in ("schema", "kind", "digest")}
            body["blocks"] = tuple(Block(**block) for block in body["blocks"])
            profile = cls(**body)
        except (TypeError, KeyError, AttributeError) as error:
            raise FleetError(f"profile '{source}' must have exactly the fields of a profile: {error}") from None
        except FleetError as error:
            raise FleetError(f"profile '{source}': {error}") from None
        if raw.get("digest", profile.digest) != profile.digest:
            raise FleetError(f"profile '{source}' must be as it was written, and its digest does not fit its numbers")
        return profile


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
