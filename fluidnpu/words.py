"""The words of our tables, one sentence each: `--explain` prints those of a screen, the glossary all.

Words that are quantities stand in `quantities.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .quantities import QUANTITIES

_NAMES = {
    "array": "<T_R, T_P, T_C>: T_C processing elements of T_P multipliers each, and results of up to T_R rows beside them",
    "batch": "images that run through the network together",
    "board": "the board whose resources, clock and memory the design is for",
    "built": "GOP/s of the design to build, by its own cycle model",
    "DSP": "multipliers of the device that the array takes",
    "equal to golden": "answers that are those of the golden model, which defines every bit",
    "exit": "a place where a sure answer may leave the network before its end",
    "blocks": "the part of a network that a job runs, from its first block to its last",
    "devices": "boards and CPU workers that a plan uses",
    "entering/s": "samples a second that enter the job, over all devices of its pool",
    "FBCB": "Fluid Batching Control Block: the table in the hardware that holds a plan for each layer and batch size",
    "form": "a way to spread a network over devices; each wider form contains the one before",
    "lanes": "two rows of an image side by side in the array, each on half of its processing elements",
    "limited by": "the largest of compute, tiles and memory: what to change first for more frames",
    "allocation": "which networks are on which device, in which batches: that of the plan, then others",
    "device: network x batch": "the networks of each device with their batches",
    "by shares/s": "the most that any shares of the devices' time can carry with the same batches",
    "NPU": "share of the time that the NPU worked for this tenant, by its samples in each batch",
    "policy": "the rule that decides which requests run next, and in which batch",
    "network": "the network that a job runs, or a part of it",
    "pool": "devices of one type with the same jobs",
    "predicted": "what our models said before the tools ran",
    "published": "GOP/s of the published design by the paper model, which counts no RAM blocks and no waiting",
    "RAM": "block RAM (and UltraRAM) of the device that banks, buffers and tables take",
    "ramps": "exits that a job runs: on (all inside), last (the last one inside) or none (the network's end only)",
    "ratio": "reported over predicted",
    "reported": "what the vendor's tools reported of the built project",
    "row block B_R": "samples (or rows) that pass through the array before its weights change",
    "tenant's share": "part of the NPU's time that the tenant is guaranteed while it has work",
    "tenant": "an application that shares the NPU; (others) are requests that name none",
    "type": "a design on a board with a memory, or a CPU that was measured",
    "unstable": "requests come faster than they are served, so the backlog and every latency grow with the run",
}  # fmt: skip
WORDS = dict(
    sorted(
        {**_NAMES, **{word: row.meaning for word, row in QUANTITIES.items()}}.items(), key=lambda row: row[0].lower()
    )
)
ALIASES = {
    "busy MAC eff. %": "busy MAC eff.",
    "NPU %": "NPU",
    "NPU busy %": "NPU busy",
    "share %": "tenant's share",
    "violations %": "SLO missed",
    "anytime %": "anytime",
    "shed %": "shed",
    "accuracy %": "accuracy",
    "BRAM": "RAM",
    "URAM": "RAM",
    "frames/s, B = 1": "frames/s",
    "ms, B = 1": "ms a batch",
}  # a column, and the word that explains it


def meaning(word: str) -> str:
    """Give the sentence of a column's head. Raises KeyError for a word without one.

    >>> meaning("shed %") == meaning("shed")
    True
    """
    return WORDS[ALIASES.get(word, word)]


def explain_words(words: Iterable[str]) -> list[tuple[str, str]]:
    """Give words and their sentences. Raises KeyError for a word without one."""
    return [(word, meaning(word)) for word in words]
