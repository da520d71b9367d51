"""`Design` is a file format: it reads back what it wrote and refuses files that were changed by hand."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from dse_strategies import designs
from hypothesis import HealthCheck, given, settings
from waiting import PATIENCE_S

from fluidnpu.dse import BatchPlan, Design, DesignError, LatencyTable
from fluidnpu.dse.design import B_MAX_LIMIT, Stack
from fluidnpu.dse.testing import tiny_design
from fluidnpu.models import Workload


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(designs())
def test_json_round_trip(design: Design) -> None:
    text = design.dumps()
    again = Design.loads(text)
    assert again == design
    assert again.digest == design.digest
    assert again.dumps() == text


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(designs())
def test_the_digest_sees_every_change(design: Design) -> None:
    assert replace(design, clock_hz=design.clock_hz + 1).digest != design.digest
    assert replace(design, published_t_r=design.published_t_r + 1).digest != design.digest


def test_a_file_changed_by_hand_is_refused() -> None:
    raw = json.loads(tiny_design().dumps())
    raw["t_r"] = 32
    with pytest.raises(DesignError, match="changed by hand"):
        Design.loads(json.dumps(raw))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be JSON"),
        ("[]", "not 'list'"),
        ('{"schema": 99}', "make it again with `fluidnpu dse`"),
        ('{"schema": 3}', "missing or unknown"),
    ],
)
def test_broken_files_end_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(DesignError, match=says) as caught:
        Design.loads(text, source="mine.json")
    assert "mine.json" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"t_p": 0}, "t_p must be a whole number"),
        ({"port_bits": 48}, "port_bits must be a power of two"),
        ({"port_bits": "wide"}, "port_bits must be a whole number of at least 1, not 'wide'"),
        ({"t_r": 2.5}, "t_r must be a whole number"),
        ({"b_max": B_MAX_LIMIT + 1}, "b_max must lie in"),
        ({"model": "guess"}, "'paper', 'exact' or 'measured'"),
        ({"acc_bits": 16}, "acc_bits"),
        ({"activation": "luts"}, "activation must be 'lut', 'dsp' or none, not 'luts'"),
        ({"t_c": 1}, "t_c must be at least 2"),
        ({"split": True, "t_p": 3}, "t_p must be even"),
        ({"plans": ()}, "one row for each"),
        ({"exit_rates": (0.5, float("nan"))}, "exit_rates must be 2 shares of 0..1"),
        ({"exit_rates": (1.0,)}, "exit_rates must be 2 shares of 0..1"),
        ({"latency": LatencyTable(ns=((1, 2, 3, 4),))}, "2 stages by 4"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(DesignError, match=says):
        tiny_design().changed(**change)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (BatchPlan(b_r=2), "b_r must lie in 1..1"),
        (BatchPlan(k=Stack.HALF), "split trees"),
        (BatchPlan(k=Stack.TWO, row_lanes=True), "row lanes need k = 1"),
    ],
)
def test_plans_must_be_possible(plan: BatchPlan, says: str) -> None:
    design = tiny_design()
    first = (plan, *design.plans[0][1:])
    with pytest.raises(DesignError, match=says):
        replace(design, plans=(first, *design.plans[1:]))


def test_importing_dse_needs_numpy_and_nothing_heavier() -> None:
    code = "import fluidnpu.dse, sys; print(sorted({'scipy', 'torch', 'matplotlib', 'pynq'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert out.stdout.strip() == "[]"


def test_input_beats_follow_the_ports() -> None:
    design = tiny_design()
    assert design.changed(port_bits=512).array == replace(design.array, in_words=32)
    with pytest.raises(DesignError, match="in_words must be 32 behind ports of 512 bits, not 8"):
        replace(design, port_bits=512)


def test_a_file_of_before_the_array_was_a_record_reads() -> None:
    """The fields of the array stand beside the others in the file, and the digest is that of version 0.1.

    Then a workload's digest took its name and exit rates in, too.
    """
    design = tiny_design()
    raw = json.loads(design.dumps())
    assert "array" not in raw
    assert {"t_r", "t_p", "t_c", "stackable", "split", "weight_slots", "out_words"} < set(raw)
    older = replace(design, workload_digest="804c8d0c04e3b8b5f9d59e94067337c03a310a15e734907336b813390fd56055")
    assert older.digest == "a1c2b87c07418617f35d0a85d913a589e46e5c6793c1a3aa2987fecb9661faad"


def test_a_design_without_a_unit_says_nothing_of_it() -> None:
    """So its digest and the parameters of its RTL are those of earlier versions."""
    design = tiny_design()
    assert "activation" not in json.loads(design.dumps())
    assert not [name for name in design.rtl_parameters() if name.startswith("Activation")]
    unit = replace(design, activation="lut")
    assert unit.digest != design.digest
    assert Design.loads(unit.dumps()) == unit
    assert unit.rtl_parameters() == design.rtl_parameters() | {"Activation": 1, "ActivationDsp": 0}
    with pytest.raises(DesignError, match="differ in activation"):
        Design.joined([design, replace(unit, network="other")])


def test_a_design_belongs_to_layers_and_exits() -> None:
    """Names and exit rates of the network have no part in it; older designs carry another workload's
    digest.
    """
    work = Workload(name="w", layers=tiny_design().layers, exits=tiny_design().exits)
    design = replace(tiny_design(), workload_digest="of an older formula")
    assert design.matches(work)
    assert design.matches(replace(work, name="another", exit_rates=(1 / len(work.exits),) * len(work.exits)))
    assert replace(work, name="another").digest == work.digest
    renamed = tuple(f"{name}x" for name in work.exits)
    assert not design.matches(replace(work, exits=renamed))
    assert not design.matches(replace(work, layers=(replace(work.layers[0], c=work.layers[0].c + 1), *work.layers[1:])))
    assert replace(work, exits=renamed).digest != work.digest
