"""`fluidnpu simulate` as scripts and people meet it: keys, traffic of every kind, logs, reports, refusals."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from narrow_pages import check_narrow
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.dse.testing import tiny_design

TABLE2 = Path(str(files("fluidnpu.studies.fluid_batching"))) / "data" / "table2_latency.json"
ROW = json.loads(TABLE2.read_text())["rows"][0]
FEW = ("--requests", 200, "--seeds", 2)
HERE = ("--rate", 15, "--slo", "200ms", *FEW)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({key: ROW[key] for key in ("latency_ns", "exit_rates")}))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, words)])


def found(*words: object) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_the_contract(table: Path) -> None:
    policies = found(table, "--policy", "serial,greedy,fluid", *HERE)["policies"]
    assert set(policies) == {"serial", "greedy", "fluid"}
    for one in policies.values():
        for key in ("violations_pct", "average_ms", "p99_ms"):
            assert one[key]["low"] <= one[key]["mean"] <= one[key]["high"]


def test_a_project_is_simulated_as_its_design(tmp_path: Path) -> None:
    design = tmp_path / "project" / "bundle" / "design.json"
    design.parent.mkdir(parents=True)
    made = tiny_design()
    design.write_text(made.dumps())
    rates = ",".join(["0"] * (made.stages - 1) + ["1"])
    words = ("--exit-rates", rates, *HERE)
    assert found(tmp_path / "project", *words) == found(design, *words) == found(design.parent, *words)
    (tmp_path / "empty").mkdir()
    refused(run(tmp_path / "empty", *words), "and it is a folder")


def test_a_terminal_gets_a_table_and_what_it_means(table: Path) -> None:
    text = " ".join(run(table, "--policy", "greedy,fluid:anytime=3%", *HERE).stdout.split())
    for words in (
        "violations %",
        "p99 ms",
        "fluid:anytime=3%",
        "±",
        "anytime %",
        "10 of them served but not counted",
        "busy 64.3 %",
    ):
        assert words in text


def test_unstable_load_is_said_not_measured(table: Path) -> None:
    words = ("--rate", 40, "--slo", "200ms", *FEW)
    one = found(table, "--policy", "greedy,greedy:shed=1", *words)
    assert one["policies"]["greedy"]["unstable"]
    assert one["policies"]["greedy"]["p99_ms"]["mean"] is None
    assert not one["policies"]["greedy:shed=1"]["unstable"]
    text = run(table, "--policy", "greedy", *words).stdout
    assert "unstable: the backlog grows" in text
    assert "no policy that answers everyone in full keeps up" in text


@pytest.mark.usefixtures("few_trials")
def test_an_overload_is_a_row_for_every_policy(tmp_path: Path) -> None:
    """A load that has no solution ends no comparison, and the reader learns which one was solved instead."""
    path = tmp_path / "flat.json"
    path.write_text(json.dumps({"latency_ns": [[10**7, 11 * 10**6]] * 2, "exit_rates": [0.5, 0.5]}))
    names = ["greedy", "optimal", "credit", "guarded", "credit:anytime=3%", "credit:shed=1"]
    for rate in (140, 1000):
        words = (path, "--policy", ",".join(names), "--rate", rate, "--slo", "200ms", "--requests", 3000, "--seeds", 2)
        policies = found(*words)["policies"]
        assert list(policies) == names
        for name in names[:-1]:
            assert policies[name]["unstable"]
            assert policies[name]["average_ms"] == {"mean": None, "low": None, "high": None}
        assert not policies["credit:shed=1"]["unstable"]
        assert policies["credit:shed=1"]["shed_pct"]["mean"] > 0
        assert "note" not in policies["greedy"]
        for name in names[1:]:
            assert re.search(r"solved for \d+(\.\d+)?/s: more is not", policies[name]["note"])
    text = run(*words).stdout
    assert text.count("unstable: the backlog grows") == 5


@pytest.mark.parametrize("traffic", ["mmpp", "mmpp:burst=3:share=0.1:dwell=500ms", "diurnal:swing=0.5:period=10s"])
def test_synthetic_traffic(table: Path, traffic: str) -> None:
    assert found(table, "--policy", "greedy", "--traffic", traffic, *HERE)["traffic"] == traffic


def test_a_trace_brings_its_own_rate_and_objective(table: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_ms,slo_ms,exit\n" + "".join(f"{80 * k},300,{k % 4}\n" for k in range(60)))
    one = found(table, "--policy", "greedy", "--traffic", trace)
    assert one["rate_per_s"] == pytest.approx(12.5)
    assert one["slo_ms"] == 300
    assert one["seeds"] == 1
    trace.write_text("arrival_ms\n0\n50\n40\n")
    refused(run(table, "--traffic", trace, "--slo", "1ms"), "t.csv line 4 must not go back in time")
    trace.write_text("arrival_ms,slo_ms,exit\n0,300,0\n\n80,300,3\n160,300,4\n")
    refused(run(table, "--traffic", trace), "t.csv line 5 must hold an exit from 0 to 3")
    trace.write_bytes(b"\xef\xbb\xbfarrival_ms, slo_ms\r\n0, 300\r\n80, 300\r\n")  # as spreadsheets write it
    assert found(table, "--policy", "greedy", "--traffic", trace)["rate_per_s"] == pytest.approx(12.5)
    trace.write_bytes(b"arrival_ms\n\xff\n")
    refused(run(table, "--traffic", trace, "--slo", "1ms"), "t.csv' must be a trace in CSV, which is text")


def test_recorded_confidences_give_accuracy(table: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sure = np.sort(rng.random((100, 4)), axis=1)
    np.savez(tmp_path / "c.npz", confidences=sure, correct=rng.random((100, 4)) < sure)
    words = (table, "--confidences", tmp_path / "c.npz", "--policy", "greedy,fluid:anytime=3%", *HERE)
    one = found(*words, "--thresholds", "0.8,0.8,0.8")["policies"]
    assert 0 < one["greedy"]["accuracy_pct"]["mean"] < 100
    assert one["greedy"]["accuracy_lost_points"]["mean"] == 0
    assert "points lost" in run(*words, "--thresholds", "0.8,0.8,0.8,0").stdout
    refused(run(*words), "--thresholds must be 3")
    refused(run(*words, "--thresholds", "0.8,x,0.8"), "--thresholds must be finite numbers")


def test_drift_that_policies_are_not_told_of(table: Path) -> None:
    told = found(table, "--policy", "greedy", *HERE)["policies"]["greedy"]
    late = found(table, "--policy", "greedy", "--true-exit-rates", "0,0,0,1", "--latency-factor", 1.1, *HERE)
    assert late["policies"]["greedy"]["average_ms"]["mean"] > told["average_ms"]["mean"]
    assert late["least_load"] > 0.7


def test_who_leaves_where_is_said_once(table: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", confidences=np.full((3, 4), 0.5), correct=np.ones((3, 4), bool))
    (tmp_path / "t.csv").write_text("arrival_ms,exit\n0,1\n5,2\n")
    recorded = ("--confidences", tmp_path / "c.npz", "--thresholds", "0.8,0.8,0.8")
    true, trace = ("--true-exit-rates", "0,0,0,1"), ("--traffic", tmp_path / "t.csv", "--slo", "1ms")
    refused(run(table, *recorded, *true, *HERE), "--confidences and --true-exit-rates all say who really leaves where")
    refused(run(table, *recorded, *trace), "--confidences and the column exit of", "t.csv")
    refused(run(table, *true, *trace), "--true-exit-rates and the column exit of")


def test_exit_rates_can_be_given(table: Path) -> None:
    assert found(table, "--policy", "greedy", "--exit-rates", "1,0,0,0", *HERE)["least_load"] < 0.25


@pytest.mark.parametrize("policy", ["fluid", "lazy:layers=8:cost=100us"])
def test_a_log_replays_and_an_edited_one_does_not(table: Path, tmp_path: Path, policy: str) -> None:
    log = tmp_path / "log.jsonl"
    assert run(table, "--policy", policy, "--log", log, *HERE).exit_code == 0
    replayed = run("--replay", log)
    assert replayed.exit_code == 0
    assert "repeat to the same schedule" in " ".join(replayed.stdout.split())
    assert found("--replay", log)["replays"]
    assert run(table, "--replay", log).exit_code == 0
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:-1], lines[-1].replace('"do": "run"', '"do": "shed"')]))
    refused(run("--replay", log), "does not repeat", code=1)
    log.write_text("\n".join([*lines[:-1], "{}"]))
    refused(run("--replay", log), f"line {len(lines)} of the decision log")
    refused(run("--replay", table), "line 1 of the decision log must be the header")


def test_a_report_is_one_file_that_asks_for_nothing(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    result = run(table, "--policy", "serial,fluid,lazy:layers=8", "--report", page, *HERE)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?http|<script|@import""", text)
    for words in (
        "requests that take longer",
        "runs by batch size",
        "request 3",
        "run stage 1",
        "back-fill",
        "lazy:layers=8",
    ):
        assert words in text
    check_narrow(text)


