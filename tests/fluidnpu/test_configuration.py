"""`--config` and `fluidnpu config check`: a file says what a command line would, a wrong line is named."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.commands.helpers.configuration import COMMANDS, Configuration
from fluidnpu.models import shipped_file

GOOD = """# a node
[serve]
bundles = [
    "demo=project",
]
http = 0
slo = "20ms"

[stream]
bundle = "project"
rate = 3000
slo = "2ms"
requests = 5
"""


@pytest.fixture(scope="module")
def project(few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "project"
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ("build", str(model), "--board", "zc706", "--cycles", "paper", "--data", str(few_images))
        assert CliRunner().invoke(main, [*words, "--out", str(folder)]).exit_code == 0
    return folder


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def written(folder: Path, text: str, project: Path) -> Path:
    """A file whose paths begin at its own folder, which is not this process's."""
    (folder / "project").symlink_to(project)
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_file_is_checked_and_its_bundles_are_loaded(project: Path, tmp_path: Path) -> None:
    file = written(tmp_path, GOOD, project)
    done = run("config", "check", file)
    assert done.exit_code == 0, done.output
    assert f"'{file}' is right: fluidnpu serve --config {file}" in done.stdout
    assert json.loads(run("config", "check", file, "--json").stdout)["commands"] == ["serve", "stream"]


def test_words_of_the_command_line_go_before_the_file(project: Path, tmp_path: Path) -> None:
    file = written(tmp_path, GOOD, project)
    assert json.loads(run("stream", "--config", file, "--json").stdout)["answered"] == 5
    assert json.loads(run("stream", "--config", file, "--requests", 3, "--json").stdout)["answered"] == 3
    refused(run("stream", "--config", file, tmp_path / "none"), "none")


WRONG = [  # a line of `GOOD` by its number, another in its place, and the words of the refusal
    (6, 'http = "0"', "http is wrong: it must be a number, not '0'"),
    (6, "http = 70000", "http is wrong: 70000 is not in the range"),
    (6, "http = true", "it must be a number, not True"),
    (6, "httpp = 0", "a key of [serve] must be one of adapt,"),
    (6, "httpp = 0", "not 'httpp'; did you mean 'http'?"),
    (3, 'bundles = "demo=project"\nrest = [', "bundles is wrong: it must be a list of texts"),
    (7, 'slo = "20"', "with a unit"),
    (7, 'slo = "20ms"\npolicy = "nosuch"', "policy must be one of"),
    (7, 'slo = "20ms"\nguarded = 1', "guarded is wrong: it must be true or false, not 1"),
    (7, 'slo = "20ms"\ntoken-file = "absent"', "absent' could not be used: No such file"),
    (7, 'slo = "20ms"\ncriteria = "confidenc > 0.5"', "not 'confidenc'; did you mean 'confidence'?"),
    (7, 'slo = "20ms"\ntls-cert = "a.pem"', "--tls-cert must come with --tls-key, which is missing"),
    (7, 'slo = "20ms"\ntls-key = "a.pem"', "--tls-key must come with --tls-cert, which is missing"),
    (7, 'slo = "20ms"\nspans = "collector:4318"', "spans must go to http://HOST:PORT"),
    (4, '    "demo=gone",', "gone"),
    (9, "[serving]", "a table must be one of serve, stream, fleet, not 'serving'"),
    (13, "requests = 5000", "--requests must be at most"),
    (12, 'slo = "2 parsecs"', "with a unit"),
    (11, "rate = nan", "nan"),
    (12, 'slo = "2ms"\npolicy = "nosuch"', "policy must be one of"),
]


@pytest.mark.parametrize(("number", "line", "said"), WRONG, ids=[line + said[:9] for _, line, said in WRONG])
def test_a_wrong_line_is_named(number: int, line: str, said: str, project: Path, tmp_path: Path) -> None:
    lines = GOOD.splitlines()
    lines[number - 1] = line
    file = written(tmp_path, "\n".join(lines), project)
    first = number - 1 if number == 4 else number + line.count("\n") * ("rest" not in line)  # a list begins at its key
    refused(run("config", "check", file), f"'{file}', line {first}: ", said)


def test_what_is_no_configuration(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for text, said in (
        (
            "[serve\n",
            "must be TOML, and it is not",
        ),
        ("", "must have a table, such as [serve], and it has none"),
        ("serve = 5", "line 1: a table must be one of serve, stream, fleet"),
    ):
        file.write_text(text)
        refused(run("config", "check", file), said)
    file.write_text("[fleet]\n")
    refused(run("serve", "--config", file), f"'{file}' must have the table [serve], and it has [fleet]")
    refused(run("config", "check", tmp_path / "none.toml"), "none.toml")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_may_hold_every_option(name: str, tmp_path: Path) -> None:
    """Each option and argument has a key, of the kind that its help shows."""
    command: click.Command = import_module(f"fluidnpu.commands.{name}").command
    lines = [f"[{name}]"]
    for param in command.params:
        if param.name in ("config", "help"):
            continue
        key = max(param.opts, key=len).lstrip("-") if isinstance(param, click.Option) else str(param.name)
        lines.append(f"{key} = {of_kind(param)}")
    file = tmp_path / "all.toml"
    file.write_text("\n".join(lines))
    values = Configuration.read(file).values(command, name)
    assert len(values) == len(lines) - 1
    assert all(str(values[key]) == f"{tmp_path}/word" for key in values if key in ("tenants", "data", "plan", "fleet"))


def test_a_word_in_the_place_of_a_path_stays_one(project: Path, tmp_path: Path) -> None:
    (tmp_path / "images.npz").write_bytes(b"")
    text = GOOD.replace("requests = 5", 'classes = "none"\ndata = "images.npz"\npower = "2,6"')
    file = written(tmp_path, text, project)
    command: click.Command = import_module("fluidnpu.commands.stream").command
    values = Configuration.read(file).values(command, "stream")
    assert (values["classes_file"], values["power"]) == ("none", "2,6")
    assert values["data"] == str(tmp_path / "images.npz")


def of_kind(param: click.Parameter) -> Any:
    if param.nargs == -1:
        return '["word"]'
    if isinstance(param, click.Option) and param.is_flag:
        return "true"
    if isinstance(param.type, click.IntRange | click.types.FloatParamType):
        return 1
    choices: Sequence[str] = getattr(param.type, "choices", ("word",))
    return f'"{choices[0]}"'


# -- the three commands --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_two_screens_and_begins_with_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(name, "--help").stdout.splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80
    assert 1 < lines.index("Examples:") < lines.index("Options:") < 25
    assert sum(line.startswith(f"  fluidnpu {name} ") for line in lines) >= 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "serve x --rate 9 --slo 2ms",
            "must have --http, --grpc or --unix, and it has none; `fluidnpu stream` measures",
        ),
        ("serve x --requests 5", "serve has no --requests: write `fluidnpu stream BUNDLE --requests ...`"),
        ("serve x --data y", "serve has no --data: write `fluidnpu stream BUNDLE --data ...`"),
        ("serve --fleet f.toml --http 0", "serve has no --fleet: write `fluidnpu fleet FILE.toml`"),
        ("serve x --audit 5", "serve has no --audit: write `fluidnpu fleet FILE.toml --audit ...`"),
        ("stream x --http 0", "stream has no --http: write `fluidnpu serve [NAME=]BUNDLE... --http ...`"),
        ("serve x --nonsense", "No such option"),
    ],
)
def test_an_older_spelling_is_refused_with_the_one_of_today(words: str, said: str) -> None:
    refused(run(*words.split()), said)
