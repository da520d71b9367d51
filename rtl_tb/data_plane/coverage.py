"""Functional coverage of the data plane: the situations that a suite must meet, and those that a run has met.

Pure; benches write, tests read.

>>> from fluidnpu.dse.testing import tiny_design
>>> "plan LANES by samples, batch 3, b_r 2" in required(tiny_design())
True
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from fluidnpu.dse import Design, Mode
from fluidnpu.hls import FbcbError
from fluidnpu.hls.formats import FBCB, ActivationCode, KindCode, StackCode
from fluidnpu.hls.program import Descriptor, FbcbEntry, decode_for, decode_layer

FILE = "coverage.json"
_USES = [use.name for use in ActivationCode if use is not ActivationCode.NONE]
_REPEATS = ("one pixel", "one word a pixel", "one word")  # that a residual consists of
_SITUATIONS = (
    "max pool",
    "sum pool",
    "1x1 kernel",
    "square kernel",
    "flat kernel",
    "stride 1",
    "stride above 1",
    "different strides",
    "dilation",
    "groups",
    "depthwise",
    "residual",
    "no residual",
    "concatenation",
    "contiguous kernel rows",
    "P-tile straddles taps",
    "P-tile of three segments or more",
    "max pool of an odd number of taps",
    "max pool of an even number of taps",
    "P-tile has a tail",
    "P-tiles fit exactly",
    "one P-tile",
    "one row block",
    "several row blocks",
    "last row block is short",
    "row block left to the banks",
    "row block named as deep as the banks",
    "row block limited by the FBCB",
    "pool in limited row blocks",
    "lane 1 ends in a limited row block",
    "one column tile",
    "several column tiles",
    "last column tile is short",
    "output rows of one beat",
    "output rows of several beats",
    "output rows with unused words",
    "lane 1 shorter than lane 0",
    "lane 1 empty in a block",
    "window crosses samples in a block",
    "one output pixel",
    "outputs pass a pool of 2",
    "outputs pass a pool of 3",
    "a pool begins beside the map",
    "a pool ends with the map",
    "outputs with a residual pass a pool",
    "outputs of several column tiles pass a pool",
    "outputs of groups pass a pool",
    "a row block ends inside windows of a pool",
)
_EVENTS = (
    "exit",
    "merge",
    "exit and merge",
    "job of one layer",
    "job of several layers",
    "job not from layer 0",
    "slots not adjacent",
    "rough weather",
    "fair weather",
    "read burst ends at a page",
    "write burst ends at a page",
    "soft reset while memory owes data",
    "soft reset while memory owes an answer",
)


def plans(design: Design) -> Iterator[tuple[str, int, int]]:
    """Yield (name, FBCB word, batch) of every plan a GEMM can have."""
    for batch in range(1, design.b_max + 1):
        for b_r, k in product(range(design.b_max), StackCode):
            word = FBCB.pack({"k": k, "b_r": b_r})
            try:
                run = decode_for(design, word, kind=0, batch=batch)
            except FbcbError:
                continue
            by_samples = run.mode is Mode.LANES and not run.row_lanes
            if by_samples or b_r == batch - 1:
                yield _plan(run, batch), word, batch


def required(design: Design) -> frozenset[str]:
    """The bins that a suite for this design must close."""
    lanes = {name for name in _SITUATIONS if name.startswith("lane 1")}
    situations = set(_SITUATIONS) - (set() if design.stackable else lanes)
    unit = unit_bins_of_all() if design.activation else set()
    unit |= filter_bins_of_all(design)
    return frozenset({name for name, _, _ in plans(design)} | situations | unit | set(_EVENTS))


def layer_bins(descriptor: Descriptor, word: int, batch: int, design: Design) -> set[str]:
    """The bins that one layer at one batch size falls into."""
    d = descriptor
    run = decode_layer(design, word, d, batch)
    situations = _window(d) | _block(d, run, FBCB.number("block", word), batch, design)
    situations |= _columns(d, design.tile(run.mode)[1], design) | _pool(d, run, batch, design)
    bins = {name for name, met in situations.items() if met} | unit_bins(d) | filter_bins(d)
    if d.kind == 0:
        bins |= {_plan(run, batch), *(name for name, met in _p_tiles(d, design.tile(run.mode)[0]).items() if met)}
    return bins


def _plan(run: FbcbEntry, batch: int) -> str:
    """Name of a GEMM's plan."""
    if run.mode is Mode.LANES and not run.row_lanes:
        return f"plan LANES by samples, batch {batch}, b_r {run.b_r}"
    return f"plan {run.mode.name}{' by rows' if run.row_lanes else ''}, batch {batch}"