def test_a_report_of_an_unstable_load_has_no_latencies(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    assert run(table, "--policy", "greedy", "--report", page, "--rate", 60, "--slo", "200ms", *FEW).exit_code == 0
    assert "unstable" in page.read_text()
    assert "requests that take longer" not in page.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--slo", "1ms"), "--rate must be given"),
        (("--rate", 1), "--slo must be given"),
        (("--rate", 1e300, "--slo", "1ms"), "at most one a nanosecond"),
        (("--rate", 1e-300, "--slo", "1ms"), "must fit into"),
        (("--rate", "nan", "--slo", "1ms"), "nan"),
        (("--rate", 1, "--slo", "200"), "with a unit"),
        (("--rate", 1, "--slo", "-1ms"), "with a unit"),
        (("--rate", 1, "--slo", "1ms", "--traffic", "rain"), "'rain'"),
        (("--rate", 1, "--slo", "1ms", "--traffic", "mmpp:burst=9"), "1 <= burst <= 1/share"),
        (("--rate", 1, "--slo", "1ms", "--policy", "fluid,"), "policy must be one of"),
        (
            ("--rate", 1, "--slo", "1ms", "--log", "x.l", "--policy", "fluid:shed=1,fluid;shed=1"),
            "have a file a policy",
        ),
        (("--rate", 1, "--slo", "1ms", "--thresholds", "0.5"), "--thresholds needs --confidences"),
        (("--rate", 1, "--slo", "1ms", "--latency-factor", 0), "latency factor must be above zero"),
        (("--rate", 1, "--slo", "1ms", "--latency-factor", 1e300), "at most 1000"),
        (("--rate", 1, "--slo", "99999999999s"), "--slo must be at least 1 ns and at most 1e+09 s"),
        (("--rate", 1, "--slo", "1ms", "--traffic", "mmpp:share=1e-300"), "dwell over share"),
        (
            ("--rate", 1, "--slo", "1ms", "--traffic", "diurnal:period=99999999999s"),
            "period of diurnal traffic must be at least 1 ns",
        ),
        (("--rate", 1, "--slo", "1ms", "--policy", "greedy:b_max=²"), "b_max must be a whole number"),
        (("--rate", 1, "--slo", "1ms", "--policy", "lazy:layers=99999"), "layers must be at most 10000"),
        (("--rate", 1, "--slo", "1ms", "--true-exit-rates", "1"), "must name 4 shares"),
        (("--rate", 1, "--slo", "1ms", "--exit-rates", "0.5,0.5"), "must name 4 shares"),
        (("--rate", 1, "--slo", "1ms", "--confidences", "none.csv"), "none.csv"),
    ],
)
def test_bad_words_are_one_sentence(table: Path, words: tuple[object, ...], says: str) -> None:
    refused(run(table, *words, "--requests", 5, "--seeds", 1), says)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("[", "must be JSON"),
        ("[1]", "must be a design or hold"),
        ('{"latency_ns": [[1]]}', "must be a design or hold"),
        ('{"latency_ns": [[1, 2], [3]], "exit_rates": [0.5, 0.5]}', "must have 2 batch sizes"),
        ('{"latency_ns": [[1], [0]], "exit_rates": [0.5, 0.5]}', "above zero"),
        ('{"latency_ns": [[1], [2]], "exit_rates": [0.5, 0.6]}', "sum to 1"),
        ('{"latency_ns": [[1], [2]], "exit_rates": [1]}', "one per stage"),
        ('{"latency_ns": [[1], [2]], "exit_rates": ["x", 1]}', "exit_rates as numbers"),
        ('{"latency_ns": [[1], [NaN]], "exit_rates": [0.5, 0.5]}', "whole nanoseconds above zero, not nan"),
        ('{"latency_ns": [[1], [1000000000001]], "exit_rates": [0.5, 0.5]}', "at most 1000 s"),
        ("[" * 100_000, "must be JSON"),
        ("\udcff", "which is text"),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path: Path, body: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(body.encode("utf-8", "surrogateescape"))
    refused(run(path, *HERE), says)


