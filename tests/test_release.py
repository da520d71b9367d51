"""Version and console command are one, and the forge's workflows call what exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import fluidnpu

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_is_that_of_pyproject_and_of_the_citation() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert fluidnpu.__version__ == str(Version(version)) == str(Version(citation["version"]))


@pytest.mark.parametrize("words", ["--version", "dse --help", "nope"])
def test_python_m_is_the_console_command(words: str) -> None:
    command = [str(Path(sys.executable).with_name("fluidnpu")), *words.split()]
    module = [sys.executable, "-m", "fluidnpu", *words.split()]
    theirs, ours = (subprocess.run(each, capture_output=True, text=True) for each in (command, module))
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert ours.returncode == (2 if words == "nope" else 0)
    assert words != "--version" or ours.stdout == f"fluidnpu, version {fluidnpu.__version__}\n"


def commands() -> list[str]:
    """The commands of the workflows, one for each target that its job's matrix names."""
    return [
        step.get("run", "").replace("${{ matrix.target }}", target)
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
        for target in job.get("strategy", {}).get("matrix", {}).get("target", [""])
    ]


def test_every_target_of_a_workflow_can_be_made() -> None:
    targets = {word for run in commands() for word in re.findall(r"(?<!\S)make ([\w./-]+)", run)}
    assert {"docs", "tables", "test-long", "test-matrix", "test-rtl"} <= targets
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", *targets], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_file_of_a_workflow_exists() -> None:
    paths = re.compile(r"(?:\.ci|tests|docs|benchmarks)/[\w./-]+|\w+\.toml|constraints\.txt")
    named = {path for run in commands() for path in paths.findall(run)}
    assert len(named) > 20
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]
