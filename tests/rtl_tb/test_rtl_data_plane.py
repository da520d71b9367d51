import json
from dataclasses import replace

import pytest
from needs import needs_libpython

from fluidnpu.rtl_tb import ParameterError
from fluidnpu.rtl_tb.data_plane import coverage
from fluidnpu.rtl_tb.data_plane.environment.jobs import bench_design
from fluidnpu.rtl_tb.data_plane.parameters import DATA_PLANE_TOP, data_plane_parameters
from fluidnpu.rtl_tb.simulation.model import RtlModel, run, run_folder

LAYERS = 4
SMALL = {"t_r": 16, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4,
         "activation": 1, "filter": 5, "filter_table": 1}  # fmt: skip
MORE = {
    "split": SMALL | {"split": 1, "weight_slots": 2, "activation_dsp": 1},
    "zc706": SMALL | {"t_p": 7, "t_c": 10, "t_r": 9, "b_max": 8, "weight_slots": 3, "out_words": 8},
    "plain": SMALL | {"t_p": 3, "t_c": 5, "t_r": 5, "stackable": 0, "out_words": 3, "activation": 0, "filter": 0},
    "wide_pools": SMALL | {"t_p": 3, "t_c": 6},
    "filter alone": SMALL | {"t_p": 5, "activation": 0, "filter": 7, "filter_table": 0},
    "wide": SMALL | {"t_p": 13, "t_c": 12, "t_r": 40, "b_max": 16, "weight_slots": 2, "out_words": 16},
    "bytes": SMALL | {"t_p": 9, "t_c": 12, "t_r": 9, "b_max": 8, "weight_slots": 2, "out_words": 5, "word_bits": 8},
}


def setup(sizes: dict[str, int], programs: int = 2, **ports: int) -> tuple[RtlModel, dict[str, str]]:
    sizes = sizes | ports
    parameters = data_plane_parameters(bench_design(sizes)) | {"Layers": LAYERS, "BuildId": 0}
    env = {"SIZES": json.dumps(sizes), "PROGRAMS": str(programs)}
    return RtlModel(top=DATA_PLANE_TOP, parameters=parameters), env


def bench(sizes: dict[str, int], tests: str | None, seed: int = 1, programs: int = 2, **ports: int) -> list[str]:
    model, env = setup(sizes, programs, **ports)
    return run(model, tests=tests, seed=seed, env=env)


@needs_libpython
def test_data_plane() -> None:
    assert len(bench(SMALL, "one_plain|random_layers|refused|watchdog", programs=1)) == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.matrix), pytest.param(3, marks=pytest.mark.matrix)]
)
def test_bus_models_of_others_agree(seed: int) -> None:
    model, env = setup(SMALL)
    assert run(model, "foreign_bus", seed=seed, env=env) == ["another_bus_agrees"]


# What is wrong together is told together: an elaboration for each set, and a sentence for each fault in it.
WRONG: list[tuple[dict[str, int], list[str]]] = [
    (
        {"BMax": 17, "AccBits": 49, "TR": 65536, "MaxBurst": 257, "Sets": 3, "LineWords": 12},
        [
            "BMax must lie in 1..16", "AccBits must lie in 32..48", "TR must lie in 1..65535", "MaxBurst must lie in 1..256",
            "Sets must be a power of two", "LineWords must be a power of two",
        ],
    ),
    ({"OutWords": 0, "Layers": 0}, ["OutWords must be at least 1", "Layers must lie in 1..65535"]),
    ({"TP": 2, "InWords": 4, "PortBytes": 12}, ["TP must be at least 3", "DataBytes must be a power of two"]),
    ({"InWords": 4}, ["InWords must be at least 2"]),
    (
        {"PortBytes": 128, "LineWords": 64, "QueueBeats": 4},
        ["a port has at most 64 bytes", "MaxBurst must lie in 1..256 and fit the queue"],
    ),
    ({"TP": 9, "InWords": 18}, ["LineWords must be at least InWords"]),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "sentences"), WRONG, ids=["-".join(wrong) for wrong, _ in WRONG])
def test_illegal_parameters_die_at_elaboration(wrong: dict[str, int], sentences: list[str]) -> None:
    model, _ = setup(SMALL)
    with pytest.raises(ParameterError) as told:
        replace(model, parameters={**model.parameters, **wrong}).build()
    assert [sentence for sentence in sentences if sentence not in str(told.value)] == []


def test_coverage_can_fail() -> None:
    """One open bin is named; a suite that met nothing has met nothing."""
    design = bench_design(SMALL)
    wanted = coverage.required(design)
    line, missing = coverage.closure(set(wanted) - {"pool in limited row blocks"}, design)
    assert missing == ["pool in limited row blocks"]
    assert line == f"functional coverage: {len(wanted) - 1} of {len(wanted)} bins"
    assert coverage.closure(set(), design)[1] == sorted(wanted)


@pytest.mark.long
def test_every_bench_of_the_data_plane() -> None:
    assert len(bench(SMALL, None)) == 9


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(3, 8))])
@pytest.mark.parametrize("name", MORE)
def test_random_layers(name: str, seed: int) -> None:
    port = {"zc706": 8, "bytes": 8, "wide_pools": 32}.get(name, 16)
    bench(MORE[name], "random_layers", seed=seed, programs=6, port_bytes=port)


@pytest.mark.long
@pytest.mark.parametrize("name", ["zc706", "bytes"])
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.matrix)])
def test_what_goes_wrong(name: str, seed: int) -> None:
    bench(MORE[name], "refused|wrong_|bus_errors|soft_reset|watchdog", seed=seed, port_bytes=8)


@pytest.mark.long
def test_a_tiny_input_buffer_is_slower_but_right() -> None:
    bench(SMALL | {"buffer_words": 1024}, "random_layers", seed=9, programs=6)


@pytest.mark.long
@pytest.mark.parametrize("name", ["zc706", pytest.param("split", marks=pytest.mark.matrix)])
def test_functional_coverage_closes(name: str) -> None:
    sizes = MORE[name] | {"b_max": 8}
    model, env = setup(sizes, programs=10, port_bytes=8)
    chosen, seeds = "random_layers|every_plan|soft_reset", range(11, 18)
    for seed in seeds:
        run(model, seed=seed, tests=chosen, env=env)
    hit = coverage.merge(run_folder(model, seed=seed, tests=chosen, env=env) for seed in seeds)
    line, missing = coverage.closure(hit, bench_design(sizes | {"port_bytes": 8}))
    print(line)
    assert not missing, line
