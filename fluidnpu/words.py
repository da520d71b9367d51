"""The words of our tables, one sentence each: `--explain` prints those of a screen, the glossary all."""

from __future__ import annotations

from collections.abc import Iterable

WORDS = {
    "accuracy": "share of right answers; requests that were shed have no part in it",
    "array": "<T_R, T_P, T_C>: T_C processing elements of T_P multipliers each, and results of up to T_R rows beside them",
    "average ms": "mean time from a request's arrival to its answer",
    "batch": "images that run through the network together",
    "board": "the board whose resources, clock and memory the design is for",
    "built": "GOP/s of the design to build, by its own cycle model",
    "busy MAC eff.": "multiply-accumulates done over those that the array could do while it runs",
    "compute": "share of the cycles that the network would need if every multiplier always worked",
    "difference": "GOP/s of the built design over those of the published one",
    "DSP": "multipliers of the device that the array takes",
    "early": "share of requests answered with an exit they had passed, since the next was too far to be in time",
    "equal to golden": "answers that are those of the golden model, which defines every bit",
    "exit": "a place where a sure answer may leave the network before its end",
    "blocks": "the piece of a network that a job runs, from its first block to its last",
    "cost an hour": "sum of the costs that the fleet file gives its devices",
    "devices": "boards and CPU workers that a plan uses",
    "entering/s": "samples a second that enter the job, over all devices of its pool",
    "FBCB": "Fluid Batching Control Block: the table in the hardware that holds a plan for each layer and batch size",
    "form": "a way to spread a network over devices; each wider form contains the one before",
    "frames/s": "images a second, batch after batch, each through the whole network (nobody leaves early)",
    "GOP/s": "thousand million operations a second; a multiply-accumulate is two",
    "lanes": "two rows of an image side by side in the array, each on half of its processing elements",
    "limited by": "the largest of compute, tiles and memory: what to change first for more frames",
    "allocation": "which networks are on which device, in which batches: that of the plan, then others",
    "device: network x batch": "the networks of each device with their batches",
    "measured/s": "samples of the ensemble a second that simulated NPUs took for a finite set of them, links left out",
    "by shares/s": "the most that any shares of the devices' time can carry with the same batches",
    "longest ms": "planned time of a sample at the most, queues of bunched arrivals left out",
    "mean batch": "mean number of requests in a run of the NPU",
    "memory": "share of the cycles in which the array waits for inputs, weights or outputs, or is set up",
    "MMAC": "million multiply-accumulates of one sample up to there",
    "ms a batch": "time from the first cycle of a batch to its last",
    "NPU busy": "share of the time in which the NPU runs at all",
    "NPU": "share of the time that the NPU worked for this tenant, by its samples in each batch",
    "p99 ms": "99 of 100 requests are answered within this time",
    "points lost": "points of accuracy that requests lose by leaving earlier than the exit rule says",
    "policy": "the rule that decides which requests run next, and in which batch",
    "network": "the network that a job runs, or a part of it",
    "pool": "devices of one type with the same jobs",
    "predicted": "what our models said before the tools ran",
    "published": "the best point of the published (paper) model, which counts no RAM blocks and no waiting",
    "RAM": "block RAM (and UltraRAM) of the device that banks, buffers and tables take",
    "ramps": "exits that a job runs: on (all inside), last (the last one inside) or none (the network's end only)",
    "rate": "share of samples that leave at this exit",
    "ratio": "reported over predicted",
    "reported": "what the vendor's tools reported of the built project",
    "requests/s": "requests a second that the plan carries, its headroom taken off",
    "row block B_R": "samples (or rows) that pass through the array before its weights change",
    "shed": "share of requests refused, since they could not be in time",
    "SLO missed": "share of requests answered after their objective, or shed",
    "share": "part of the whole network's multiply-accumulates; in a plan, part of a device's time",
    "tenant's share": "part of the NPU's time that the tenant is guaranteed while it has work",
    "threshold": "confidence above which a sample leaves at this exit; the last exit takes the rest",
    "tenant": "an application that shares the NPU; (others) are requests that name none",
    "tiles": "share of the cycles lost since layers do not fill the array, as depthwise layers and thin ones do not",
    "type": "a design on a board with a memory, or a CPU that was measured",
    "unstable": "requests come faster than they are served, so the backlog and every latency grow with the run",
}  # fmt: skip
ALIASES = {
    "busy MAC eff. %": "busy MAC eff.",
    "NPU %": "NPU",
    "NPU busy %": "NPU busy",
    "share %": "tenant's share",
    "violations %": "SLO missed",
    "early %": "early",
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


def explained(words: Iterable[str]) -> list[tuple[str, str]]:
    """Give words and their sentences. Raises KeyError for a word without one."""
    return [(word, meaning(word)) for word in words]