def test_a_table_in_which_larger_batches_are_quicker_is_remarked_on(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"latency_ns": [[10, 20, 15], [10, 20, 20]], "exit_rates": [0.5, 0.5]}')
    text = " ".join(run(path, *HERE).stdout.split())
    assert "a larger batch is quicker: stage 1 at batch 2 and 3" in text
    assert "stage 2" not in text


def test_a_process_too_large_to_solve_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"latency_ns": [[10**6] * 16] * 6, "exit_rates": [0.1] * 5 + [0.5]}))
    refused(run(path, "--policy", "optimal", *HERE), "must have at most 50000000 costs")


def test_simulate_without_a_table() -> None:
    refused(run(), "needs a DESIGN or TABLE.json")
    refused(run("none.json", *HERE), "none.json")


def test_nobody_answered_is_null_and_a_dash(tmp_path: Path) -> None:
    """Also of a design, whose efficiency has no busy time to refer to."""
    design = tmp_path / "design.json"
    design.write_text(tiny_design().dumps())
    words = (design, "--policy", "greedy:shed=1", "--rate", 1e6, "--slo", "1ns", "--exit-rates", "0.5,0.5", *FEW)
    one = found(*words)["policies"]["greedy:shed=1"]
    assert one["shed_pct"]["mean"] == 100
    for key in ("average_ms", "p99_ms", "busy_mac_efficiency_pct"):
        assert one[key] == dict.fromkeys(("mean", "low", "high"))
    text = run(*words).stdout
    assert "nan" not in text
    assert "greedy:shed=1" in text


