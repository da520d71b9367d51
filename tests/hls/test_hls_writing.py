"""Writing a project: only files that an earlier project wrote and nobody changed are replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hls_cases import project_of

from fluidnpu.hls import ProjectError, write_project


def test_writing_again_removes_what_is_no_longer_part(tmp_path: Path) -> None:
    write_project(project_of("zc706"), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    files = project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"})
    write_project(files, tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*files, "notes.txt"}


def test_no_empty_folder_of_the_other_core_is_left(tmp_path: Path) -> None:
    write_project(project_of("zc706"), tmp_path)
    write_project(
        project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"}), tmp_path
    )
    assert not (tmp_path / "hls").exists()
    assert [path for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())] == []


MANIFESTS = {
    "none": None,
    "a list": '{"files": ["thesis.txt"]}',
    "a number": '{"files": 5}',
    "nothing": "null",
    "another schema": json.dumps({"schema": 0, "design": "", "build_id": "", "files": {"thesis.txt": 64 * "0"}}),
    "no digest": json.dumps({"schema": 1, "design": "", "build_id": "", "files": {"thesis.txt": 5}}),
    "outside": json.dumps({"schema": 1, "design": "", "build_id": "", "files": {"../thesis.txt": 64 * "0"}}),
    "binary": "\ufffe\0",
}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_a_folder_that_is_not_a_project_is_left_alone(manifest: str | None, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = contents(tmp_path)
    with pytest.raises(ProjectError, match="holds files without a manifest of one"):
        write_project(project_of("zc706"), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["README.md", "hls/src/params.h"], ids=["to be replaced", "to be removed"])
def test_a_file_that_was_changed_since_is_not_lost(name: str, tmp_path: Path) -> None:
    write_project(project_of("zc706"), tmp_path)
    (tmp_path / name).write_text("my own words")
    before = contents(tmp_path)
    other = project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"})
    with pytest.raises(ProjectError, match=rf"nobody changed since, and '.*{name}' is none"):
        write_project(other, tmp_path)
    assert contents(tmp_path) == before
    (tmp_path / name).unlink()
    write_project(other, tmp_path)


@pytest.mark.parametrize("over", [False, True], ids=["a new folder", "an earlier project"])
def test_whoever_is_stopped_in_the_middle_may_write_again(
    over: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = project_of("zc706")
    if over:
        write_project(project_of("zcu104"), tmp_path)
    write_bytes, left = Path.write_bytes, 5

    def stopped(path: Path, content: bytes) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", stopped)
        with pytest.raises(KeyboardInterrupt):
            write_project(files, tmp_path)
    write_project(files, tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text()) == json.loads(files["manifest.json"])


@pytest.mark.parametrize("name", ["rtl/core_pe.sv", "hls", "docs/registers.md/mine"])
def test_what_lies_in_the_way_is_not_lost(name: str, tmp_path: Path) -> None:
    """A file of the user's where the new project has another, or a folder; a folder where it has a file."""
    old = {key: text for key, text in project_of("zc706").items() if not key.startswith(("hls/", "docs/"))}
    manifest = json.loads(old.pop("manifest.json"))
    manifest["files"] = {key: manifest["files"][key] for key in old}
    write_project(old | {"manifest.json": json.dumps(manifest)}, tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ProjectError, match="is none: move it away"):
        write_project(project_of("zc706", rtl={"core_pe.sv": "// ours"}) | {"rtl/core_pe.sv": "// ours"}, tmp_path)
    assert contents(tmp_path) == before
