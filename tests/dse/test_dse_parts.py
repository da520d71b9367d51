"""Designs for several networks: joined and taken apart again, one NPU, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import Design, DesignError
from fluidnpu.dse.testing import design_for
from fluidnpu.models.zoo import random_network

SEEDS = st.lists(st.integers(0, 40), min_size=2, max_size=3, unique=True)


def design_of(seed: int, exits: int = 2, rates: bool = False, **options: int | str | None) -> Design:
    work = random_network(seed, exits=exits).workload
    share = (1 / exits,) * exits if rates else None
    return dataclasses.replace(design_for(work, **options), network=f"n{seed}", exit_rates=share)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(SEEDS, st.lists(st.booleans(), min_size=3, max_size=3), st.booleans(), st.sampled_from([None, "lut", "dsp"]))
def test_parts_of_a_joined_design_are_the_designs_on_one_npu(
    seeds: list[int], rated: list[bool], join: bool, unit: str | None
) -> None:
    designs = [design_of(seed, 1 + index, rated[index], activation=unit) for index, seed in enumerate(seeds)]
    if join:  # groups that are computed as one belong to a layer, not to the NPU
        designs[0] = dataclasses.replace(designs[0], joins=tuple(layer.groups for layer in designs[0].layers))
    whole = Design.joined(designs)
    assert Design.loads(whole.dumps()) == whole
    assert whole.rtl_parameters()["Layers"] == sum(len(one.layers) for one in designs)
    for index, one in enumerate(designs):
        part = whole.part(index)
        assert dataclasses.replace(part, hardware=None) == one
        assert part.hardware_digest == whole.digest != part.digest
        assert part.rtl_parameters() == whole.rtl_parameters()
        assert Design.loads(part.dumps()) == part
        assert part.matches(random_network(seeds[index], exits=1 + index).workload)
        assert whole.part_for(random_network(seeds[index], exits=1 + index).workload) == part
    parts = [whole.part(index) for index in range(len(designs))]
    again = Design.joined(parts)
    assert again.hardware_digest == whole.digest  # the bundles of all networks make the same NPU again
    assert [again.part(index) for index in range(len(parts))] == parts
    assert whole.part_for(random_network(41, exits=2).workload) is None


def test_files_of_one_network_are_as_before() -> None:
    one = design_of(3)
    assert not {"parts", "hardware"} & set(one.to_dict())
    assert one.hardware_digest == one.digest
    assert one.part_for(random_network(3, exits=2).workload) == one
    assert Design.joined([one]) is one


def test_networks_that_do_not_fit_one_npu_are_refused() -> None:
    a, b = design_of(1), design_of(2)
    with pytest.raises(DesignError, match="of 'n1' and 'n2' differ in b_max"):
        Design.joined([a, design_of(2, b_max=2)])
    with pytest.raises(DesignError, match="differ in hardware"):
        Design.joined([a, Design.joined([a, b]).part(1)])
    with pytest.raises(DesignError, match="two are called 'n1'"):
        Design.joined([a, design_of(1, exits=3)])
    whole = Design.joined([a, b])
    with pytest.raises(DesignError, match="must be two or more with"):
        dataclasses.replace(whole, parts=whole.parts[:1])
    part = whole.part(0)
    assert part.hardware is not None
    with pytest.raises(DesignError, match="must have room for"):
        dataclasses.replace(part, hardware=dataclasses.replace(part.hardware, layers=1))
