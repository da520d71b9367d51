"""Every kind of bad input: one sentence, the right exit code, nothing left behind, no traceback.

The list is that of two audits, in which new users tried what came to mind; each entry says the words that the
sentence must have.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.models import shipped_file

BAD, NO = 2, 1
LAYER = {"name": "conv", "R": 196, "P": 288, "C": 64}
TABLE = {"latency_ns": [[1000, 1500], [800, 1200]], "exit_rates": [0.5, 0.5]}
SERVING = ("--rate", "3000", "--slo", "2ms", "--requests", "50", "--seeds", "1")

# Words of a command, with {name} for a file of `world`; the exit code; words that the sentence must have.
Case = tuple[str, int, str]
MODELS: list[Case] = [
    ("check {none}.onnx", BAD, "none.onnx"),
    ("check {folder}", BAD, "folder"),
    ("check {text}.onnx", BAD, "text.onnx"),
    ("check {empty}.onnx", BAD, "empty.onnx"),
    ("check {truncated}.onnx", BAD, "truncated.onnx"),
    ("check {random}.onnx", BAD, "random.onnx"),
    ("check /dev/zero", BAD, "'/dev/zero' must be a regular file"),
    ("check {text}.json", BAD, "text.json"),
    ("check {string}.json", BAD, "string.json"),
    ("check {number}.json", BAD, "number.json"),
    ("check {deep}.json", BAD, "deep.json"),
    ("check {negative}.json", BAD, "whole number R of at least 1, not -1"),
    ("check {lacking}.json", BAD, "whole number R"),
    ("check {ragged}.toml", BAD, "must be TOML"),
    ("check {latin}.json", BAD, "utf-8"),
    ("check {layers}.json {layers}.json", BAD, "unexpected extra argument"),
]
SEARCHES: list[Case] = [
    ("dse {model}", BAD, "Missing option '--board'"),
    ("dse {model} --bord zc706", BAD, "--bord"),
    ("dse {model} --board zc999", BAD, "zc999"),
    ("dse {model} --board {none}.toml", BAD, "none.toml"),
    ("dse {model} --board {ragged}.toml", BAD, "must be TOML"),
    ("dse {model} --board {lacking}.toml", BAD, "lacks"),
    ("dse {model} --board {minus}.toml", BAD, "dsp"),
    ("dse {model} --board {tiny}.toml", NO, "need 100 RAMB18"),
    ("dse {model} --board zc706 --b-max -3", BAD, "b_max must be a whole number in 1..16"),
    ("dse {model} --board zc706 --b-max 17", BAD, "17"),
    ("dse {model} --board zc706 --b-max 100000000000000000000", BAD, "b_max"),
    ("dse {model} --board zc706 --b-max 1.5", BAD, "1.5"),
    ("dse {model} --board zc706 --weights 1,2", BAD, "one weight for each of 8"),
    ("dse {model} --board zc706 --weights 1,nan,1,1,1,1,1,1", BAD, "finite"),
    ("dse {model} --board zc706 --weights -1,1,1,1,1,1,1,1", BAD, "--weights"),
    ("dse {model} --board zc706 --weights 0,0,0,0,0,0,0,0", BAD, "not all zero"),
    ("dse {model} --board zc706 --weights a,b", BAD, "--weights"),
    ("dse {model} --board zc706 --objective latency --weights 1,1,1,1,1,1,1,1", BAD, "latency"),
    ("dse {layers}.json --board zc706 --exits x", BAD, "--exits must be N of at least 1, or at=NAME,NAME"),
    ("dse {layers}.json --board zc706 --exits at=nosuch", BAD, "nosuch"),
    ("dse {model} --board zc706 --exit-rates 1", BAD, "3 shares that sum to 1"),
    ("dse {model} --board zc706 --exit-rates 0.5,0.5,0.5", BAD, "sum to 1"),
    ("dse {model} --board zc706 --exit-rates nan,0,1", BAD, "finite"),
    ("dse {model} --board zc706 --cycles guess", BAD, "guess"),
    ("dse {model} --board zc706 --core chisel", BAD, "chisel"),
    ("dse {model} --board zc706 --memory hbm", BAD, "hbm"),
    ("dse {model} --board zc706 --objective fame", BAD, "fame"),
    ("dse {model} --board zc706 --evaluations 0", BAD, "--evaluations"),
    ("dse {layers}.json --board zc706", BAD, "--cycles paper"),
    ("dse {model} --board zc706 --calibration {text}.json", BAD, "import-reports"),
    ("dse {model} --board zc706 --out {folder}", BAD, "--out '{folder}' must be a file, and it is a folder"),
    ("dse {model} --board zc706 --out {new} --report {new}", BAD, "--out and --report must be two places"),
    ("dse {model} --board zc706 --out {new} --report {linked}/new", BAD, "must be two places"),
    ("dse {model} --board zc706 --out {model}", BAD, "--out must not be what MODEL reads"),
    ("dse {model} --board {tiny}.toml --report {tiny}.toml", BAD, "--report must not be what --board reads"),
    ("dse {model} --board zc706 --out {text}.txt/d.json", BAD, "--out"),
    ("dse {model} --board zc706 --report /proc/x.html", BAD, "--report '/proc/x.html' must be a place"),
]
PROJECTS: list[Case] = [
    ("build {model} --board zc706", BAD, "Missing option '--out'"),
    ("build {model} --board zc706 --out {folder}", BAD, "without a manifest"),
    ("build {model} --board zc706 --out {text}.txt", BAD, "must be a folder, and it is a file"),
    ("build {model} --board zc706 --out /proc/p", BAD, "--out '/proc/p' must be a place"),
    ("build {layers}.json --board zc706 --out {new}", BAD, "needs a network with weights"),
    ("build {model} --board zc706 --out {new} --design {none}.json", BAD, "none.json"),
    ("build {model} --board zc706 --out {new} --design {text}.json", BAD, "text.json"),
    ("build {model} --board zc706 --out {new} --design {schema}.json", BAD, "schema"),
    ("build {model} --board zc706 --out {new} --design {shallow}.json", BAD, "t_r"),
    ("build {model} --board zc706 --out {new} --design {half}.json", BAD, "half.json"),
    ("build {model} --board zcu104 --out {new} --design {design}.json", BAD, "must be a design for zcu104"),
    ("build {model} --board zc706 --out {new} --design {design}.json --b-max 4", BAD, "batches up to 4"),
    ("build {model} --board zc706 --out {new} --design {design}.json --memory pl", BAD, "memory 'pl'"),
    ("build {model} --board zc706 --out {new} --design {other}.json", BAD, "it was made for others ('layers')"),
    ("build {model} --board zc706 --out {new} --design {design}.json --data {none}.npz", BAD, "none.npz"),
    ("build {model} --board zc706 --out {new} --design {design}.json --data {text}.npz", BAD, "text.npz"),
    ("verify {model} --board zc706 --design {design}.json --batches 0", BAD, "--batches must be whole numbers of 1..8"),
    ("verify {model} --board zc706 --design {design}.json --batches 99", BAD, "--batches"),
    ("verify {model} --board zc706 --design {design}.json --batches x", BAD, "--batches"),
    ("import-reports {none}", BAD, "design.json"),
    ("import-reports {folder}", BAD, "design.json"),
]
SIMULATIONS: list[Case] = [
    ("simulate", BAD, "needs a DESIGN or TABLE.json"),
    ("simulate {none}.json {serving}", BAD, "none.json"),
    ("simulate {text}.json {serving}", BAD, "text.json"),
    ("simulate {string}.json {serving}", BAD, "string.json"),
    ("simulate {rows}.json {serving}", BAD, "must"),
    ("simulate {half}.json {serving}", BAD, "half.json"),
    ("simulate {table}.json --slo 2ms", BAD, "--rate must be given"),
    ("simulate {table}.json --rate 9", BAD, "--slo must be given"),
    ("simulate {table}.json {serving} --rate 0", BAD, "0"),
    ("simulate {table}.json {serving} --rate -5", BAD, "-5"),
    ("simulate {table}.json {serving} --rate nan", BAD, "nan"),
    ("simulate {table}.json {serving} --rate 1e30", BAD, "at most one a nanosecond"),
    ("simulate {table}.json {serving} --slo 2", BAD, "with a unit"),
    ("simulate {table}.json {serving} --slo -2ms", BAD, "with a unit"),
    ("simulate {table}.json {serving} --slo 1e30s", BAD, "1e30s"),
    ("simulate {table}.json {serving} --policy nosuch", BAD, "policy must be one of"),
    ("simulate {table}.json {serving} --policy fluid,", BAD, "policy must be one of"),
    ("simulate {table}.json {serving} --traffic rain", BAD, "'rain'"),
    ("simulate {table}.json {serving} --traffic {none}.csv", BAD, "none.csv"),
    ("simulate {table}.json {serving} --traffic {arrivals}.csv", BAD, "arrivals.csv line 3"),
    ("simulate {table}.json {serving} --requests 0", BAD, "--requests"),
    ("simulate {table}.json {serving} --requests 100000000000", BAD, "--requests 100000000000 would need about 27"),
    ("simulate {table}.json {serving} --seeds 0", BAD, "--seeds"),
    ("simulate {table}.json {serving} --exit-rates 1", BAD, "must name 2 shares"),
    ("simulate {table}.json {serving} --confidences {none}.csv", BAD, "none.csv"),
    ("simulate {table}.json {serving} --thresholds 0.5", BAD, "--thresholds needs --confidences"),
    ("simulate {table}.json {serving} --latency-factor 0", BAD, "latency factor must be above zero"),
    ("simulate {table}.json {serving} --log {folder}", BAD, "--log '{folder}' must be a file"),
    ("simulate {table}.json {serving} --log {new}.jsonl --policy fluid:shed=1,fluid;shed=1", BAD, "a file a policy"),
    ("simulate {table}.json {serving} --report {table}.json", BAD, "--report must not be what"),
    (
        "simulate {table}.json {serving} --report {text}.csv --traffic {text}.csv",
        BAD,
        "must not be what --traffic reads",
    ),
    ("simulate --replay {none}.jsonl", BAD, "none.jsonl"),
    ("simulate --replay {text}.txt", BAD, "log"),
    ("simulate --study fame", BAD, "fame"),
    ("simulate --study fluid-batching --out {text}.txt", BAD, "must be a folder, and it is a file"),
]
SERVINGS: list[Case] = [
    ("stream {none} --rate 9 --slo 2ms", BAD, "none"),
    ("stream {folder} --rate 9 --slo 2ms", BAD, "must be a bundle"),
    ("stream {spoiled} --rate 9 --slo 2ms", BAD, "does not belong to its program.json"),
    ("stream {bundle} --rate 9 --slo 2", BAD, "with a unit"),
    ("stream {bundle} --rate nan --slo 2ms", BAD, "nan"),
    ("stream {bundle} --rate 9 --slo 2ms --policy nosuch", BAD, "policy must be one of"),
    ("stream {bundle} --rate 9 --slo 2ms --requests 0", BAD, "--requests"),
    ("stream {bundle} --rate 9 --slo 2ms --data {none}.npz", BAD, "none.npz"),
]
OTHERS: list[Case] = [
    ("exits {model} --exits 0", BAD, "--exits must be N of at least 1"),
    ("exits {model} --threshold 7", BAD, "--threshold must be"),
    ("exits {model} --out {model}", BAD, "--out must not be what MODEL reads"),
    ("exits {layers}.json", BAD, "needs a network"),
    ("train --out {folder}", BAD, "must be a file, and it is a folder"),
    ("train --architecture vgg --out {new}", BAD, "vgg"),
    ("demo --requests 0 --out {new}", BAD, "1..1000"),
    ("demo --out {text}.txt", BAD, "must be a folder, and it is a file"),
    ("demo --seed -1 --out {new}", BAD, "--seed"),
    ("nosuch", BAD, "No such command 'nosuch'"),
    ("--nosuch", BAD, "No such option '--nosuch'"),
    ("--log-level loud check {model}", BAD, "loud"),
]
CASES = [*MODELS, *SEARCHES, *PROJECTS, *SIMULATIONS, *SERVINGS, *OTHERS]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that are wrong in every way, beside those that are right."""
    top = tmp_path_factory.mktemp("world")
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        shutil.copy(path, top / "model")
        whole = path.read_bytes()
    ran = run(
        "dse", top / "model", "--board", "zc706", "--cycles", "paper", "--core", "rtl", "--out", top / "design.json"
    )
    assert ran.exit_code == 0, ran.output
    (top / "layers.json").write_text(json.dumps({"name": "one", "layers": [LAYER]}))
    ran = run("dse", top / "layers.json", "--board", "zc706", "--cycles", "paper", "--out", top / "other.json")
    assert ran.exit_code == 0, ran.output
    design = json.loads((top / "design.json").read_text())
    text = (top / "design.json").read_text()
    files: dict[str, str | bytes] = {
        "empty.onnx": "", "truncated.onnx": whole[: len(whole) // 2], "random.onnx": bytes(range(256)) * 40,
        "string.json": '"latency"', "number.json": "7", "deep.json": "[" * 100_000, "latin.json": b'{"name": "\xe9"}',
        "negative.json": json.dumps({"name": "n", "layers": [{**LAYER, "R": -1}]}),
        "lacking.json": json.dumps({"name": "n", "layers": [{"name": "conv"}]}),
        "schema.json": json.dumps({**design, "schema": 99}), "half.json": text[: len(text) // 2],
        "shallow.json": json.dumps({**design, "t_r": -4}), "table.json": json.dumps(TABLE),
        "rows.json": json.dumps({"latency_ns": [[1], [1, 2]], "exit_rates": [0.5, 0.5]}),
        "arrivals.csv": "arrival_ms\n1\nabc\n", "ragged.toml": "schema = [", "lacking.toml": 'schema = 1\nname = "b"\n',
    }  # fmt: skip
    for end in ("onnx", "json", "npz", "csv", "txt"):
        files.setdefault(f"text.{end}", "not what it should be\n")
    for name, content in files.items():
        (top / name).write_bytes(content.encode() if isinstance(content, str) else content)
    board = (Path(__file__).parents[2] / "boards" / "zc706.toml").read_text()
    (top / "minus.toml").write_text(board.replace("dsp = 900", "dsp = -900"))
    (top / "tiny.toml").write_text(board.replace("ramb36 = 545", "ramb36 = 1"))
    (top / "folder").mkdir()
    (top / "folder" / "thesis.txt").write_text("years of work")
    (top / "linked").symlink_to(top)
    ran = run(
        "build",
        top / "model",
        "--board",
        "zc706",
        "--design",
        top / "design.json",
        "--core",
        "rtl",
        "--out",
        top / "project",
    )
    assert ran.exit_code == 0, ran.output
    shutil.copytree(top / "project" / "bundle", top / "spoiled")
    program = (top / "spoiled" / "program.bin").read_bytes()
    (top / "spoiled" / "program.bin").write_bytes(program[:-1] + bytes([program[-1] ^ 1]))
    return top


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder with what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "linked" not in path.parts
    }


def spelled(words: str, world: Path) -> list[str]:
    """The words of a case with the files of the world in their places."""
    names = {"serving": "{serving}", "bundle": str(world / "project" / "bundle")}
    names |= {name: str(world / name) for name in _names(words) - set(names)}
    filled = [word.format(**names) for word in words.split()]
    return [part for word in filled for part in (SERVING if word == "{serving}" else (word,))]


def _names(words: str) -> set[str]:
    return {piece.split("}")[0] for piece in words.split("{")[1:]}


@pytest.mark.parametrize(("words", "code", "says"), CASES, ids=[words for words, _, _ in CASES])
def test_one_sentence_the_right_code_and_nothing_left(words: str, code: int, says: str, world: Path) -> None:
    before, here = contents(world), sorted(os.listdir())
    result = run(*spelled(words, world))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("fluidnpu: ")
    assert says.format(**{name: world / name for name in _names(says)}) in lines[0]
    assert not result.stdout
    assert contents(world) == before
    assert sorted(os.listdir()) == here


@pytest.mark.parametrize("words", [words for words, _, _ in CASES[::9]])
def test_scripts_get_the_same_sentence_as_one_line_of_json(words: str, world: Path) -> None:
    result = run(*spelled(words, world), "--json")
    (line,) = result.stdout.splitlines()
    assert f"fluidnpu: {json.loads(line)['error']}" == result.stderr.strip()


def test_there_are_as_many_kinds_as_the_audit_had() -> None:
    assert len({words for words, _, _ in CASES}) == len(CASES) >= 75