def test_each_of_several_policies_has_a_log_of_its_own_that_repeats(table: Path, tmp_path: Path) -> None:
    words = ("--rate", 100, "--slo", "200ms", "--requests", 300, "--seeds", 1, "--policy", "serial,fluid:shed=1")
    said = run(table, *words, "--log", tmp_path / "run.jsonl").stdout
    assert sorted(path.name for path in tmp_path.glob("run.*")) == ["run.fluid-shed-1.jsonl", "run.serial.jsonl"]
    for name in ("serial", "fluid-shed-1"):
        assert f"run.{name}.jsonl" in said.replace("\n", "")  # a path is folded where it reaches the edge
        assert run("--replay", tmp_path / f"run.{name}.jsonl").exit_code == 0


# -- criteria ------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    sure = np.sort(rng.random((300, len(ROW["latency_ns"]))), axis=1)
    np.savez(tmp_path / "recorded.npz", confidences=sure, correct=rng.random(sure.shape) < sure)
    return tmp_path / "recorded.npz"


def test_a_criterion_decides_who_leaves_and_what_policies_believe(table: Path, recorded: Path) -> None:
    early = found(table, "--confidences", recorded, "--criteria", "confidence > 0.2", *HERE)
    late = found(table, "--confidences", recorded, "--criteria", "false", "--policy", "serial", *HERE)
    assert early["criteria"] == "confidence > 0.2"
    assert early["least_load"] < late["least_load"]
    assert early["policies"]["fluid"]["accuracy_pct"]["mean"] < late["policies"]["serial"]["accuracy_pct"]["mean"]
    assert early["policies"]["fluid"]["accuracy_lost_points"]["mean"] == 0  # the samples alone decide


def test_a_criterion_over_time_bounds_what_load_costs(table: Path, recorded: Path) -> None:
    usual = ("--confidences", recorded, "--policy", "serial", "--rate", 18, "--slo", "200ms", *FEW)
    patient = found(table, *usual, "--criteria", "confidence > 0.7")["policies"]["serial"]
    hurried = found(table, *usual, "--criteria", "confidence > 0.7 or next_response_time > 150ms")["policies"]["serial"]
    assert hurried["busy_pct"]["mean"] < patient["busy_pct"]["mean"]
    assert hurried["accuracy_lost_points"]["mean"] > 0


def test_a_log_says_for_which_clause_each_left_and_replays(table: Path, recorded: Path, tmp_path: Path) -> None:
    log, text = tmp_path / "log.jsonl", "confidence > 0.8 or response_time > 60ms"
    found(table, "--confidences", recorded, "--criteria", text, "--policy", "fluid:anytime=3%", "--log", log, *HERE)
    because = {line["because"] for line in map(json.loads, log.read_text().splitlines()) if "because" in line}
    assert {"confidence > 0.8", "response_time > 60ms", "last exit"} <= because
    replayed = run("--replay", log)
    assert replayed.exit_code == 0, replayed.output


