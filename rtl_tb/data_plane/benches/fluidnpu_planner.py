"""The planner against the address model: every field of a layer, and the cause of every refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cocotb.triggers import RisingEdge

from fluidnpu.dse import Mode
from fluidnpu.hls import Cause, HlsError
from fluidnpu.hls.formats import DESCRIPTOR, FAULT, FBCB, LAYER, MAGIC, NO_WEIGHTS, PLAN, ActivationCode, Bits, Value
from fluidnpu.hls.program import Descriptor, FbcbEntry, decode_for, with_checksum
from fluidnpu.models.numeric import WORDS

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import pulse, raised
from ..environment.cases import Case, layer_of, random_case
from ..environment.jobs import TABLE_PIECES, array_under_test

DESIGN = array_under_test(t_p=6, weight_slots=2, activation=1, filter=5, filter_table=1)
WEIGHTS = setting("FILTER_WEIGHTS", DESIGN.filter_room.weights)
WORD = WORDS[DESIGN.word_bits]
BYTES = DESIGN.word_bytes == 1
SCALE, OTHER = ("residual_multiplier", "residual_shift") if BYTES else ("residual_shift", "residual_multiplier")
SIZES = (
    "has_residual", "shift", SCALE, "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "out_h",
    "out_w", "group_words", "groups", "columns",
)  # fmt: skip
PLACES = tuple(bits.name for bits in DESCRIPTOR.fields if bits.name.endswith(("_offset", "_bytes")))


async def plan(dut: Dut, case: Case, words: tuple[int, ...], plan_bad: int = 0) -> tuple[str, int]:
    """Plan a descriptor at the plan and batch of a case."""
    return await plan_of(dut, words, case.run, case.layer(), len(case.active), plan_bad)


async def plan_of(
    dut: Dut, words: tuple[int, ...], run: FbcbEntry, layer: Mapping[str, int], batch: int, plan_bad: int = 0
) -> tuple[str, int]:
    """Plan a descriptor: ("done", layer) or ("bad", cause), which must be told for one cycle."""
    dut.descriptor_i.value = sum(word << 32 * i for i, word in enumerate(words))
    mode = int(run.mode) if int(run.mode) < 4 else 0
    word = {"bad": plan_bad, "mode": mode, "row_lanes": layer["row_lanes"], "b_r": run.b_r, "block": run.block}
    dut.b_act_i.value, dut.plan_i.value = batch, PLAN.pack(word)
    dut.loaded_i.value = 1
    await pulse(dut, "start_i")
    for _ in range(1500):
        await RisingEdge(dut.clk_i)
        fault = FAULT.numbers(int(dut.bad_o.value))
        if fault["valid"] or dut.done_o.value:
            expected = ("bad", fault["cause"]) if fault["valid"] else ("done", int(dut.layer_o.value))
            await RisingEdge(dut.clk_i)
            assert not FAULT.numbers(int(dut.bad_o.value))["valid"], "an end is told for one cycle"
            assert not dut.done_o.value, "an end is told for one cycle"
            return expected
    raise AssertionError("neither done nor bad within 1500 cycles")


@bench(50_000)
async def a_layer_is_what_the_address_model_says(dut: Dut) -> None:
    """Random layers in random modes, without a reset between them, have the fields of the address model."""
    rng = await begin(dut)
    seen, kernels = set(), set()
    for _ in range(90):
        case = random_case(rng, DESIGN)
        kind, value = await plan(dut, case, case.descriptor.words())
        assert kind == "done", Cause(value)
        got, want = LAYER.unpack(value), case.layer()
        for name in want:
            if name in ("weights", "block_words") and want["pool"]:
                continue  # a pool has none
            if name == "piece_address" and not (want["pieces"] or want["filter_kernel"]):
                continue
            assert got[name] == want[name], f"{name} of {case.descriptor}, {case.run}"
        seen.add(case.run.mode)
        kernels.add(want["filter_kernel"])
    assert len(seen) == 3 + 2 * DESIGN.stackable + DESIGN.split
    assert kernels == {0, *range(2, DESIGN.filter_room.kernel + 1)}


def wide_layers(rng: random.Random) -> Iterator[tuple[Descriptor, FbcbEntry, int, Mapping[str, int]]]:
    """Yield (descriptor, plan, batch, layer) with fields of any size up to their limits.

    What follows from them fits the fields of a layer: the compiler refuses others.
    """
    fixed = [
        {"out_h": 1, "out_w": 301},
        {"out_h": 259, "out_w": 255},
        {"out_h": 65535, "out_w": 1},
        {"out_h": 300, "out_w": 301},
    ]
    fixed += [{"kind": 2, "kernel_h": 23, "kernel_w": 21}, {"kernel_h": 255, "kernel_w": 255, "group_words": 1}]
    count = 0
    while fixed or count < 60:
        given = fixed[0] if fixed else {}
        kind = given.get("kind", rng.choice((0, 0, 0, 1, 2)))
        fields: dict[str, Value] = {
            "kind": kind,
            **{bits.name: _any_size(rng, bits) for bits in DESCRIPTOR.fields if bits.name in SIZES},
        }
        fields |= given | ({"groups": 1} if kind else {})
        fields |= {name: _any_size(rng, DESCRIPTOR.field(name)) & -DESIGN.word_bytes for name in PLACES}
        fields["weights"] = tuple(64 * rng.randrange(1 << 24) for _ in range(4))
        batch = rng.randrange(1, DESIGN.b_max + 1)
        try:
            descriptor = Descriptor(**fields, byte_words=int(BYTES), lo=WORD.lowest, hi=WORD.highest)  # type: ignore[arg-type]
            word = FBCB.pack(
                {"k": rng.randrange(4), "b_r": rng.randrange(batch), "block": rng.randrange(DESIGN.t_r + 1)}
            )
            run = decode_for(DESIGN, word, kind=kind, batch=batch)
            layer = layer_of(descriptor, run, batch, DESIGN)
            LAYER.pack(layer)
        except HlsError:
            continue
        count += not given
        if given:
            fixed.pop(0)
        yield descriptor, run, batch, layer


def _any_size(rng: random.Random, bits: Bits) -> int:
    """Draw a value of any number of digits that the hardware obeys."""
    least, most = bits.limits
    return max(least, min(most, rng.getrandbits(rng.randrange(1, bits.width + 1))))


@bench(100_000)
async def a_layer_of_any_size_is_what_the_formulas_say(dut: Dut) -> None:
    """Rows, taps, channels and distances near their limits are planned in full width."""
    rng = await begin(dut)
    largest = dict.fromkeys(("beats0", "row_bytes", "block_words", "p_tiles", "sample_rows"), 0)
    for descriptor, run, batch, want in wide_layers(rng):
        kind, value = await plan_of(dut, descriptor.words(), run, want, batch)
        assert kind == "done", f"{Cause(value).name} of {descriptor}"
        got = LAYER.unpack(value)
        for name in want:
            if name not in (*(("weights", "block_words") if want["pool"] else ()), "piece_address"):
                assert got[name] == want[name], f"{name} of {descriptor}, {run}"
        largest = {name: max(most, int(want[name])) for name, most in largest.items()}
    assert largest["beats0"] > 1 << 16
    assert min(largest["row_bytes"], largest["block_words"]) > 1 << 24
    assert min(largest["p_tiles"], largest["sample_rows"]) > 1 << 10


def spoils(good: Mapping[str, Value], mode: Mode) -> Iterator[Mapping[str, Value]]:
    """Changes of a legal GEMM descriptor that the planner must refuse, from the limits of the table."""
    yield {"magic": MAGIC + 1}
    yield {"lo": 32767, "hi": -32768}
    yield {"byte_words": int(not BYTES)}
    yield {OTHER: 1}
    yield {"lo": 1, "hi": 0}
    yield {"lo": 0, "hi": -1}
    yield {"pool_kernel": 1}
    yield from () if DESIGN.has_filter else ({"merged": 1, "kind": 2}, {"merged": 1})
    yield {"merged": 1, "pool_kernel": 2, "activation": 0, "activation_window": 0, "pieces": 0}
    yield from unit_spoils()
    yield from filter_spoils(good)
    for bits in DESCRIPTOR.fields:
        least, most = bits.limits
        if bits.name.startswith("filter_"):
            continue  # nobody looks at them where there is no filter
        if bits.least is not None:
            yield {bits.name: least - 1}
        if not bits.signed and most + 1 < 1 << bits.width:
            yield {bits.name: most + 1}
        if bits.name.endswith(("_offset", "_bytes")) and not BYTES:
            yield {bits.name: bits.number(DESCRIPTOR.pack(good)) | 1}
    parts = DESCRIPTOR.field("weights").get(DESCRIPTOR.pack(good))
    assert isinstance(parts, tuple)
    for part in (NO_WEIGHTS, parts[mode] | 32):
        yield {"weights": (*parts[:mode], part, *parts[mode + 1 :])}


def filtering(good: Mapping[str, Value], **change: int) -> dict[str, Value]:
    """The fields of a filter behind a layer of the size of `good`, with changes."""
    sizes = {
        name: bits.get(DESCRIPTOR.pack(good)) for name, bits in ((n, DESCRIPTOR.field(n)) for n in ("out_h", "out_w"))
    }
    fields: dict[str, Value] = {
        "filter_kernel": 3, "filter_stride": 2, "filter_rows": 1, "filter_hi": 9, "filter_unit_hi": 9, "groups": 1,
        "pool_kernel": 0, "walk_h": sizes["out_h"], "walk_w": sizes["out_w"],
    }  # fmt: skip
    return fields | change


def filter_spoils(good: Mapping[str, Value]) -> Iterator[Mapping[str, Value]]:
    """Yield changes of a GEMM that ask of the filter what it cannot do."""
    high, wide = (DESCRIPTOR.field(name).number(DESCRIPTOR.pack(good)) for name in ("out_h", "out_w"))
    table = {"filter_table": 1, "filter_window": 8}
    changes: list[dict[str, int]] = [
        *({"filter_kernel": kernel} for kernel in (1, *range(DESIGN.filter_room.kernel + 1, 16))),
        *({"filter_stride": stride} for stride in (0, 3)),
        *({name: pad} for name in ("filter_top", "filter_left") for pad in (3, 7)),
        *({"walk_h": walk} for walk in (high - 1, high + 3, high + 300)),
        *({"walk_w": walk} for walk in (wide - 1, wide + 3, wide + 300)),
        *({"filter_rows": rows} for rows in (0, WEIGHTS + 1, 0xFFFF)),
        *({"filter_shift": shift} for shift in (48, 63)),
        {"filter_lo": 10}, {"filter_unit_lo": 10}, {"groups": 2}, {"pool_kernel": 2}, {"pool_kernel": 3},
        {"kind": 1, "has_residual": 0}, {"merged": 1}, table | {"filter_window": 7}, {"filter_window": 8},
        *([] if DESIGN.filter_room.activation else [table]), *([table | {"filter_window": 9}, {"filter_shift": 1}] if BYTES else []),
    ]  # fmt: skip
    for change in changes:
        yield filtering(good, **change)
    yield {"filter_rows": 1, "filter_kernel": 0, "filter_table": 0}
    yield {"filter_rows": 0, "filter_kernel": 0, "filter_table": 1}


def unit_spoils() -> Iterator[Mapping[str, Value]]:
    """Yield changes of a GEMM with a residual that ask of an activation unit what none can do."""
    table = {"activation": ActivationCode.TABLE, "activation_window": 8, "pieces": TABLE_PIECES}
    bounds = ({"activation_lo": 1, "activation_hi": 0}, {"activation_lo": 0, "activation_hi": -1})
    for change in (
        *({"pieces": TABLE_PIECES + more} for more in (-1, 1)),
        *({"activation_window": p} for p in (0, 7, *((9, 15) if BYTES else ()))),
        *bounds,
    ):
        yield table | change
    most = 256 * DESIGN.out_words
    for use in (ActivationCode.SLOPE, ActivationCode.AFFINE):
        yield from ({"activation": use, "pieces": pieces} for pieces in (0, most + 1, 0xFFFF))
    for use in (ActivationCode.NONE, ActivationCode.PRODUCT):
        yield {"activation": use, "pieces": 1}
    yield {"activation": ActivationCode.PRODUCT, "has_residual": 0}
    yield {"residual_spread": 1, "has_residual": 0}
    yield from ({"activation": use, "pieces": 1} for use in range(len(ActivationCode), 8))


@bench(20_000)
async def nonsense_is_refused(dut: Dut) -> None:
    """Fields out of range, odd steps, missing weights, wrong magic or checksum are refused.

    A bad FBCB word is told with its own cause, also where fields of the descriptor are out of range: a mode
    that the descriptor has no weights for is the word's fault.
    """
    rng = await begin(dut)
    case = random_case(rng, DESIGN, kind=0, residual=True, filter=None)
    good = case.descriptor.words()
    values = DESCRIPTOR.unpack(sum(word << 32 * i for i, word in enumerate(good)))
    for change in spoils(values, case.run.mode):
        words = with_checksum(DESCRIPTOR.pack({**values, **change}))
        outcome = await plan(dut, case, words)
        assert outcome == ("bad", Cause.BAD_DESCRIPTOR), f"{change}: {outcome}"
        outcome = await plan(dut, case, words, plan_bad=1)
        assert outcome == ("bad", Cause.BAD_DESCRIPTOR if "magic" in change else Cause.BAD_FBCB), f"{change}: {outcome}"
    for bit in (0, 13, 31):
        bad = [*good]
        bad[rng.randrange(32)] ^= 1 << bit
        assert await plan(dut, case, tuple(bad)) == ("bad", Cause.BAD_DESCRIPTOR)
        assert await plan(dut, case, tuple(bad), plan_bad=1) == ("bad", Cause.BAD_DESCRIPTOR)
    # What a sum of words would take for whole: two opposite flips, and two words that change places.
    low, high = sorted(rng.sample(range(1, 31), 2))
    while good[low] == good[high]:
        low, high = sorted(rng.sample(range(1, 31), 2))
    swapped, opposite = [*good], [*good]
    swapped[low], swapped[high] = good[high], good[low]
    opposite[low], opposite[high] = good[low] + 1 & 0xFFFF_FFFF, good[high] - 1 & 0xFFFF_FFFF
    for bad in (swapped, opposite):
        assert await plan(dut, case, tuple(bad)) == ("bad", Cause.BAD_DESCRIPTOR)
    assert await plan(dut, case, good, plan_bad=1) == ("bad", Cause.BAD_FBCB)
    kind, _ = await plan(dut, case, good)
    assert kind == "done"


@bench(20_000)
async def more_p_tiles_than_a_command_can_ask_for_are_refused(dut: Dut) -> None:
    """65,535 P-tiles are planned; one more would be cut to 16 bits, and the job would not end."""
    rng = await begin(dut)
    case = random_case(rng, DESIGN, kind=0)
    while case.run.mode not in (Mode.NORMAL, Mode.LANES):
        case = random_case(rng, DESIGN, kind=0)
    met = set[str]()
    for most in ((1 << 16) - 1, 1 << 16):
        for kernel in ((5, 17), (15, 17), (255, 255)):
            taps = kernel[0] * kernel[1]
            words = -(-((most - 1) * DESIGN.t_p + 1) // taps)
            p_tiles = -(-words * taps // DESIGN.t_p)
            big = replace(case.descriptor, kernel_h=kernel[0], kernel_w=kernel[1], group_words=words)
            kind, cause = await plan(dut, case, big.words())
            met.add(kind)
            assert kind == ("done" if p_tiles < 1 << 16 else "bad"), f"{p_tiles} P-tiles"
            assert kind == "done" or cause == Cause.BAD_DESCRIPTOR
    assert met == {"done", "bad"}


@bench(20_000)
async def what_just_meets_the_limits_is_planned(dut: Dut) -> None:
    """A range of one word and the largest shifts are no nonsense."""
    rng = await begin(dut)
    case = random_case(rng, DESIGN, kind=0, residual=True, filter=None)
    low, high, windows = WORD.lowest, WORD.highest, (8,) if BYTES else (8, 15)
    ranges = ((0, 0), (low, low), (high, high), (-1, 0), (low, high))
    allowed = [replace(case.descriptor, lo=lo, hi=hi) for lo, hi in ranges]
    allowed += [replace(case.descriptor, shift=shift) for shift in DESCRIPTOR.field("shift").limits]
    scales: list[dict[str, Any]] = [{SCALE: scale} for scale in DESCRIPTOR.field(SCALE).limits]
    allowed += [replace(case.descriptor, **scale) for scale in scales]
    plain = replace(case.descriptor, activation=0, activation_window=0, pieces=0)
    allowed += [replace(plain, activation=1, activation_window=p, pieces=TABLE_PIECES) for p in windows]
    allowed += [replace(plain, activation=use, pieces=n) for use in (3, 4) for n in (1, 256 * DESIGN.out_words)]
    allowed += [replace(plain, activation_lo=bound, activation_hi=bound) for bound in (low, high)]
    gemm = replace(
        plain,
        groups=1,
        pool_kernel=0,
        filter_kernel=3,
        filter_stride=1,
        filter_rows=1,
        walk_h=plain.out_h,
        walk_w=plain.out_w,
    )
    gemm = replace(gemm, filter_table=0, filter_window=0, filter_shift=0)
    allowed += [
        replace(gemm, filter_rows=WEIGHTS),
        replace(gemm, filter_shift=0 if BYTES else 47),
        replace(gemm, filter_top=2, filter_left=2),
    ]
    allowed += [
        replace(gemm, walk_h=gemm.out_h + 2, walk_w=gemm.out_w + 2),
        replace(gemm, filter_kernel=2, filter_stride=2),
    ]
    allowed += [replace(gemm, filter_lo=bound, filter_hi=bound) for bound in (low, high)]
    allowed += [replace(gemm, filter_table=1, filter_window=p) for p in windows]
    for descriptor in allowed:
        assert (await plan(dut, case, descriptor.words()))[0] == "done", descriptor


@bench(20_000)
async def a_layer_is_done_when_its_pieces_are_there(dut: Dut) -> None:
    """Its plan is shown whole until they are, and a reset forgets it."""
    rng = await begin(dut)
    case = random_case(rng, DESIGN)
    _, want = await plan(dut, case, case.descriptor.words())
    for forget in (False, True):
        dut.loaded_i.value = 0
        await pulse(dut, "start_i")
        await raised(dut, "planned_o")
        for _ in range(rng.randrange(1, 40)):
            await RisingEdge(dut.clk_i)
            assert dut.planned_o.value
            assert not dut.done_o.value
            assert int(dut.layer_o.value) == want
        if forget:
            dut.rst_ni.value = 0
            await RisingEdge(dut.clk_i)
            dut.rst_ni.value = 1
            await RisingEdge(dut.clk_i)
        dut.loaded_i.value = 1
        await RisingEdge(dut.clk_i)
        assert dut.done_o.value == (not forget)
        await RisingEdge(dut.clk_i)
        assert not dut.planned_o.value
        assert not dut.done_o.value


@bench(20_000)
async def a_pool_or_a_filter_behind_lanes_by_samples_is_refused(dut: Dut) -> None:
    """Their outputs do not come in the order of the image; neighbouring rows do."""
    rng = await begin(dut)
    met = set[bool]()
    while len(met) < 2 and DESIGN.stackable and DESIGN.b_max > 1:
        case = random_case(rng, DESIGN, kind=0, groups=1)
        if case.run.mode is Mode.LANES and not case.descriptor.ordered and (case.run.row_lanes or case.by_samples):
            met.add(case.run.row_lanes)
            values = DESCRIPTOR.unpack(sum(word << 32 * i for i, word in enumerate(case.descriptor.words())))
            for change in ({"pool_kernel": 3}, filtering(values)):
                outcome = await plan(dut, case, with_checksum(DESCRIPTOR.pack({**values, **change})))
                assert outcome[0] == "done" if case.run.row_lanes else outcome == ("bad", Cause.BAD_FBCB)


@bench(20_000)
async def a_merged_layer_needs_no_weights(dut: Dut) -> None:
    """A depthwise layer that the one before it has computed is planned; one that is not merged is refused."""
    rng = await begin(dut)
    for merged in (True, False, True):
        case = random_case(rng, DESIGN, kind=0, merged=True)
        descriptor = replace(case.descriptor, merged=int(merged))
        kind, value = await plan(dut, case, descriptor.words())
        assert (kind, value) == ("bad", Cause.BAD_DESCRIPTOR) if not merged else kind == "done"


@bench(20_000)
async def a_pool_has_no_groups(dut: Dut) -> None:
    """A pool with groups is refused; a reset in the middle forgets the plan."""
    rng = await begin(dut)
    case = random_case(rng, DESIGN, kind=1, activation=ActivationCode.NONE)
    assert (await plan(dut, case, case.descriptor.words()))[0] == "done"
    assert await plan(dut, case, replace(case.descriptor, groups=2).words()) == ("bad", Cause.BAD_DESCRIPTOR)
    assert (await plan(dut, case, replace(case.descriptor, merged=1).words()))[0] == "done"
    merged_table: dict[str, Value] = {"activation": ActivationCode.TABLE, "activation_window": 8, "merged": 1}
    merged_table |= {"pieces": TABLE_PIECES, "weights": (0,) * 4}
    changes: tuple[dict[str, Value], ...] = ({"pool_kernel": 2}, merged_table)
    for change in changes:
        words = with_checksum(DESCRIPTOR.pack({**vars(case.descriptor), "magic": MAGIC, **change}))
        assert await plan(dut, case, words) == ("bad", Cause.BAD_DESCRIPTOR), change
    await pulse(dut, "start_i")
    await reset(dut)
    for _ in range(1500):
        await RisingEdge(dut.clk_i)
        assert not dut.done_o.value
        assert not FAULT.numbers(int(dut.bad_o.value))["valid"]
