"""A bench with the array that it plays: by default, by parameters given by hand, or by a design.

>>> ready = setup("fluidnpu_planner", {"TP": 4})
>>> ready.model.parameters["TP"], ready.model.parameters["TC"], json.loads(ready.env["SIZES"])["t_p"]
(4, 8, 4)
>>> setup("common_fifo", {"Dept": 3})
Traceback (most recent call last):
fluidnpu.rtl_tb.errors.ParameterError: a parameter of common_fifo must be one of Width, Depth, Shown, not Dept
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from fluidnpu.dse import Design, DseError

from ..common.sources import sources, texts_of
from ..data_plane.parameters import DATA_PLANE_TOP, data_plane_parameters
from ..errors import ParameterError
from .model import RtlModel
from .units import FREE, UNITS, WHOLE, met_in

LAYERS = 4  # of the programs that the data plane's bench plays
_KEPT = {"Layers", "BuildId", "Sets"}  # no matter of the array, or a buffer too large for a bench to fill


@dataclass(frozen=True, kw_only=True)
class BenchSetup:
    """A model and the environment that tells its bench which array to play."""

    model: RtlModel
    env: Mapping[str, str] = field(default_factory=dict)


def parameters_of(top: str) -> list[str]:
    """Names of a top's parameters.

    >>> parameters_of("common_fifo")
    ['Width', 'Depth', 'Shown']
    """
    text = {**sources(), **texts_of("benches")}[f"{top}.sv"]
    return re.findall(r"^\s*parameter\s+(?:\w+\s+)*(\w+)\s*=", text, re.M)


def tests_of(top: str) -> list[str]:
    """Names of the tests in a top's bench.

    >>> tests_of("common_fifo")
    ['it_is_a_queue']
    """
    return re.findall(r"@(?:bench|cocotb\.test)\([^\n]*\)\nasync def (\w+)", texts_of("benches", ".py")[f"{top}.py"])


def known_top(name: str) -> str:
    """Return a top's name. Raises ParameterError with the nearest one when it has no bench."""
    if name in UNITS or name in WHOLE:
        return name
    elsewhere = met_in(name) if f"{name}.sv" in sources() else None
    if elsewhere:
        raise ParameterError(
            f"a module must have a bench of its own to be run, and {name} is met in that of {elsewhere}"
        )
    near = get_close_matches(name, [*UNITS, *WHOLE], 1)
    hint = f"did you mean {near[0]}?" if near else "--list shows them"
    raise ParameterError(f"MODULE must be a module with a bench, not '{name}' ({hint})")


def setup(
    top: str, given: Mapping[str, int] | None = None, design: Design | None = None, *, waves: bool = False
) -> BenchSetup:
    """Prepare the bench of a top.

    `given` are parameters of the top by name. They change the array that the bench plays, too: the default
    one, or the one of `design`. Raises ParameterError.
    """
    from ..data_plane.environment.jobs import PARAMETER_OF, USUAL, bench_design, of_words, sizes_of

    top, given = known_top(top), dict(given or {})
    of_top = parameters_of(top)
    for name in given:
        if name not in of_top:
            raise ParameterError(f"a parameter of {top} must be one of {', '.join(of_top)}, not {name}")
    usual = UNITS.get(top, {})
    if top in FREE:
        of_design = _follows(of_top, design, design.stripes) if design is not None else {}
        if design is not None and not of_design:
            raise ParameterError(f"{top} must be run with parameters by hand: a design says nothing of them")
        return BenchSetup(model=RtlModel(top=top, parameters={**usual, **of_design, **given}, waves=waves))
    # A module that plays layers plays those of the array that fits its parameters.
    sizes = {**USUAL, **WHOLE.get(top, {}), **_sizes(usual, PARAMETER_OF)}
    if design is not None:
        sizes = sizes_of(design)
    sizes |= _sizes(given, PARAMETER_OF)
    try:
        array = bench_design(sizes := {**of_words(sizes), **_sizes(given, PARAMETER_OF)})
    except DseError as error:
        raise ParameterError(f"the parameters must describe an array: {error}") from None
    parameters = _parameters(top, array) if top in WHOLE else {**usual, **_follows(of_top, array)}
    for name, value in given.items():
        if parameters.get(name, value) != value and name not in _KEPT:
            raise ParameterError(f"{name} of {top} must be {parameters[name]} with the other parameters, not {value}")
    env = {"SIZES": json.dumps(sizes)}
    if top == "fluidnpu_core":  # its bench has designs of its own
        fields = {**sizes, "port_bits": 8 * sizes["port_bytes"]}
        env["DESIGN"] = json.dumps({name: value for name, value in fields.items() if name != "port_bytes"})
    return BenchSetup(model=RtlModel(top=top, parameters={**parameters, **given}, waves=waves), env=env)


def _sizes(parameters: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    sizes = {names[name]: value for name, value in parameters.items() if name in names}
    if "PortWords" in parameters:
        sizes["port_bytes"] = parameters["PortWords"] * parameters.get("WordBits", 16) // 8
    return sizes


def _parameters(top: str, array: Design) -> dict[str, int]:
    """Parameters of a top that holds a whole array."""
    if top == DATA_PLANE_TOP:
        return data_plane_parameters(array, stripes=1) | {"Layers": LAYERS, "BuildId": 0}
    numbers = array.rtl_parameters()
    return {name: numbers[name] for name in parameters_of(top) if name in numbers}


def _follows(parameters: list[str], array: Design, stripes: int = 1) -> dict[str, int]:
    """Parameters of a module that follow from an array."""
    all_of = array.rtl_parameters() | {"PortWords": array.port_bytes // array.word_bytes, "BeatWords": array.out_words}
    all_of["WordBits"] = array.word_bits
    all_of["CountWidth"] = array.input_words.bit_length()  # of words in a beat, from none to all
    all_of |= {"DataBytes": array.port_bytes} | ({"Ports": stripes} if stripes > 1 else {})
    return {name: all_of[name] for name in parameters if name in all_of and name not in _KEPT}