def test_a_suspicious_criterion_is_warned_of(table: Path, recorded: Path) -> None:
    words = (table, "--confidences", recorded, "--criteria", "confidence > 95", *HERE)
    assert "no sample can leave early" in " ".join(run(*words).stdout.split())
    assert "no sample can leave early" in found(*words)["warnings"][0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--criteria", "confidence"), "at column 11"),
        (("--criteria", "confidence > 0.5"), "needs the confidence of each sample: give --confidences"),
        (("--criteria", "energy > 1mJ"), "must have a power model of the board"),
        (("--criteria", "macs > 1MMAC"), "must have the multiply-accumulates of each exit"),
        (("--criteria", "accuracy > 0.5"), "must have the accuracy of each exit"),
        (("--criteria", "slack < 0ms", "--exit-rates", "0.5,0.5"), "neither --exit-rates nor --thresholds fits it"),
        (("--criteria", "slack < 0ms", "--true-exit-rates", "0.2,0.2,0.2,0.4"), "all say who really leaves where"),
        (("--criteria", "slack < 0ms", "--policy", "lazy:layers=8"), "criteria are looked at after whole stages"),
    ],
)
def test_a_criterion_that_does_not_fit_is_one_sentence(table: Path, words: tuple[str, ...], says: str) -> None:
    refused(run(table, *words, *HERE), says)


# -- tenants -------------------------------------------------------------------------------------------------

TENANTS = """
[tenant.doors]
share = 0.5
rate = 6
slo = "300ms"
criteria = "confidence > 0.8 or slack < 50ms"
[tenant.cameras]
share = 0.25
rate = 9
mode = "pareto"
"""


@pytest.fixture
def tenants(tmp_path: Path) -> Path:
    path = tmp_path / "tenants.toml"
    path.write_text(TENANTS)
    return path


def test_tenants_get_a_row_each_and_an_index_of_fairness(table: Path, recorded: Path, tenants: Path) -> None:
    words = (table, "--tenants", tenants, "--confidences", recorded, "--criteria", "false", "--slo", "200ms", *FEW)
    report = found(*words)
    assert set(report["tenants"]) == {"doors", "cameras"}
    assert report["tenants"]["cameras"]["criteria"].startswith("confidence > [")
    for one in report["tenants"].values():
        assert one["p99_ms"]["mean"] >= one["average_ms"]["mean"] > 0
        assert 0 <= one["accuracy_pct"]["mean"] <= 100
    assert 0 < report["jain"]["mean"] <= 1
    assert found(*words) == report  # the same seeds, the same numbers
    text = " ".join(run(*words, "--explain").stdout.split())
    for said in ("2 tenants of fluid (simulated)", "Jain's index", "doors leaves where: confidence > 0.8", "others"):
        assert said in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--slo", "200ms", "--rate", "9"), "each tenant has a rate of its own"),
        (("--slo", "200ms", "--policy", "fluid,greedy"), "--policy must be one policy with --tenants"),
        (("--slo", "200ms", "--traffic", "mmpp"), "--traffic must be poisson with --tenants"),
        (("--slo", "200ms", "--log", "x.jsonl"), "--log is of policies side by side"),
        ((), "tenant 'cameras' must have an slo, or --slo must be given for all"),
        (("--slo", "200ms"), "so recorded confidences must be given (--confidences)"),
    ],
)
def test_words_that_do_not_fit_tenants_are_one_sentence(
    table: Path, tenants: Path, words: tuple[str, ...], says: str
) -> None:
    refused(run(table, "--tenants", tenants, *words, *FEW), says)


def test_a_wrong_file_of_tenants_is_one_sentence(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text("[tenant.a]\nshare = 0.7\n[tenant.b]\nshare = 0.7\n")
    refused(
        run(table, "--tenants", path, "--slo", "1s", *FEW), "t.toml: the shares of all tenants must sum to at most 1"
    )
    refused(run(table, "--tenants", tmp_path / "none.toml", "--slo", "1s", *FEW), "none.toml")


def test_energy_is_modelled_from_the_watts_that_are_given(table: Path, recorded: Path) -> None:
    words = (table, "--confidences", recorded, "--criteria", "energy > 0.1J", "--policy", "serial", *HERE)
    early = found(*words, "--power", "5,10")
    late = found(*words, "--power", "0.5,1")
    assert early["least_load"] < late["least_load"]
    refused(run(*words), "must have a power model of the board, the table [power] of its file")
    refused(run(*words, "--power", "5"), "--power must be two numbers of watts")
    refused(run(*words, "--power", "5,1"), "power must be 0 <= idle <= active, not 5 and 1 W")
    refused(run(table, "--policy", "serial", *HERE, "--power", "5,10"), "--power is for the energies that --criteria")
