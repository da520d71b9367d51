"""Sentences for the end of a design's page: what a reader could take for checked, and nobody checked."""

from __future__ import annotations

from fluidnpu.dse import Exploration
from fluidnpu.dse.hardware import predicted_clock


def list_unchecked(exploration: Exploration) -> list[str]:
    """Return a sentence, without its full stop, for each thing that a reader could take for checked."""
    board, design, fit = exploration.board, exploration.design, exploration.fit
    predicted, memory = predicted_clock(board), board.memory(design.memory)
    assumed = predicted is None or int(1e6 * predicted.mhz) != board.clock_hz
    cycles = "the cycles of our RTL" if design.model == "exact" else "the paper's model, which knows no waiting,"
    sentences = [
        f"No vendor tool has placed or routed this design: its clock of {board.clock_hz / 1e6:g} MHz is "
        f"{'assumed' if assumed else 'predicted'}",
        f"No board has run it: speeds are {cycles} with memory '{memory.name}' modelled at {memory.sustained_pct} % of "
        f"its {memory.bytes_per_s / 1e9:.1f} GB/s",
        f"LUTs and flip-flops are estimates: {fit.lut.low:.0f} to {fit.lut.high:.0f} LUTs, {fit.ff.low:.0f} to "
        f"{fit.ff.high:.0f} flip-flops",
    ]
    if exploration.gap_pct:
        rest = exploration.arrays - exploration.evaluated
        sentences.append(
            f"{rest} of {exploration.arrays} arrays were not counted: one could be {exploration.gap_pct:.1f} % better"
        )
    if exploration.core == "hls":
        sentences.append("The HLS core is held against no columns of DSP slices")
    elif not board.dsp_columns:
        sentences.append("The chains of the reference core were held against no columns of DSP slices")
    if design.exit_rates is None and design.stages > 1:
        sentences.append("Shares of samples that leave at each exit are not known")
    sentences += [
        f"Answers in words of {design.word_bits} bits: build --data compares their accuracy with float, verify every bit",
        "Power and energy are not modelled here",
    ]
    return sentences
