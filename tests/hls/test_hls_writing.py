"""Writing a project: only files that an earlier project wrote and nobody changed are replaced."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hls_cases import project_of

from fluidnpu.hls import ProjectError, write_project
from fluidnpu.hls.project import is_whole, project_folder
from fluidnpu.models.errors import BusyError, WriteError


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


def stopped_after(moves: int, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str | bytes], folder: Path) -> None:
    """Write a project, and be stopped when `moves` of its files are in their places."""
    replace, left = os.replace, moves

    def stopped(source: Path, target: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            write_project(files, folder)


@pytest.mark.parametrize("again", ["zc706", "zcu104", "other"])
@pytest.mark.parametrize("over", [False, True], ids=["a new folder", "an earlier project"])
@pytest.mark.parametrize("moves", [0, 1, 5, 20])
def test_whoever_is_stopped_in_the_middle_may_write_again(
    moves: int, over: bool, again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same project, the one before, or a third: all of the user's is kept, nothing of ours is left."""
    if over:
        write_project(project_of("zcu104"), tmp_path)
        (tmp_path / "notes.txt").write_text("mine")
    stopped_after(moves, monkeypatch, project_of("zc706"), tmp_path)
    assert is_whole(tmp_path) == (moves == 0)
    core = {"fluidnpu_core.sv": "module fluidnpu_core; endmodule"}
    files = project_of("zcu104", core="rtl", rtl=core) if again == "other" else project_of(again)
    write_project(files, tmp_path)
    left = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    left.pop("notes.txt", None)
    assert left == {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    assert is_whole(tmp_path)


def test_a_full_disk_leaves_the_earlier_project_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(project_of("zcu104"), tmp_path)
    before, written, write = contents(tmp_path), 0, os.write

    def full(handle: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written > 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(WriteError, match=f"'{tmp_path}/.*' could not be written .No space left on device.; "):
            write_project(project_of("zc706"), tmp_path)
    assert contents(tmp_path) == before


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    with project_folder(folder) as write:
        with pytest.raises(BusyError, match=f"'{folder}' must have one writer at a time"):
            write_project(project_of("zcu104"), folder)
        write(project_of("zc706"))
    assert json.loads((folder / "manifest.json").read_text()) == json.loads(project_of("zc706")["manifest.json"])


def test_a_folder_that_was_held_for_nothing_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), project_folder(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert not any(tmp_path.iterdir())


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