def _window(d: Descriptor) -> dict[str, bool]:
    """Situations of the window and its tensors."""
    taps = d.kernel_h * d.kernel_w
    return {
        "max pool": d.kind == 1,
        "max pool of an odd number of taps": d.kind == 1 and taps % 2 == 1,
        "max pool of an even number of taps": d.kind == 1 and taps % 2 == 0,
        "sum pool": d.kind == 2,
        "1x1 kernel": (d.kernel_h, d.kernel_w) == (1, 1),
        "square kernel": d.kernel_h == d.kernel_w > 1,
        "flat kernel": d.kernel_h != d.kernel_w,
        "stride 1": d.stride_h == d.stride_w == 1,
        "stride above 1": min(d.stride_h, d.stride_w) > 1,
        "different strides": d.stride_h != d.stride_w,
        "dilation": max(d.dilation_h, d.dilation_w) > 1,
        "groups": d.groups > 1,
        "depthwise": d.groups > 1 and d.group_words == d.columns == 1,
        "residual": bool(d.has_residual),
        "no residual": not d.has_residual,
        "concatenation": d.out_pixel_bytes > 2 * d.groups * d.columns,
        "one output pixel": d.out_h == d.out_w == 1,
    }


def _block(d: Descriptor, run: FbcbEntry, named: int, batch: int, design: Design) -> dict[str, bool]:
    """Situations of row blocks and lanes; `named` is the depth that the FBCB word names."""
    image, depth = d.out_h * d.out_w, run.block
    rows = batch * image
    lane0 = -(-rows // 2) if run.row_lanes else run.b_r * image
    lane1 = rows - lane0 if run.mode is Mode.LANES else 0
    deepest = max(1, design.t_r // 2) if run.mode is Mode.SPLIT else design.t_r
    limited = depth < deepest and lane0 > depth
    return {
        "several row blocks": lane0 > depth,
        "one row block": lane0 <= depth,
        "last row block is short": lane0 > depth and lane0 % depth != 0,
        "row block left to the banks": not named,
        "row block named as deep as the banks": named == deepest,
        "row block limited by the FBCB": limited,
        "pool in limited row blocks": limited and d.kind != 0,
        "lane 1 ends in a limited row block": limited and lane1 % depth != 0,
        "lane 1 shorter than lane 0": 0 < lane1 < lane0,
        "lane 1 empty in a block": run.mode is Mode.LANES and 0 < lane1 <= (lane0 - 1) // depth * depth,
        "window crosses samples in a block": batch > 1 and image % depth != 0 and lane0 > image,
    }


def _pool(d: Descriptor, run: FbcbEntry, batch: int, design: Design) -> dict[str, bool]:
    """Situations of the max pool that outputs pass."""
    if not d.pool_kernel:
        return {}
    image = d.out_h * d.out_w
    step = run.block * (2 if run.row_lanes else 1)
    ends = {end % d.out_w for end in range(step, batch * image, step)}
    last = [size - 1 + pad for size, pad in ((d.out_h, d.pool_top), (d.out_w, d.pool_left))]
    return {
        f"outputs pass a pool of {d.pool_kernel}": True,
        "a pool begins beside the map": bool(d.pool_top or d.pool_left),
        "a pool ends with the map": d.pool_kernel == 3 and any(at % 2 for at in last),
        "outputs with a residual pass a pool": bool(d.has_residual),
        "outputs of several column tiles pass a pool": d.columns > design.tile(run.mode)[1],
        "outputs of groups pass a pool": d.groups > 1,
        "a row block ends inside windows of a pool": any((end + d.pool_left) % 2 for end in ends),
    }


def unit_bins(d: Descriptor) -> set[str]:
    """Situations of the activation unit, and of a residual that repeats a word or a pixel."""
    use = ActivationCode(d.activation)
    fixed = d.residual_row_bytes == d.residual_pixel_bytes == 0
    bins = set()
    if use is not ActivationCode.NONE:
        bins |= {
            f"{use.name} of a {'pool' if d.kind else 'GEMM'}",
            *([f"{use.name} before a pool"] if d.pool_kernel else []),
        }
    if d.has_residual and (fixed or d.residual_spread):
        bins.add(
            f"a residual of {_REPEATS[fixed + 2 * d.residual_spread - 1]}, {'multiplied' if d.multiplies else 'added'}"
        )
    return bins


def unit_bins_of_all() -> set[str]:
    """Those that a suite of a design with an activation unit must close."""
    bins = {f"{use} {where}" for use in _USES for where in ("of a GEMM", "of a pool", "before a pool")}
    return bins | {f"a residual of {what}, {how}" for what in _REPEATS for how in ("added", "multiplied")}


def filter_bins(d: Descriptor) -> set[str]:
    """Situations of the depthwise filter that outputs pass (ADR 70)."""
    if not d.filter_kernel:
        return {"a layer that a filter has computed"} if d.merged and d.kind == KindCode.GEMM else set()
    last = [_last_read(d, axis) for axis in range(2)]
    situations = {
        f"a filter of {d.filter_kernel}": True,
        f"a filter of stride {d.filter_stride}": True,
        "a filter begins beside the map": bool(d.filter_top and d.filter_left),
        "a filter begins with the map": not (d.filter_top or d.filter_left),
        "a filter ends beside the map": (d.walk_h, d.walk_w) > (d.out_h, d.out_w),
        "a filter ends before the map": last[0] < d.out_h - 1 or last[1] < d.out_w - 1,
        "a filter's map is larger": d.pooled_hw[0] > d.out_h or d.pooled_hw[1] > d.out_w,
        "a table behind a filter": bool(d.filter_table),
        "no table behind a filter": not d.filter_table,
        "outputs with a residual pass a filter": bool(d.has_residual),
        f"{ActivationCode(d.activation).name} before a filter": True,
    }
    return {name for name, met in situations.items() if met}


def _last_read(d: Descriptor, axis: int) -> int:
    """The last row or column, of the map or behind it, that a filter's windows reach."""
    before = (d.filter_top, d.filter_left)[axis]
    return (d.pooled_hw[axis] - 1) * d.filter_stride - before + d.filter_kernel - 1


def filter_bins_of_all(design: Design) -> set[str]:
    """Those that a suite of a design must close; none without a filter."""
    room = design.filter_room
    if not room.kernel:
        return set()
    bins = {f"a filter of {kernel}" for kernel in range(2, room.kernel + 1)} | {
        f"a filter of stride {s}" for s in (1, 2)
    }
    bins |= {f"a filter {how} the map" for how in ("begins beside", "begins with", "ends beside", "ends before")}
    bins |= {"a filter's map is larger", "a layer that a filter has computed", "no table behind a filter"}
    bins |= {"outputs with a residual pass a filter"} | ({"a table behind a filter"} if room.activation else set())
    return bins | {f"{use} before a filter" for use in ("NONE", *(_USES if design.activation else ()))}


def _columns(d: Descriptor, columns: int, design: Design) -> dict[str, bool]:
    """Situations of column tiles of `columns` and of the output beats of their rows."""
    return {
        "one column tile": d.columns <= columns,
        "several column tiles": d.columns > columns,
        "last column tile is short": d.columns % columns != 0,
        "output rows of one beat": min(d.columns, columns) <= design.out_words,
        "output rows of several beats": min(d.columns, columns) > design.out_words,
        "output rows with unused words": d.columns % columns % design.out_words != 0,
    }


def _p_tiles(d: Descriptor, width: int) -> dict[str, bool]:
    """Situations of a GEMM's P-tiles of `width` words."""
    p = d.kernel_h * d.kernel_w * d.group_words
    contiguous = d.dilation_w == 1 and d.in_pixel_bytes == 2 * d.group_words
    run_words = d.group_words * (d.kernel_w if contiguous else 1)
    segments = [(min(at + width, p) - 1) // run_words - at // run_words for at in range(0, p, width)]
    return {
        "contiguous kernel rows": d.kernel_w > 1 and contiguous,
        "P-tile of three segments or more": max(segments) >= 2,
        "P-tile straddles taps": d.kernel_w > 1 and d.group_words % width != 0 and p > width,
        "P-tile has a tail": p % width != 0,
        "P-tiles fit exactly": p % width == 0,
        "one P-tile": p <= width,
    }


def merge(folders: Iterable[Path]) -> Counter[str]:
    """Add up the hits of the bins that benches wrote into these run folders."""
    total: Counter[str] = Counter()
    for folder in folders:
        total.update(json.loads((folder / FILE).read_text()))
    return total


def closure(hit: Iterable[str], design: Design) -> tuple[str, list[str]]:
    """(One line to print, bins that are still open)."""
    wanted = required(design)
    missing = sorted(wanted - set(hit))
    return f"functional coverage: {len(wanted) - len(missing)} of {len(wanted)} bins", missing
