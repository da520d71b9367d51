"""What belongs to a release agrees with itself: version, citation, changelog, workflows, forms and pins."""

import os
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from importlib.metadata import requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import fluidnpu
from fluidnpu.cli import main
from fluidnpu.dse import Design

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
FORMS = sorted(p for p in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml")


def loaded(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


# -- version and command --


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True)


def test_the_version_is_that_of_pyproject() -> None:
    assert fluidnpu.__version__ == PROJECT["version"]
    assert str(Version(fluidnpu.__version__)) == fluidnpu.__version__


def test_python_m_is_the_console_command() -> None:
    script = Path(sys.executable).with_name("fluidnpu")
    for words in (("--version",), ("--help",), ("dse", "--help"), ("dse", "none.onnx", "--board", "zc706"), ("nope",)):
        ours = python("-m", "fluidnpu", *words)
        theirs = subprocess.run([script, *words], capture_output=True, text=True)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert python("-m", "fluidnpu", "--version").stdout == f"fluidnpu, version {fluidnpu.__version__}\n"
    assert python("-m", "fluidnpu", "nope").returncode == 2


# -- citation --


def plain(text: str) -> str:
    """Without accents, so that Dělen and Délen are one name."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def test_the_citation_names_version_and_papers() -> None:
    citation = loaded(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "type"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert Version(citation["version"]) == Version(PROJECT["version"])
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]
    assert len(citation["references"]) == 5
    for paper in citation["references"]:
        assert {"type", "title", "authors"} <= set(paper)
        assert all("name" in one or {"given-names", "family-names"} <= set(one) for one in paper["authors"])
        assert "year" in paper or paper["type"] == "unpublished"


def test_every_paper_of_the_page_is_cited() -> None:
    references = loaded(ROOT / "CITATION.cff")["references"]
    page = (ROOT / "docs/explanation/papers.md").read_text()
    bullets = re.findall(r"^- \*\*(.+?)\*\*(.*?)(?=^- |\Z)", page, re.M | re.S)
    assert len(bullets) == len(references)
    for name, text in bullets:
        word = plain(name.removesuffix(" et al."))
        (paper,) = [one for one in references if word in plain(str(one))]
        if title := re.search(r"\*(.+?)\*", " ".join(text.split())):
            assert paper["title"] == title[1].rstrip(".")
        for digits in re.findall(r"doi\.org/(\S+?)\)", text):
            assert paper["doi"] == digits


# -- changelog --


def test_the_changelog_is_what_a_user_reads() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.M)
    assert len(sections) == text.count("\n## ")
    current = Version(PROJECT["version"])
    first, dated = sections[0]
    assert (first, bool(dated)) == (("Unreleased", False) if current.is_devrelease else (str(current), True))
    versions = [Version(name) for name, date in sections if date]
    assert versions == sorted(versions, reverse=True)
    assert len(versions) >= len(sections) - 1  # all but the first are dated
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }
    entries = re.findall(r"^- ", text.split("\n## ")[1], re.M)
    assert len(entries) <= 100, "an entry is what a user notices; the rest is for git and decisions"


# -- the forge's files --


def steps(workflow: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            yield job, step


def runs(path: Path) -> Iterator[str]:
    """The commands of a workflow, one for each target that its job's matrix names."""
    for job, step in steps(loaded(path)):
        for target in job.get("strategy", {}).get("matrix", {}).get("target", [""]):
            yield step.get("run", "").replace("${{ matrix.target }}", target)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_a_workflow_is_one(path: Path) -> None:
    workflow = loaded(path)
    assert {"name", True, "jobs", "permissions"} <= set(workflow)  # YAML reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    for job, step in steps(workflow):
        assert {"runs-on", "timeout-minutes"} <= set(job)
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v0"))


def test_every_target_of_a_workflow_can_be_made() -> None:
    words = {word for path in WORKFLOWS for run in runs(path) for word in re.findall(r"(?<!\S)make ([\w./-]+)", run)}
    assert {"docs", "tables", "test-long", "test-matrix", "test-rtl"} <= words
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    for word in sorted(words):
        done = subprocess.run(["make", "-n", word], cwd=ROOT, env=env, capture_output=True, text=True)
        assert "No rule to make target" not in done.stderr, f"make {word}"
        assert done.returncode == 0, done.stderr


def test_every_file_of_a_workflow_exists() -> None:
    named = {
        word
        for path in WORKFLOWS
        for run in runs(path)
        for word in re.findall(r"(?:\.ci|tests|docs|benchmarks)/[\w./-]+|\w+\.toml|constraints\.txt", run)
    }
    assert len(named) > 20
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]


