"""The bit formats of the NPU: one table of every packed word that two languages or two modules share.

SystemVerilog package, C++ header of the core, `docs/reference/formats.md` and Python packers are views of
`FORMATS`; no bit position stands in another file. To add a field: one row here, and in Python an attribute
of the record that has it.

>>> FBCB.pack({"k": StackCode.TWO, "b_r": 3, "block": 5}) == 1 | 3 << 2 | 5 << 7
True
>>> DESCRIPTOR.field("stride_h").start == 2 * 32 + 16
True
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum

from fluidnpu.dse import Mode

from .format import Bits, Codes, Constant, Format


class KindCode(IntEnum):
    """The kinds of layers that the hardware runs, as a descriptor names them."""

    GEMM = 0
    MAX_POOL = 1
    SUM_POOL = 2


class StackCode(IntEnum):
    """The k of an FBCB word: how many PEs make a column, or that neighbouring rows share a beat."""

    ONE = 0
    TWO = 1
    HALF = 2
    ROW_LANES = 3


class ActivationCode(IntEnum):
    """The uses that a layer makes of the activation unit (ADR 69), as a descriptor names them."""

    NONE = 0
    TABLE = 1
    PRODUCT = 2
    SLOPE = 3
    AFFINE = 4


def _bundle(
    name: str,
    meaning: str,
    rows: Sequence[tuple[str, int, str]],
    codes: Mapping[str, Codes],
    signed: Collection[str] = (),
) -> Format:
    """A format whose fields follow one another without gaps, from rows of (name, width, meaning)."""
    fields: list[Bits] = []
    for field, width, text in rows:
        low = fields[-1].end if fields else 0
        fields.append(Bits(field, 0, low, width, text, signed=field in signed, codes=codes.get(field)))
    return Format(name, fields[-1].end, meaning, tuple(fields))


MODES = Codes("mode", "Mode", Mode, 4, "What the PE array does in one command (ADR 4); the codes are `dse.Mode`.")
KINDS = Codes("kind", "Kind", KindCode, 2, "Kinds of layers.")
STACKS = Codes("stack", "Stack", StackCode, 2, "The k of Stackable PEs in an FBCB word (ADR 5).")
ACTIVATIONS = Codes(
    "activation", "Activation", ActivationCode, 3, "What the activation unit does with the words of a layer (ADR 69)."
)
CODES = (MODES, KINDS, STACKS, ACTIVATIONS)

MAGIC = 0xF1D0_0004
# CRC-32 of IEEE 802.3, as `zlib.crc32`: bits reflected, ones before and behind.
CRC_POLYNOMIAL, CRC_RESIDUE = 0xEDB8_8320, 0xDEBB_20E3
NO_WEIGHTS = 0xFFFF_FFFF

DESCRIPTOR = Format(
    "descriptor",
    1024,
    "One layer as the data plane reads it: 32 little-endian words, the last the CRC-32 of those before. Offsets and distances are "
    "bytes: `*_offset` from the base of the sample's slot, `weights` from the weight image.",
    (
        Bits("magic", 0, 0, 32, "DescriptorMagic; its low half is the version of this layout"),
        Bits("kind", 1, 0, 2, "kind of layer", codes=KINDS),
        Bits(
            "has_residual", 1, 2, 1, "a residual is added before clipping, or multiplied where `activation` is PRODUCT"
        ),
        Bits(
            "merged", 1, 3, 1, "the layer before has computed it: a max pool (ADR 51), or what a filter does (ADR 70)"
        ),
        Bits("residual_spread", 1, 4, 1, "the residual has one word a pixel, for all of its channels"),
        Bits("byte_words", 1, 5, 1, "words are int8 (ADR 75); an NPU of the other width refuses it"),
        Bits("shift", 1, 8, 8, "bits that an accumulator is shifted right", most=47),
        Bits("residual_shift", 1, 16, 8, "bits that a residual is shifted left", most=31),
        Bits("kernel_h", 2, 0, 8, "rows of a window", least=1),
        Bits("kernel_w", 2, 8, 8, "taps of a row of a window", least=1),
        Bits("stride_h", 2, 16, 8, "rows from a window to the one below", least=1),
        Bits("stride_w", 2, 24, 8, "pixels from a window to the next", least=1),
        Bits("dilation_h", 3, 0, 8, "rows from a tap to the one below", least=1),
        Bits("dilation_w", 3, 8, 8, "pixels from a tap to the next", least=1),
        Bits("out_h", 4, 0, 16, "rows of the output", least=1),
        Bits("out_w", 4, 16, 16, "pixels of a row of the output", least=1),
        Bits("group_words", 5, 0, 16, "input channels of one group; all channels of a pool", least=1),
        Bits("groups", 5, 16, 16, "groups; 1 for a pool", least=1),
        Bits("columns", 6, 0, 16, "output channels of one group", least=1),
        Bits("lo", 7, 0, 16, "lower clip bound", signed=True),
        Bits("hi", 7, 16, 16, "upper clip bound", signed=True),
        Bits("in_offset", 8, 0, 32, "first word of the first window; even where words have two bytes"),
        Bits("in_row_bytes", 9, 0, 32, "distance between input rows; even where words have two bytes"),
        Bits("in_pixel_bytes", 10, 0, 32, "distance between input pixels; even where words have two bytes"),
        Bits("out_offset", 11, 0, 32, "first word of the output; even where words have two bytes"),
        Bits("out_row_bytes", 12, 0, 32, "distance between output rows; even where words have two bytes"),
        Bits("out_pixel_bytes", 13, 0, 32, "distance between output pixels; even where words have two bytes"),
        Bits("residual_offset", 14, 0, 32, "first word of the residual; even where words have two bytes"),
        Bits("residual_row_bytes", 15, 0, 32, "distance between rows of the residual; even where words have two bytes"),
        Bits(
            "residual_pixel_bytes",
            16,
            0,
            32,
            "distance between pixels of the residual; even where words have two bytes",
        ),
        Bits(
            "weights",
            17,
            0,
            32,
            "of mode 0, 1, 2, 3: where its weights begin, or DescriptorNoWeights; a pool's pieces at 3",
            count=4,
        ),
        Bits("pool_kernel", 21, 0, 2, "2 or 3: outputs of a GEMM pass a max pool of stride 2 (ADR 51); 0: they do not"),
        Bits("pool_top", 21, 2, 1, "windows of that pool begin a row above the map"),
        Bits("pool_left", 21, 3, 1, "they begin a column left of it"),
        Bits(
            "pool_pitch", 21, 16, 16, "beats from a pixel to the next in the RAM of its maxima, or of the filter's rows"
        ),
        Bits(
            "activation",
            22,
            0,
            3,
            "what the activation unit does with words behind the clip (ADR 69)",
            codes=ACTIVATIONS,
        ),
        Bits("activation_window", 22, 4, 4, "p of a table, 8..15: its segments cover -2**p..2**p - 1; else 0"),
        Bits("activation_shift", 22, 8, 5, "bits that a product of the unit is shifted right"),
        Bits("pieces", 22, 16, 16, "pieces of 32 bits behind its weights, from a multiple of 64 bytes on; 0: none"),
        Bits("activation_lo", 23, 0, 16, "lower clip bound behind the unit", signed=True),
        Bits("activation_hi", 23, 16, 16, "upper clip bound behind the unit", signed=True),
        Bits(
            "filter_kernel",
            24,
            0,
            4,
            "k: outputs of a GEMM pass a depthwise filter of k x k taps (ADR 70); 0: they do not",
            most=7,
        ),
        Bits("filter_stride", 24, 4, 2, "1 or 2, of that filter along both axes; 0 without", most=2),
        Bits("filter_top", 24, 6, 3, "rows above the map that its first windows reach into; below k", most=6),
        Bits("filter_left", 24, 9, 3, "columns left of the map that they reach into; below k", most=6),
        Bits("filter_shift", 24, 12, 6, "bits that a sum of the filter is shifted right", most=47),
        Bits("filter_table", 24, 18, 1, "a table of 258 pieces stands behind the filter"),
        Bits("filter_window", 24, 20, 4, "p of that table, 8..15; else 0"),
        Bits("filter_unit_shift", 24, 24, 5, "bits that a product of that table is shifted right"),
        Bits("filter_lo", 25, 0, 16, "lower clip bound of the filter", signed=True),
        Bits("filter_hi", 25, 16, 16, "upper clip bound of the filter", signed=True),
        Bits("filter_unit_lo", 26, 0, 16, "lower clip bound behind its table", signed=True),
        Bits("filter_unit_hi", 26, 16, 16, "upper clip bound behind its table", signed=True),
        Bits("walk_h", 27, 0, 16, "rows that a filter visits: those of the map, and those that its last windows reach"),
        Bits("walk_w", 27, 16, 16, "columns that it visits"),
        Bits("filter_rows", 28, 0, 16, "rows of its weights, one for each step of each beat of a pixel"),
        Bits(
            "residual_multiplier",
            29,
            0,
            16,
            "factor of a residual where words are int8, instead of `residual_shift`; else 0",
        ),
        Bits("checksum", 31, 0, 32, "CRC-32 (IEEE 802.3) of the 124 bytes before it"),
    ),
    (
        Constant("MAGIC", MAGIC, 32, "word 0 of every descriptor"),
        Constant("CRC_POLYNOMIAL", CRC_POLYNOMIAL, 32, "of the checksum, its bits reflected"),
        Constant(
            "CRC_RESIDUE", CRC_RESIDUE, 32, "what the checksum leaves behind its own bytes, before the last inversion"
        ),
        Constant("NO_WEIGHTS", NO_WEIGHTS, 32, "the FBCB never asks for this mode"),
    ),
)

FBCB = Format(
    "fbcb",
    32,
    "One FBCB word: how a layer runs at one active batch size (ADR 5), as the register FBCB_DATA takes it.",
    (
        Bits("k", 0, 0, 2, "0: k = 1, 1: k = 2, 2: k = 1/2, 3: k = 1 with row lanes", codes=STACKS),
        Bits("b_r", 0, 2, 5, "samples stacked along the rows of a lane, less one"),
        Bits("block", 0, 7, 16, "beats of a row block at most; 0: as many as an accumulator bank holds"),
    ),
)

CORE_COMMAND = Format(
    "core_command",
    128,
    "One beat of the core's command stream: a row block and a column tile (ADR 4).",
    (
        Bits("mode", 0, 0, 4, "what the PE array does", codes=MODES),
        Bits("beats", 0, 4, 16, "beats of a P-tile, or output rows of a pool"),
        Bits("lane1_beats", 0, 20, 16, "beats whose second lane is valid"),
        Bits("p_tiles", 0, 36, 16, "P-tiles, or beats of a row of a pool"),
        Bits("cols", 0, 52, 12, "columns"),
        Bits("shift", 0, 64, 6, "bits that an accumulator is shifted right"),
        Bits("residual_shift", 0, 70, 5, "bits that a residual is shifted left"),
        Bits("has_residual", 0, 75, 1, "residual beats come with it"),
        Bits("last", 0, 76, 1, "last command of a layer"),
        Bits("lo", 0, 77, 16, "lower clip bound", signed=True),
        Bits("hi", 0, 93, 16, "upper clip bound", signed=True),
        Bits("residual_multiplier", 0, 109, 16, "factor of a residual where words are int8; else 0"),
    ),
)

# Between the modules of the data plane only.
LAYER = _bundle(
    "layer",
    "A layer as it runs: fields of its descriptor, the plan of the FBCB, and what follows from both. Offsets, steps and shifts "
    "are bytes. From `row_bytes` to `tap_h`: the input rows that windows touch, and their places in the input buffer.",
    (
        ("pool", 1, "not a GEMM"),
        ("mode", 4, "of every command"),
        ("row_lanes", 1, "neighbouring rows share a beat"),
        ("sample_lanes", 1, "samples i and i + b_r share a beat"),
        ("b_r", 5, "samples of lane 0"),
        ("block", 16, "largest number of beats of a row block"),
        ("has_residual", 1, "a residual is added before clipping"),
        ("multiplies", 1, "a residual is a factor of the activation unit"),
        ("shift", 6, "bits that an accumulator is shifted right"),
        ("residual_shift", 5, "bits that a residual is shifted left"),
        ("residual_multiplier", 16, "factor of a residual where words are int8; else 0"),
        ("lo", 16, "lower clip bound"),
        ("hi", 16, "upper clip bound"),
        ("kernel_h", 8, "rows of a window"),
        ("kernel_w", 8, "taps of a row of a window"),
        ("out_h", 16, "rows of the output"),
        ("out_w", 16, "pixels of a row of the output"),
        ("group_words", 16, "input channels of one group"),
        ("groups", 16, "groups"),
        ("columns", 16, "output channels of one group"),
        ("in_offset", 32, "first word of the first window"),
        ("out_offset", 32, "first word of the output"),
        ("out_row", 32, "between output rows"),
        ("out_pixel", 32, "between output pixels"),
        ("residual_offset", 32, "first word of the residual"),
        ("residual_row", 32, "between rows of the residual"),
        ("residual_pixel", 32, "between pixels of the residual"),
        ("residual_spread", 1, "the residual has one word a pixel, for all of its channels"),
        ("step_w", 32, "between windows side by side"),
        ("tap_w", 32, "between taps side by side"),
        ("row_bytes", 32, "of an input row, from its first window's first word to its last window's last"),
        ("row_step", 32, "between input rows in memory"),
        ("sample_rows", 24, "input rows of a sample"),
        ("rise", 24, "input rows from a window to the one below"),
        ("span", 24, "input rows of a window"),
        ("pitch", 32, "in the buffer: from row to row"),
        ("sample_pitch", 32, "in the buffer: from sample to sample"),
        ("step_h", 32, "in the buffer: from a window to the one below"),
        ("tap_h", 32, "in the buffer: from a tap to the one below"),
        ("contiguous", 1, "a kernel row is one run of words"),
        ("run_words", 24, "words of a run: a kernel row or a tap"),
        ("p_tiles", 16, "P-tiles, or beats of a row of a pool"),
        ("beats0", 32, "rows of lane 0 in the whole layer"),
        ("beats1", 32, "rows of lane 1 in the whole layer"),
        ("pool_kernel", 2, "of the max pool that outputs pass; 0: none"),
        ("pool_top", 1, "its windows begin a row above the map"),
        ("pool_left", 1, "they begin a column left of it"),
        ("pool_pitch", 16, "beats from a pixel to the next in the RAM of its maxima, or of the filter's rows"),
        ("merged", 1, "the layer before has computed it"),
        ("activation", 3, "what the activation unit does"),
        ("activation_window", 4, "p of a table"),
        ("activation_shift", 5, "bits that a product of the unit is shifted right"),
        ("activation_lo", 16, "lower clip bound behind the unit"),
        ("activation_hi", 16, "upper clip bound behind the unit"),
        ("pieces", 16, "pieces of 32 bits; 0: none"),
        ("filter_kernel", 4, "k of the depthwise filter that outputs pass; 0: none"),
        ("filter_stride", 2, "of its windows, 1 or 2"),
        ("filter_top", 3, "rows above the map that its first windows reach into"),
        ("filter_left", 3, "columns left of the map that they reach into"),
        ("filter_steps", 3, "cycles that a window takes: ceil(k * k / 9)"),
        ("filter_shift", 6, "bits that its sum is shifted right"),
        ("filter_lo", 16, "lower clip bound of the filter"),
        ("filter_hi", 16, "upper clip bound of the filter"),
        ("filter_table", 1, "a table stands behind it"),
        ("filter_window", 4, "p of that table"),
        ("filter_unit_shift", 5, "bits that a product of that table is shifted right"),
        ("filter_unit_lo", 16, "lower clip bound behind that table"),
        ("filter_unit_hi", 16, "upper clip bound behind that table"),
        ("filter_rows", 16, "rows of its weights"),
        ("walk_h", 16, "rows that a filter visits"),
        ("walk_w", 16, "columns that it visits"),
        (
            "piece_address",
            32,
            "offset of its constants in the weight image: pieces, filter weights, the filter's table",
        ),
        ("weights", 32, "offset in the weight image"),
        ("block_words", 32, "words of the weight stream of one row block"),
    ),
    codes={"mode": MODES, "activation": ACTIVATIONS},
    signed=("lo", "hi", "activation_lo", "activation_hi", "filter_lo", "filter_hi", "filter_unit_lo", "filter_unit_hi"),
)

TILE = _bundle(
    "tile",
    "A command inside the data plane: a row block and a column tile of a group. Shifts are bytes.",
    (
        ("beats", 16, "rows of lane 0"),
        ("lane1_beats", 16, "rows of lane 1"),
        ("cols", 12, "columns"),
        ("in_shift", 32, "of the group's first input channel, or of a pool's first channel"),
        ("out_shift", 32, "of the first output channel"),
        ("block_first", 1, "first command of its row block"),
        ("block_last", 1, "last command of its row block"),
        ("layer_last", 1, "last command of its layer"),
    ),
    codes={},
)

PLAN = _bundle(
    "plan",
    "How a layer runs at the active batch size: what the engine reads out of an FBCB word.",
    (
        ("bad", 1, "this NPU cannot obey the word, and the rest says nothing"),
        ("mode", 4, "of every command; not of a pool"),
        ("row_lanes", 1, "neighbouring rows share a beat"),
        ("b_r", 5, "samples of lane 0"),
        ("block", 16, "largest number of beats of a row block"),
    ),
    codes={"mode": MODES},
)

SETTINGS = _bundle(
    "settings",
    "What the registers say of a job.",
    (
        ("first_layer", 16, "the first to run"),
        ("last_layer", 16, "the last to run"),
        ("layers", 16, "of the program"),
        ("program_base", 64, "where the program begins"),
        ("weights_base", 64, "where the weight image begins"),
        ("slot_base", 64, "where the first slot begins"),
        ("slot_bytes", 32, "from slot to slot"),
    ),
    codes={},
)

CONTROL = _bundle(
    "control",
    "Commands of the host, each a pulse of one cycle.",
    (
        ("start", 1, "runs a job"),
        ("exit", 1, "slots of the mask leave the active set"),
        ("merge", 1, "slots of the mask join it"),
        ("soft_reset", 1, "drops the job and empties the active set"),
    ),
    codes={},
)

FBCB_WRITE = _bundle(
    "fbcb_write",
    "A write of the FBCB; without one the index says which word is read back.",
    (("valid", 1, "a word is written"), ("index", 32, "which"), ("word", 32, "what")),
    codes={},
)

BATCH = _bundle(
    "batch",
    "The active set.",
    (("active", 32, "a bit a slot"), ("b_act", 5, "how many they are")),
    codes={},
)

PROGRESS = _bundle(
    "progress",
    "What the registers see of a job.",
    (
        ("busy", 1, "a job runs, or what is left of one is dropped"),
        ("done", 1, "it ends well; a pulse"),
        ("start_refused", 1, "START is refused, in its cycle"),
        ("layer", 16, "that runs or ran last"),
    ),
    codes={},
)

FAULT = _bundle(
    "fault", "Something is wrong.", (("valid", 1, "it is"), ("cause", 8, "what, as ERROR tells it")), codes={}
)

SEGMENT_PARTS = _bundle(
    "parts",
    "Where a segment, a run of words in the input buffer, lies: the parts of its address, which are added on the way there.",
    (
        ("ends_beat", 1, "it is the last of its beat"),
        ("lane", 1, "of the buffer"),
        ("top", 24, "first input row of the window, counted through the lane"),
        ("word", 24, "in the tap"),
        ("column_reach", 32, "of the tap in its row of the window"),
        ("row_reach", 32, "of that row in the window"),
        ("offset", 32, "of the window in the sample"),
        ("base", 32, "of the sample in the lane's part of the buffer"),
    ),
    codes={},
)

SEGMENT = _bundle(
    "segment",
    "A segment as the input buffer takes it.",
    (
        ("ends_beat", 1, "it is the last of its beat"),
        ("rows", 24, "input rows of the lane that must be loaded"),
        ("lane", 1, "of the buffer"),
        ("addr", 32, "its first byte in the lane's part of the buffer"),
    ),
    codes={},
)

STEPS = _bundle(
    "steps",
    "How far it is from row to row of a walk through a map: bytes, or input rows.",
    (
        ("span", 24, "input rows from a sample's last window to the next sample's first"),
        ("rise", 24, "input rows from the first of a window to that of the next below"),
        ("step_w", 32, "from pixel to pixel"),
        ("step_h", 32, "from row to row"),
    ),
    codes={},
)

PASS = _bundle(
    "pass",
    "One walk through the rows of a row block.",
    (
        ("commit", 1, "the next pass begins behind this one"),
        ("shift", 32, "bytes added to the place of each row"),
        ("lane1_beats", 16, "rows of lane 1"),
        ("beats", 16, "rows of lane 0"),
    ),
    codes={},
)

WALKED = _bundle(
    "walked",
    "A row of a walk.",
    (
        ("ends_pass", 1, "it is the last of its pass"),
        ("top", 24, "first input row of its window, counted through a lane"),
        ("offset", 32, "its place in the sample, in bytes"),
    ),
    codes={},
)

FORMATS = (
    *(DESCRIPTOR, FBCB, CORE_COMMAND, LAYER, TILE),
    *(PLAN, SETTINGS, CONTROL, FBCB_WRITE, BATCH, PROGRESS, FAULT),
    *(SEGMENT_PARTS, SEGMENT, STEPS, PASS, WALKED),
)
