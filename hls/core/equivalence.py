"""Comparison of the simulated core with `models.golden`, for every layer and every batch size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.models import QuantisedNetwork, golden
from fluidnpu.models.numeric import Stored

from ..errors import ProgramError
from ..program.compiler import compile_program
from ..program.fbcb import decode_layer
from ..program.program import Program
from .csim import CoreSimulator
from .streams import activate_output, layer_streams, output_maps, store_output

Progress = Callable[[int, int], None]  # (layer runs done, layer runs in all)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first output of a layer that differs from golden, with its place."""

    sample: int
    row: int
    column: int
    channel: int
    got: int
    expected: int


@dataclass(frozen=True, kw_only=True)
class LayerCheck:
    """One layer at one batch size."""

    layer: str
    batch: int
    mode: Mode
    outputs: int
    mismatches: int
    saturations: int
    expected_saturations: int
    first: Difference | None = None

    @property
    def ok(self) -> bool:
        """True when every output and the saturation count equal golden's."""
        return self.mismatches == 0 and self.saturations == self.expected_saturations


@dataclass(frozen=True, kw_only=True)
class CsimReport:
    """The checks of every layer at every requested batch size, in the order in which they ran."""

    network: str
    checks: tuple[LayerCheck, ...]
    seconds: float

    @property
    def layers(self) -> int:
        """Number of layers of the network."""
        return len({check.layer for check in self.checks})

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes, ascending."""
        return tuple(sorted({check.batch for check in self.checks}))

    @property
    def outputs(self) -> int:
        """Number of outputs compared."""
        return sum(check.outputs for check in self.checks)

    @property
    def mismatches(self) -> int:
        """Number of outputs that differ from golden's."""
        return sum(check.mismatches for check in self.checks)

    @property
    def saturations(self) -> int:
        """Number of outputs that the core reports as saturated."""
        return sum(check.saturations for check in self.checks)

    @property
    def ok(self) -> bool:
        """True when the core is bit-identical to golden."""
        return all(check.ok for check in self.checks)

    def summary(self) -> str:
        """One sentence for a person."""
        batches = ", ".join(map(str, self.batches))
        text = f"{self.layers} layers, batch {batches}: {self.mismatches} mismatches in {self.outputs} outputs"
        bad = next((check for check in self.checks if not check.ok), None)
        if bad is None:
            return text
        if bad.first is None:
            counted = f"{bad.saturations} saturations of {bad.expected_saturations}"
            return f"{text}; layer '{bad.layer}' at batch {bad.batch} counts {counted}"
        at = bad.first
        place = f"sample {at.sample}, row {at.row}, column {at.column}, channel {at.channel}"
        return f"{text}; first in layer '{bad.layer}' at batch {bad.batch}, {place}: {at.got} instead of {at.expected}"


def csim_network(
    qnet: QuantisedNetwork,
    design: Design,
    images: npt.NDArray[Any],
    batches: Iterable[int] | None = None,
    *,
    chain: bool = True,
    progress: Progress | None = None,
    cache: Path | None = None,
    ultra_banks: int = 0,
) -> CsimReport:
    """Run every layer of `qnet` in C simulation for each batch size (default 1..b_max) and compare with
    golden.

    `images` (N, H, W, C): as stored, or an input of `qnet.quantise_input`; batch b uses the first b of them.
    With `chain`, each layer reads the core's own outputs, so the whole network runs on it; without, golden's.
    `ultra_banks`: as for `render_core`. Raises ProgramError for batch sizes out of range, and CsimError as
    `CoreSimulator`.
    """
    start = time.perf_counter()
    sizes = tuple(batches) if batches is not None else tuple(range(1, design.b_max + 1))
    if not sizes or not all(1 <= size <= min(design.b_max, len(images)) for size in sizes):
        most = min(design.b_max, len(images))
        raise ProgramError(
            f"batch sizes must lie in 1..{most} for {len(images)} images and b_max {design.b_max}, not {sizes}"
        )
    program = compile_program(qnet, design)
    stored = images if images.dtype == qnet.dtype else qnet.quantise_input(images)
    checks: list[LayerCheck] = []
    with CoreSimulator(design, cache, ultra_banks=ultra_banks) as core:
        for size in sizes:
            for check in _run_batch(qnet, program, core, stored[:size], chain):
                checks.append(check)
                if progress is not None:
                    progress(len(checks), len(sizes) * len(qnet.layers))
    return CsimReport(network=program.network, checks=tuple(checks), seconds=time.perf_counter() - start)


def _run_batch(
    qnet: QuantisedNetwork, program: Program, core: CoreSimulator, images: Stored, chain: bool
) -> Iterable[LayerCheck]:
    batch = len(images)
    slots = program.new_slots(batch)
    tensors = {program.input: images}
    behind = {pair.producer: pair.depthwise for pair in qnet.network.filters}
    filtered: dict[int, int] = {}  # saturations of layers that others have computed
    for slot, image in zip(slots, images, strict=True):
        program.tensors[program.input].stored(slot)[...] = program.pack_sample(image)
    for index, qlayer in enumerate(qnet.layers):
        layer, descriptor, word = qlayer.layer, program.descriptors[index], program.fbcb_word(index, batch)
        residual = None if layer.residual is None else layer.added(tensors[layer.residual])
        source = layer.read(tensors[layer.input])
        expected, expected_saturations = golden.run_layer_counting(qlayer, source, residual)
        saturations = filtered.get(index, 0)
        if not descriptor.merged:  # else the layer before has stored what it would
            streams = layer_streams(descriptor, word, core.design, slots, program.weights)
            output, saturations = core.run(streams)
            if descriptor.activation:  # what lies between the core and memory is Python here
                output, more = activate_output(descriptor, word, core.design, output, slots, program.weights)
                saturations += more
            more = store_output(descriptor, word, core.design, output, slots, program.weights)
            if descriptor.filter_kernel:
                filtered[behind[index]] = more
        views = [layer.written(program.tensors[layer.output].view(slot)[None])[0] for slot in slots]
        got = np.stack(views)
        if descriptor.ordered:  # the map itself is not stored
            got = output_maps(descriptor, word, core.design, output, batch)
        elif not chain:
            for view, value in zip(views, expected, strict=True):
                view[...] = value
        shape = (batch, *qnet.network.tensors[layer.output])
        whole = tensors.setdefault(layer.output, np.full(shape, qnet.zeros[layer.output], qnet.dtype))
        layer.written(whole)[...] = expected
        yield LayerCheck(
            layer=layer.name,
            batch=batch,
            mode=decode_layer(core.design, word, descriptor, batch).mode,
            outputs=got.size,
            mismatches=int(np.count_nonzero(got != expected)),
            saturations=saturations,
            expected_saturations=expected_saturations,
            first=_first(got, expected),
        )


def _first(got: Stored, expected: Stored) -> Difference | None:
    places = np.argwhere(got != expected)
    if not len(places):
        return None
    sample, row, column, channel = (int(axis) for axis in places[0])
    at = (sample, row, column, channel)
    return Difference(
        sample=sample, row=row, column=column, channel=channel, got=int(got[at]), expected=int(expected[at])
    )
