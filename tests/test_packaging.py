"""The wheel holds all that the packages read at run time, and none of the tests."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = {
    "boards": ("*.toml",),
    "models": ("data/*",),
    "dse": ("resources/*.json",),
    "hls": ("templates/*/*", "csim/*"),
    "rtl_tb": ("*/rtl/*.sv", "*/proofs/*", "**/*.sv", "**/*.h", "**/*.cpp", "README.md"),
    "scheduler": ("policies/tuned/*.json",),
    "studies": ("*/templates/*", "*/data/*"),
    "fluidnpu": ("py.typed", "reports/templates/*"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    source = tmp_path_factory.mktemp("source")  # setuptools leaves build folders where it works
    for name in tracked.stdout.splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():  # a room's link inside the front door
            (source / name).symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("fluidnpu-*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_all_code_and_data_are_inside(wheel: set[str]) -> None:
    for room, patterns in {**DATA, "host": ()}.items():
        inside = Path() if room == "fluidnpu" else Path("fluidnpu")
        wanted = {path for pattern in ("**/*.py", "**/*.pyi", *patterns) for path in (ROOT / room).glob(pattern)}
        names = {str(inside / p.relative_to(ROOT)) for p in wanted if p.is_file() and "__pycache__" not in p.parts}
        assert names
        assert names <= wheel, f"missing in the wheel: {sorted(names - wheel)}"


def test_tests_stay_outside(wheel: set[str]) -> None:
    assert not [name for name in wheel if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_the_wheel_has_one_top_level_name(wheel: set[str]) -> None:
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"fluidnpu"}
