import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import ParameterError, sources
from fluidnpu.rtl_tb.proving import mutation
from fluidnpu.rtl_tb.proving.explained import REASONS
from fluidnpu.rtl_tb.proving.mutation import (
    FILES,
    Mutant,
    MutationTally,
    campaign,
    draw,
    explain,
    interval,
    judge,
    mutants,
    seed_of_today,
    summary,
)
from fluidnpu.rtl_tb.simulation.units import met_in

ENGINE = "fluidnpu_batching_engine.sv"


@dataclass
class Answer:
    """Of a prover."""

    verdict: str


def test_mutants_are_one_change_each() -> None:
    for file in FILES:
        text = sources()[file]
        every = list(mutants(text))
        assert every, file
        for mutant in every:
            changed = mutant.apply(text)
            assert changed != text
            differ = [
                i for i, (a, b) in enumerate(zip(text.splitlines(), changed.splitlines(), strict=True), 1) if a != b
            ]
            assert differ == [mutant.line]


def test_every_file_of_hardware_is_changed_and_met() -> None:
    assert {file for file in FILES if met_in(file.removesuffix(".sv")) is None} == set()
    assert sum(len(list(mutants(sources()[file]))) for file in FILES) > 2000


def test_no_line_of_hardware_is_left_out() -> None:
    """Refusals stand behind `end else if`, comparisons may be `<=`, assertions are no hardware."""
    lines = sources()[ENGINE].splitlines()
    changed = [lines[mutant.line - 1].strip() for mutant in mutants(sources()[ENGINE])]
    assert sum(line.startswith("end else if (control_i.exit && strangers_q)") for line in changed) == 1
    assert sum(line.startswith("end else if (control_i.merge && merged > 7'(BMax))") for line in changed) == 2
    assert not any(line.startswith("assert") for line in changed)
    found = [
        (m.old, m.new) for m in mutants("last_tile <= remaining <= tile;\nassign a = b <= c;\nif (d <= e) x <= '0;\n")
    ]
    assert found == [(" <= ", " < "), (" <= ", " < "), ("'0", "'1")]


def test_the_share_has_an_interval() -> None:
    low, high = interval(300, 300)
    assert low == pytest.approx(0.9874, abs=1e-4)
    assert high == pytest.approx(1.0)
    assert interval(0, 0) == (0.0, 1.0)


def test_a_sample_is_drawn_from_all_places_alike() -> None:
    assert draw(FILES, 20, 3) == draw(FILES, 20, 3) != draw(FILES, 20, 4)
    assert len({file for file, _ in draw(FILES, 200, 1)}) > 20
    assert len(draw([ENGINE], None, 1)) == len(list(mutants(sources()[ENGINE])))
    assert seed_of_today() > 738_000


def test_what_is_only_undecided_or_does_not_build_is_no_kill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = ["survived", "undecided", "build", "bench"]
    monkeypatch.setattr(mutation, "judge", lambda *_: verdicts.pop())
    (tally,) = campaign([ENGINE], 4, 1)
    assert (tally.real, tally.killed, len(tally.survivors)) == (3, 1, 2)
    assert capsys.readouterr().out.count("NOT EXPLAINED") == 2
    assert summary([tally, tally]).killed == 2


def test_a_check_that_notices_the_rtl_as_it_is_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def right(file: str, text: str) -> str:
        asked.append(text)
        return "survived" if text == sources()[file] else "npu"

    monkeypatch.setattr(mutation, "_checks", lambda _: [lambda *_: "survived", right])
    assert [campaign([ENGINE], 3, 1)[0].killed, len(asked)] == [3, 4]  # the RTL as it is, once
    monkeypatch.setattr(mutation, "_checks", lambda _: [lambda *_: "bench"])
    with pytest.raises(RuntimeError, match="must pass its checks before it is changed, and the verdict is 'bench'"):
        campaign([ENGINE], 1, 1)


def test_a_proof_that_fails_of_the_rtl_as_it_is_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "_checks", lambda _: [mutation._by_proofs])
    monkeypatch.setattr(mutation, "refute", lambda *_, override=None, **__: Answer("FAIL" if override else "PASS"))
    assert judge("fluidnpu_regs.sv", "changed") == "proof"
    mutation._must_hold.cache_clear()
    monkeypatch.setattr(mutation, "refute", lambda *_, **__: Answer("FAIL"))
    with pytest.raises(RuntimeError, match="proof registers must hold of the RTL before it is changed, and a run"):
        judge("fluidnpu_regs.sv", "changed")


def test_every_reason_is_that_of_a_change_that_can_be_made() -> None:
    """A line that was written anew needs its reason anew."""
    given = [
        why for file in FILES for mutant in mutants(sources()[file]) if (why := explain(file, sources()[file], mutant))
    ]
    assert len(given) > 40
    assert {entry.why for entry in REASONS} == set(given)


