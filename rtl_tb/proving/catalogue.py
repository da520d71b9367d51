"""The proofs of all subjects, read from their `proofs/*.toml`.

A file names the RTL under proof (`reads`), the `harness` around it and the bugs (`[[seed]]`) that the proof
must find; its keys are the fields of `Proof` and `Seed`. A contract in `harness` replaces a module that has a
proof of its own. `python -m fluidnpu.rtl_tb.proving.report` runs them all.

>>> PROOFS["engine"].top
'engine_proof'
"""

from __future__ import annotations

import sys
from typing import Any

from ..common.sources import texts_of
from .prover import Proof, Seed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_proof(text: str) -> Proof:
    r"""Build one proof from its TOML.

    >>> read_proof('''says = "a"\ntop = "m"\nreads = ["m.sv"]\ndepth = 2''').reads
    ('m.sv',)
    """
    values: dict[str, Any] = tomllib.loads(text)
    seeds = tuple(Seed(**seed) for seed in values.pop("seed", []))
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    return Proof(**fields, seeds=seeds)


PROOFS: dict[str, Proof] = {
    name.removesuffix(".toml"): read_proof(text) for name, text in texts_of("proofs", ".toml").items()
}