def test_the_matrix_and_the_classifiers_are_one_list() -> None:
    jobs = loaded(FORGE / "workflows/ci.yml")["jobs"]
    tested = {one["python"] for one in jobs["board-side"]["strategy"]["matrix"]["include"]}
    tested.add(re.search(r"python:(\d\.\d+)", jobs["test"]["container"])[1])  # type: ignore[index]
    prefix = "Programming Language :: Python :: "
    assert tested == {one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)}


@pytest.mark.parametrize("path", FORMS, ids=lambda p: p.stem)
def test_a_form_asks_for_what_can_be_had(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= set(form)
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert part["attributes"]["label"]
    asked = re.findall(r"`(fluidnpu [^`]+)`", str(form))
    assert "fluidnpu doctor --json" in asked
    for line in asked:
        check_command(line)


def check_command(line: str) -> None:
    """Every subcommand and every option of the line exists."""
    command: click.Command = main
    context = click.Context(main)
    for word in shlex.split(line)[1:]:
        if word.startswith("--"):
            assert any(word in one.opts for one in command.get_params(context)), line
        elif isinstance(command, click.Group) and (found := command.get_command(context, word)):
            command = found


def test_a_command_that_does_not_exist_is_found() -> None:
    with pytest.raises(AssertionError):
        check_command("fluidnpu doctor --nope")


def test_the_digest_is_found_as_the_form_says() -> None:
    form = (FORGE / "ISSUE_TEMPLATE/bug.yml").read_text()
    (words,) = re.findall(r"`(grep [^`]+)`", form)
    folder = ROOT / "tests/reference/bundle_0.1"
    done = subprocess.run(shlex.split(words), cwd=folder, capture_output=True, text=True, check=True)
    design = Design.loads((folder / "design.json").read_text(), "design.json")
    assert design.digest in done.stdout.splitlines()[0]


def test_the_chooser_links_to_the_project() -> None:
    links = loaded(FORGE / "ISSUE_TEMPLATE/config.yml")["contact_links"]
    assert all(link["url"].startswith(PROJECT["urls"]["Homepage"]) for link in links)
    for link in links:
        if "/blob/main/" in link["url"]:
            assert (ROOT / link["url"].partition("/blob/main/")[2]).is_file()


# -- pins --


def plain_name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = dict(line.split("==") for line in lines if not line.startswith("#"))
    return {plain_name(name): pinned for name, pinned in found.items()}


def test_every_pin_is_what_pyproject_asks_for() -> None:
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    asked = [one for words in lists for one in map(Requirement, words) if one.specifier]
    pinned = [(one, pins()[plain_name(one.name)]) for one in asked if plain_name(one.name) in pins()]
    assert len(pinned) > 20
    assert not [(str(one), found) for one, found in pinned if found not in one.specifier]


VULNERABLE = {
    "grpcio": ("1.64.0", "1.64.1", "1.65.1", "1.65.2"),  # CVE-2024-7246
    "protobuf": ("5.29.4", "6.30.2", "6.31.0"),  # CVE-2025-4565
    "starlette": ("0.47.1", "0.49.0"),  # CVE-2025-54121, CVE-2025-62727
}


def test_a_server_is_not_installed_with_known_faults() -> None:
    asked = {one.name: one.specifier for one in map(Requirement, PROJECT["optional-dependencies"]["serve"])}
    for name, versions in VULNERABLE.items():
        assert not [found for found in versions if found in asked[name]]
        assert pins()[name] not in versions


def test_pynq_is_installed_without_its_pins() -> None:
    """Its tests are skipped where it is missing, so that it is here is asked for once."""
    assert find_spec("pynq") is not None, "pip install -c constraints.txt --no-deps pynq"
    names = {plain_name(Requirement(one).name) for one in requires("pynq") or ()}
    ours = {plain_name(Requirement(one).name) for one in PROJECT["optional-dependencies"]["board"]}
    assert names - {"grpcio", "grpcio-tools"} <= ours
    assert Version(version("grpcio")) == Version(pins()["grpcio"])


def test_only_two_packages_miss_what_they_ask_for() -> None:
    """Those that are installed without dependencies: hls4ml for its headers, PYNQ for its pin of gRPC."""
    done = python("-m", "pip", "check", "--disable-pip-version-check")
    complaints = {plain_name(line.split()[0]) for line in done.stdout.splitlines()}
    assert complaints & set(pins()) <= {"pynq"}, done.stdout