def test_the_line_before_tells_which_of_two_is_meant() -> None:
    """Where the same line stands behind another, its change is one that somebody may notice."""
    name = "fluidnpu_planner.sv"
    text = sources()[name]
    (mutant,) = (each for each in mutants(text) if text.splitlines()[each.line - 1].split() == ["b", "=", "'0;"])
    assert explain(name, text, mutant)
    elsewhere = re.sub(r"^( +a +)= '0;", r"\1= 32'd1;", text, flags=re.M)
    (mutant,) = (each for each in mutants(elsewhere) if each.line == mutant.line)
    assert explain(name, elsewhere, mutant) == ""
    assert explain("fluidnpu_row_buffer.sv", text, mutant) == ""


def test_a_campaign_that_is_stopped_keeps_what_it_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order drawn, so that it is a sample of all places as well."""
    drawn = draw(FILES, None, 7)
    assert drawn[:3] == draw(FILES, 3, 7)
    seen: list[str] = []

    def judge(file: str, text: str) -> str:
        seen.append(file)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return "bench"

    monkeypatch.setattr(mutation, "judge", judge)
    tallies = campaign(FILES, None, 7)
    assert seen == [file for file, _ in drawn[:6]]
    assert [tally.name for tally in tallies] == sorted({*seen[:5]})
    assert summary(tallies).killed == 5


def test_a_log_goes_on_where_a_campaign_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    asked: list[str] = []

    def judge(file: str, text: str) -> str:
        asked.append(text)
        if len(asked) == 6:
            raise KeyboardInterrupt
        return ("bench", "proof")[len(text) % 2]

    monkeypatch.setattr(mutation, "judge", judge)
    assert summary(campaign(FILES, 20, 7, log=log)).real == 5
    log.write_text(log.read_text() + '{"file": "fluidnpu_ro')  # killed while it wrote
    whole = campaign(FILES, 20, 7, log=log)
    assert summary(whole).killed == 20
    assert len(asked) == 21  # that which was stopped, twice
    assert campaign(FILES, 20, 7, log=log) == whole == campaign(FILES, 20, 7)
    assert len(asked) == 41


def test_a_log_of_another_rtl_is_refused_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    monkeypatch.setattr(mutation, "judge", lambda *_: "bench")
    campaign(FILES, 2, 1, log=log)
    monkeypatch.setattr(mutation, "_version", lambda: "another")
    kept = log.read_text()
    with pytest.raises(ParameterError, match="must be of the RTL and its checks as they are; they changed"):
        campaign(FILES, 2, 1, log=log)
    for nonsense in ("x", "x\n", kept + '{"file": "x"}\n', kept + "3\n"):
        log.write_text(nonsense)
        with pytest.raises(ParameterError, match=r"log\.jsonl must be a log of mutants; its lines cannot be read"):
            campaign(FILES, 2, 1, log=log)
        assert log.read_text() == nonsense


def test_several_mutants_are_judged_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = {file: ("bench", "proof")[number % 2] for number, file in enumerate(FILES)}
    monkeypatch.setattr(mutation, "judge", lambda file, _: verdicts[file])
    one, two = (campaign(FILES, 40, 3, jobs) for jobs in (1, 2))
    assert one == two
    assert summary(two).killed == 40


def test_a_tally_is_a_line() -> None:
    tally = MutationTally("x.sv")
    tally.verdicts["npu"] += 3
    assert str(tally).split()[:2] == ["x.sv", "3"]


def test_the_score_leaves_out_what_nothing_can_see() -> None:
    text = sources()["core_gather.sv"]
    hidden = next(m for m in mutants(text) if explain("core_gather.sv", text, m))
    seen = next(m for m in mutants(text) if not explain("core_gather.sv", text, m))
    tally = MutationTally("core_gather.sv", survivors=[("core_gather.sv", hidden), ("core_gather.sv", seen)])
    tally.verdicts |= {"bench": 3, "survived": 2, "build": 7}
    assert tally.gaps == [("core_gather.sv", seen)]
    assert tally.score().startswith("mutation score 75.0 % (30.1 to 95.4 %): 3 of 4, without the 1 ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["x.sv"], "FILE must be one of"),
        (["--sample", "0"], "--sample must be at least 1, not 0"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--log", "x"], "--log must come with --seed"),
    ],
)
def test_nonsense_is_refused(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        mutation.main(arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.long
def test_a_harmless_change_survives_and_is_not_explained() -> None:
    text = sources()[ENGINE]
    assert judge(ENGINE, text + "// more\n") == "survived"
    assert explain(ENGINE, text, Mutant(text.index("always_comb"), 1, "a", "b")) == ""


@pytest.mark.long
def test_a_sample_of_mutants_is_noticed() -> None:
    """Another sample every day; the whole campaign is `python -m fluidnpu.rtl_tb.proving.mutation`."""
    total = summary(campaign(FILES, sample=4, seed=seed_of_today()))
    assert not total.gaps, total.gaps
