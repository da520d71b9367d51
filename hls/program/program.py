"""The NPU program: descriptors, weight image, FBCB words and the memory map of a slot.

It needs NumPy only, so it runs on the board. `hls.compile_program` makes one from a quantised network and a
design; `Program.save` and `Program.load` keep it in a folder.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.models import FileError, NetworkError, read_text, regular_file
from fluidnpu.models.exits import Task
from fluidnpu.models.files import write_files
from fluidnpu.models.graph import Check, ExitCheck, MapCheck, Output, read_check
from fluidnpu.models.images import Intake, check_class_names
from fluidnpu.models.numeric import WORDS, Stored
from fluidnpu.models.tail import Tail, facts_of, tail_of

from ..errors import DescriptorError, ProgramError
from .descriptor import DESCRIPTOR_BYTES, Descriptor

SCHEMA = 1
SCHEMA_WITH_OUTPUTS = 2  # for programs that give out more than logits; older readers would lose it in silence
SCHEMA_OF_PARTS = 3  # for parts of a program, likewise
SCHEMA_WITH_TAIL = 4  # for programs whose outputs the host ends, likewise
SCHEMA_OF_BYTES = 5  # for programs with words of 8 bits, likewise
SCHEMAS = (SCHEMA, SCHEMA_WITH_OUTPUTS, SCHEMA_OF_PARTS, SCHEMA_WITH_TAIL, SCHEMA_OF_BYTES)
ALIGNMENT = 64  # bytes; tensors, weight parts and slots begin on multiples of it
ADDRESS_LIMIT = 1 << 32  # offsets in descriptors and SLOT_BYTES have 32 bits


def align(value: int, to: int = ALIGNMENT) -> int:
    """The next multiple of `to`.

    >>> align(65)
    128
    """
    return -(-value // to) * to


@dataclass(frozen=True, kw_only=True)
class TensorPlace:
    """The place of a tensor in a slot: NHWC words inside its stored halo (top, left, bottom, right).

    `offset` is the byte of the first stored word, halo included. A word has `word_bytes`, and `zero` is the
    word of the real number 0, which fills the halo.
    """

    offset: int
    height: int
    width: int
    channels: int
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    word_bytes: int = 2
    zero: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of its words."""
        return WORDS[8 * self.word_bytes].dtype

    @cached_property
    def stored_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) with the halo."""
        top, left, bottom, right = self.halo
        return self.height + top + bottom, self.width + left + right, self.channels

    @property
    def pixel_bytes(self) -> int:
        """Distance between neighbouring pixels of a row."""
        return self.word_bytes * self.channels

    @cached_property
    def row_bytes(self) -> int:
        """Distance between rows."""
        return self.stored_shape[1] * self.pixel_bytes

    @cached_property
    def size(self) -> int:
        """Bytes with the halo."""
        return self.stored_shape[0] * self.row_bytes

    def at(self, row: int, column: int, channel: int = 0) -> int:
        """Byte offset in the slot of a word; negative rows and columns reach into the halo."""
        top, left, _, _ = self.halo
        inside = (row + top) * self.row_bytes + (column + left) * self.pixel_bytes
        return self.offset + inside + self.word_bytes * channel

    def stored(self, slot: npt.NDArray[Any]) -> Stored:
        """View (height, width, channels) of the tensor with its halo; `slot` is flat, words or bytes."""
        words = slot.view(self.dtype)[self.offset // self.word_bytes : (self.offset + self.size) // self.word_bytes]
        return words.reshape(self.stored_shape)

    def view(self, slot: npt.NDArray[Any]) -> Stored:
        """View (height, width, channels) of the tensor without its halo."""
        top, left, _, _ = self.halo
        return self.stored(slot)[top : top + self.height, left : left + self.width]

    def padded(self, values: Stored) -> Stored:
        """Values (height, width, channels) inside the halo."""
        top, left, bottom, right = self.halo
        return np.pad(values, ((top, bottom), (left, right), (0, 0)), constant_values=self.zero)

    def real(self, values: Stored, scale: float) -> npt.NDArray[np.float64]:
        """The real numbers of stored words, in their shape, of which one step is `scale`."""
        return (values - np.float64(self.zero)) * scale if self.zero else values * scale

    def facts(self) -> dict[str, Any]:
        """Its entry in a file, where the width of a word stands once, and a zero of 0 nowhere."""
        facts = asdict(self)
        del facts["word_bytes"]
        if not self.zero:
            del facts["zero"]
        return facts


@dataclass(frozen=True, kw_only=True)
class ExitOutput:
    """The logits tensor of an exit; None at the end of a network without classes.

    A logit is its stored word, less the zero of its tensor, times `scale`; a sample leaves if the check is
    above `threshold`. The last exit has none: every sample that is left leaves there.
    """

    name: str
    tensor: str | None
    scale: float
    threshold: float | None = None


@dataclass(frozen=True, kw_only=True)
class TensorOutput:
    """An output that is no exit: its place and arrangement, and the real value of one unit of it."""

    output: Output
    scale: float


@dataclass(frozen=True, kw_only=True)
class ProgramSlice:
    """The place of a part in the whole program, which has the digest `whole`.

    `first`: its first stage there; `exits`: the numbers of its exits there. `onward`: the tensor with which
    samples that do not leave at its last exit go on; empty at the end of the network.
    """

    whole: str
    first: int
    exits: tuple[int, ...]
    onward: str = ""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Everything that the host gives an NPU to run one network; the contract of ADR 5.

    `stages[s]` is (first, last) layer of stage s, inclusive. `input_scale`: value of one step of the input
    tensor. `intake`: the way from a user's image to that tensor; None: uint8 over 255, floats in 0..1.
    `data`: the images that come with fluidnpu and that the network was trained for; "" for others. `check` is
    what thresholds are compared with. `class_names`: of the network's classes, or none. `tail`: what the host
    makes of `outputs`, whose outputs are then those of the user. `cut`: of a part of a program; its last exit
    has a threshold where samples go on, and its input is a tensor as stored where it begins in the middle.
    `bits`: of a word of every tensor and weight, 16 or 8.
    """

    network: str
    design_digest: str
    b_max: int
    descriptors: tuple[Descriptor, ...]
    weights: bytes = field(repr=False)
    fbcb_words: tuple[int, ...] = field(repr=False)
    tensors: Mapping[str, TensorPlace]
    slot_bytes: int
    stages: tuple[tuple[int, int], ...]
    input: str
    input_scale: float
    exits: tuple[ExitOutput, ...]
    outputs: tuple[TensorOutput, ...] = ()
    intake: Intake | None = None
    data: str = ""
    check: Check = ExitCheck.TOP
    class_names: tuple[str, ...] = ()
    tail: Tail | None = None
    cut: ProgramSlice | None = None
    bits: int = 16

    def __post_init__(self) -> None:
        if self.bits not in WORDS:
            raise ProgramError(f"words of a program must have 16 or 8 bits, not {self.bits}")
        if any(place.word_bytes != self.word_bytes for place in self.tensors.values()) or any(
            layer.word_bytes != self.word_bytes for layer in self.descriptors
        ):
            raise ProgramError(f"every layer and tensor must have words of {self.bits} bits, as its program has")
        if len(self.fbcb_words) != len(self.descriptors) * self.b_max:
            expected = len(self.descriptors) * self.b_max
            raise ProgramError(f"an FBCB must have layers * b_max = {expected} words, not {len(self.fbcb_words)}")
        if self.slot_bytes % ALIGNMENT or self.slot_bytes < max(
            place.offset + place.size for place in self.tensors.values()
        ):
            raise ProgramError(
                f"a slot must hold all tensors in a multiple of {ALIGNMENT} bytes, not {self.slot_bytes}"
            )
        logits = (exit.tensor for exit in self.exits if exit.tensor is not None)
        missing = {self.input, *logits, *(output.output.tensor for output in self.outputs)} - set(self.tensors)
        missing |= {self.onward} - {"", *self.tensors}
        if missing:
            raise ProgramError(
                f"every exit, every output and the input need a place in the slot; missing: {', '.join(sorted(missing))}"
            )
        late = [output.output.name for output in self.outputs if not 0 <= output.output.stage < len(self.stages)]
        if late:
            raise ProgramError(
                f"every output must come from one of {len(self.stages)} stages, and '{late[0]}' does not"
            )
        if self.tail is not None and not {output.output.name for output in self.outputs}.issuperset(self.tail.inputs):
            raise ProgramError("the tail of a program must read outputs of it, and it reads others")
        if len(self.stages) != len(self.exits):
            raise ProgramError(f"a program needs one exit for each of {len(self.stages)} stages, not {len(self.exits)}")

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return WORDS[self.bits].bytes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of words: int16 or int8."""
        return WORDS[self.bits].dtype

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold of every exit but the last; 1, which nobody exceeds, where an exit has none."""
        return self._limits[:-1]

    @property
    def onward_threshold(self) -> float:
        """The threshold of a part's last exit: a sample whose confidence does not exceed it goes on."""
        return self._limits[-1]

    @property
    def _limits(self) -> tuple[float, ...]:
        return tuple(1.0 if exit.threshold is None else exit.threshold for exit in self.exits)

    @property
    def onward(self) -> str:
        """The tensor with which samples go on from this part; empty where all of them end."""
        return "" if self.cut is None else self.cut.onward

    @property
    def takes_images(self) -> bool:
        """False for a part that begins in the middle: it takes a tensor as stored."""
        return self.cut is None or self.cut.first == 0

    @cached_property
    def segments(self) -> tuple[int, ...]:
        """The last layer of each stage that a later stage or an output needs; the exit's head follows it.

        It is the layer before the stage where nothing of a stage is needed later. Layers are told from each
        other by the places of the tensors that they read and write, since no two tensors share a place.
        """
        wanted = {self.onward, *(output.output.tensor for output in self.outputs)}
        ends = [last for _, last in self.stages]
        for stage in range(len(self.stages) - 1, -1, -1):
            first, last = self.stages[stage]
            whole = stage == len(self.stages) - 1
            ends[stage] = last if whole else first - 1
            for index in range(last, first - 1, -1):
                layer = self.descriptors[index]
                if not whole and self.tensor_at(layer.out_offset) not in wanted:
                    continue
                ends[stage] = max(ends[stage], index)
                wanted.update(self.tensors_read(layer))
        return tuple(ends)

    @cached_property
    def _by_place(self) -> tuple[list[int], list[str]]:
        """The offsets of all tensors in order, and their names."""
        names = sorted(self.tensors, key=lambda name: self.tensors[name].offset)
        return [self.tensors[name].offset for name in names], names

    def tensor_at(self, offset: int) -> str:
        """The name of the tensor that holds the byte at an offset of the slot; no two share a place."""
        starts, names = self._by_place
        return names[bisect_right(starts, offset) - 1]

    def tensors_read(self, layer: Descriptor) -> tuple[str, ...]:
        """The names of the tensors that a layer reads."""
        residual = (self.tensor_at(layer.residual_offset),) if layer.has_residual else ()
        return (self.tensor_at(layer.in_offset), *residual)

    @cached_property
    def input_intake(self) -> Intake:
        """The intake, with the default one in place of None."""
        place = self.tensors[self.input]
        return self.intake or Intake.of(None, _shape(place))

    @cached_property
    def task(self) -> Task:
        """The kind of its answers, for labels that meet them."""
        place = self.tensors[self.exits[-1].tensor] if self.exits[-1].tensor else None
        classes = self.check.shape[2] if isinstance(self.check, MapCheck) else place.channels if place else 0
        return Task(name=self.network, check=self.check, classes=classes, class_names=self.class_names)

    # -- what the host writes --------------------------------------------------------------------------------

    @property
    def fbcb(self) -> npt.NDArray[np.uint32]:
        """FBCB words, uint32 (layers * b_max,), at address layer * b_max + batch - 1."""
        return np.array(self.fbcb_words, np.uint32)

    @property
    def weights_offset(self) -> int:
        """Offset of the weight image in `image` in bytes; a multiple of 64."""
        return align(len(self.descriptors) * DESCRIPTOR_BYTES)

    def image(self) -> bytes:
        """Descriptors, then weights from `weights_offset` on: one buffer for a 64-byte boundary."""
        table = b"".join(descriptor.pack() for descriptor in self.descriptors)
        return table.ljust(self.weights_offset, b"\0") + self.weights

    def fbcb_word(self, layer: int, batch: int) -> int:
        """The FBCB word of a layer at a batch size."""
        return self.fbcb_words[layer * self.b_max + batch - 1]

    # -- slots -----------------------------------------------------------------------------------------------

    def new_slots(self, count: int) -> Stored:
        """Slot memory of `count` samples, (count, slot words): zeros and halos, which stay from here on."""
        slots = np.zeros((count, self.slot_bytes // self.word_bytes), self.dtype)
        for slot in slots:
            self.fill_halos(slot)
        return slots

    def fill_halos(self, slot: npt.NDArray[Any]) -> None:
        """Fill the tensors of a zeroed slot (words,) whose zero is not the word 0; `slot` as for
        `read_tensor`.
        """
        for place in self.tensors.values():
            if place.zero:
                place.stored(slot)[...] = place.zero

    def random_samples(self, rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
        """Random samples (count, H, W, C): uint8 pixels, or words as stored where it takes no images."""
        shape = (count, *self.input_intake.shape)
        if self.takes_images:
            return rng.integers(0, 256, shape, dtype=np.uint8)
        most = 1 << self.bits - 4
        return rng.integers(-most, most, shape, dtype=self.dtype.type)

    def pack_sample(self, image: Stored) -> Stored:
        """The input tensor of one sample (H, W, C) as stored inside its halo, ready to copy into a slot.

        Raises ProgramError for another shape or type.
        """
        place = self.tensors[self.input]
        if image.shape != (place.height, place.width, place.channels) or image.dtype != self.dtype:
            want = (place.height, place.width, place.channels)
            raise ProgramError(
                f"a sample of '{self.network}' must be {self.dtype} {want}, not {image.dtype} {image.shape}"
            )
        return place.padded(image)

    def read_tensor(self, slot: npt.NDArray[Any], name: str) -> Stored:
        """A copy (H, W, C) of a tensor; `slot` is flat and contiguous, words or bytes."""
        return self._place(name).view(slot).copy()

    def write_tensor(self, slot: npt.NDArray[Any], name: str, values: Stored) -> None:
        """Write a tensor (H, W, C) into a slot; its halo stays.

        Raises ProgramError for another shape or type.
        """
        target = self._place(name).view(slot)
        if values.shape != target.shape or values.dtype != self.dtype:
            raise ProgramError(
                f"tensor '{name}' must be {self.dtype} {target.shape}, not {values.dtype} {values.shape}"
            )
        target[...] = values

    def _place(self, name: str) -> TensorPlace:
        if name not in self.tensors:
            raise ProgramError(f"program '{self.network}' has no tensor '{name}'; it has {', '.join(self.tensors)}")
        return self.tensors[name]

    def real_logits(self, stored: Stored, exit_index: int) -> npt.NDArray[np.float64]:
        """The logits of an exit in their unit, from words as stored, any shape."""
        exit = self.exits[exit_index]
        return stored * exit.scale if exit.tensor is None else self.tensors[exit.tensor].real(stored, exit.scale)

    def real_output(self, stored: Stored, name: str) -> npt.NDArray[np.float32]:
        """An output that is no exit in its unit, activation applied, from words (N, *shape) as stored."""
        own = next(output for output in self.outputs if output.output.name == name)
        return own.output.activated(self.tensors[own.output.tensor].real(stored, own.scale))

    # -- files -----------------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """The files of a program: `program.bin` is `image`, `program.json` the rest with digests."""
        image = self.image()
        body: dict[str, Any] = {
            "schema": self._schema,
            "network": self.network,
            "design_digest": self.design_digest,
            "b_max": self.b_max,
            "layers": len(self.descriptors),
            "weights_offset": self.weights_offset,
            "fbcb": list(self.fbcb_words),
            "tensors": {name: place.facts() for name, place in self.tensors.items()},
            "slot_bytes": self.slot_bytes,
            "stages": [list(stage) for stage in self.stages],
            "input": self.input,
            "input_scale": self.input_scale,
            "exits": [asdict(exit) for exit in self.exits],
            "image_sha256": hashlib.sha256(image).hexdigest(),
        }
        if self.outputs:
            body["outputs"] = [{**output.output.facts(), "scale": output.scale} for output in self.outputs]
        if self.intake is not None:  # absent for a network without a record, as in files of earlier versions
            body["intake"] = self.intake.to_dict()
        if self.data:
            body["data"] = self.data
        if self.check is not ExitCheck.TOP:  # absent for the usual one, as in files of earlier versions
            body["check"] = self.check.text
        if self.class_names:
            body["classes"] = list(self.class_names)
        if self.tail is not None:
            body["tail"] = facts_of(self.tail)
        if self.cut is not None:
            body["cut"] = {**asdict(self.cut), "exits": list(self.cut.exits)}
        if self.bits != 16:  # absent for the usual width, as in files of earlier versions
            body["bits"] = self.bits
        body["digest"] = _digest(body)
        return {
            "program.json": (json.dumps(body, sort_keys=True, indent=1, allow_nan=False) + "\n").encode(),
            "program.bin": image,
        }

    @property
    def _schema(self) -> int:
        if self.bits != 16:
            return SCHEMA_OF_BYTES
        if self.tail is not None:
            return SCHEMA_WITH_TAIL
        return SCHEMA_OF_PARTS if self.cut else SCHEMA_WITH_OUTPUTS if self.outputs else SCHEMA

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the whole program."""
        return str(json.loads(self.files()["program.json"])["digest"])

    def save(self, folder: Path | str) -> None:
        """Write `program.json` and `program.bin` into a folder; make the folder when it is missing.

        Both or neither are replaced (`models.files.write_files`).
        """
        write_files({Path(folder) / name: content for name, content in self.files().items()})

    @classmethod
    def load(cls, folder: Path | str) -> Program:
        """Read what `save` wrote. Raises ProgramError when a file is missing, damaged or of another
        schema.
        """
        manifest, binary = Path(folder) / "program.json", Path(folder) / "program.bin"
        try:
            raw, image = json.loads(read_text(manifest, "JSON")), regular_file(binary).read_bytes()
        except (OSError, FileError, json.JSONDecodeError, RecursionError) as error:
            raise ProgramError(f"'{folder}' must hold a readable program.json and program.bin: {error}") from None
        if not isinstance(raw, dict) or raw.get("schema") not in SCHEMAS:
            schema = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
            raise ProgramError(
                f"{manifest} must be a program of schema {SCHEMAS[0]} to {SCHEMAS[-1]}, not {schema!r}; build it again"
            )
        if raw.get("digest") != _digest({key: value for key, value in raw.items() if key != "digest"}):
            raise ProgramError(f"{manifest} was changed by hand: its digest no longer matches its contents")
        if raw.get("image_sha256") != hashlib.sha256(image).hexdigest():
            raise ProgramError(f"{binary} does not belong to its program.json: the digest differs")
        try:
            return cls._from(raw, image)
        except ProgramError:
            raise
        except NetworkError as error:
            raise ProgramError(f"{manifest}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProgramError(f"{manifest} is not a well-formed program: {error!r}") from None

    @classmethod
    def _from(cls, raw: Mapping[str, Any], image: bytes) -> Program:
        size = DESCRIPTOR_BYTES
        try:
            parts = (image[size * i : size * (i + 1)] for i in range(raw["layers"]))
            descriptors = tuple(Descriptor.unpack(part, older=True) for part in parts)
        except DescriptorError as error:
            raise ProgramError(f"program.bin is damaged: {error}") from None
        bits = raw.get("bits", 16)
        places = {
            name: TensorPlace(**{**place, "halo": tuple(place["halo"]), "word_bytes": bits // 8})
            for name, place in raw["tensors"].items()
        }
        return cls(
            network=raw["network"],
            design_digest=raw["design_digest"],
            b_max=raw["b_max"],
            descriptors=descriptors,
            weights=image[raw["weights_offset"] :],
            fbcb_words=tuple(raw["fbcb"]),
            tensors=places,
            slot_bytes=raw["slot_bytes"],
            stages=tuple((first, last) for first, last in raw["stages"]),
            input=raw["input"],
            input_scale=raw["input_scale"],
            exits=tuple(ExitOutput(**exit) for exit in raw["exits"]),
            outputs=tuple(
                TensorOutput(output=Output.of({k: v for k, v in output.items() if k != "scale"}), scale=output["scale"])
                for output in raw.get("outputs", [])
            ),
            intake=Intake.of_dict(raw["intake"], _shape(places[raw["input"]])) if "intake" in raw else None,
            data=str(raw.get("data", "")),
            check=read_check(raw.get("check", ExitCheck.TOP.value)),
            class_names=check_class_names(raw["classes"], "program.json") if "classes" in raw else (),
            tail=tail_of(raw["tail"]) if "tail" in raw else None,
            cut=ProgramSlice(**{**raw["cut"], "exits": tuple(raw["cut"]["exits"])}) if "cut" in raw else None,
            bits=bits,
        )


def _shape(place: TensorPlace) -> tuple[int, int, int]:
    return place.height, place.width, place.channels


def digest_build_id(design_digest: str) -> int:
    """The build id of a design: the first 32 bits of its digest, which the BUILD_ID register reads.

    >>> hex(digest_build_id("00c0ffee" + 56 * "0"))
    '0xc0ffee'
    """
    return int(design_digest[:8], 16)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()
