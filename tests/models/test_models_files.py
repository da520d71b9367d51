"""Files are whole or not there: full disks, protected places, links, devices, killed writers, two at once."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.models import FileError
from fluidnpu.models.errors import BusyError, WriteError
from fluidnpu.models.files import check_place, is_leftover, one_writer, write_file, write_files, writing

NOBODY = 65534


@pytest.fixture(params=[True, False], ids=["nameless", "named"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to a whole file: by a nameless one, and by a named one where the system has none."""
    if not request.param:
        monkeypatch.setattr(writing, "_open_nameless", lambda folder: None)


def left(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(content=st.binary(max_size=200), old=st.none() | st.binary(max_size=200))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, content: bytes, old: bytes | None) -> None:
    folder = tmp_path_factory.mktemp("files")
    if old is not None:
        (folder / "f").write_bytes(old)
    write_file(folder / "f", content)
    assert left(folder) == {"f": content}


@pytest.mark.usefixtures("either")
def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_file(tmp_path / "new", "x")
    finally:
        os.umask(mask)
    (tmp_path / "old").write_text("y")
    (tmp_path / "old").chmod(0o604)
    write_file(tmp_path / "old", "x")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "old")] == [0o640, 0o604]


@pytest.mark.usefixtures("either")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a/file")
    write_file(tmp_path / "link", "through")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a" / "file").read_text() == "through"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        write_file(pipe, "text")
        assert reader.communicate()[0] == b"text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    check_place(os.devnull)
    write_file(os.devnull, "text")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_when_the_disk_gives_out_old_files_stay_and_the_sentence_names_the_file(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("old one")
    (tmp_path / "two").write_text("old two")
    before, write = left(tmp_path), os.write

    def give_out(handle: int, data: memoryview) -> int:
        if len(data) > 2:
            return write(handle, data[:2])  # half of it first
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", give_out)
        with pytest.raises(WriteError, match=r"two' could not be written \(.*\); nothing half-written was kept"):
            write_files({tmp_path / "one": "", tmp_path / "two": "new", tmp_path / "new" / "three": ""})
    assert left(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_a_limit_of_the_process_is_a_full_disk(tmp_path: Path) -> None:
    """A real refusal of the system, without a file system of our own."""
    (tmp_path / "big").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(WriteError, match=r"big' could not be written \(File too large\)"):
            write_file(tmp_path / "big", bytes(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left(tmp_path) == {"big": b"old"}


def test_a_small_file_system_is_filled(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("only root may mount")
    try:
        write_file(tmp_path / "f", "old")
        with pytest.raises(WriteError, match=r"f' could not be written \(No space left on device\)"):
            write_file(tmp_path / "f", bytes(1 << 17))
        assert left(tmp_path) == {"f": b"old"}
        write_file(tmp_path / "f", "new")
        assert left(tmp_path) == {"f": b"new"}
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_places_that_cannot_be_written_are_told_before_and_while(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path, why in {
        tmp_path: "must be a file, and it is a folder",
        tmp_path / "file" / "inside": "Not a directory|and '.*file' is a file",
        Path("/proc/nothing/here"): "must be a place that can be written",
        tmp_path / ("n" * 300): "File name too long",
    }.items():
        for attempt in (check_place, lambda place: write_file(place, "x")):
            with pytest.raises(FileError, match=why):
                attempt(path)
    with pytest.raises(FileError, match="must be a folder, and it is a file"):
        check_place(tmp_path / "file", folder=True)
    check_place(tmp_path / "not" / "yet" / "there")
    check_place(tmp_path / "not" / "yet", folder=True)
    check_place(tmp_path, folder=True)
    assert left(tmp_path) == {"file": b"text"}
    assert not (tmp_path / "not").exists()


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A folder, and rights that end somewhere: root, who may write everywhere, is nobody for a while."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.geteuid() == 0
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)


def test_a_protected_folder_and_a_protected_file_are_told(nobodys_folder: Path) -> None:
    (nobodys_folder / "closed").mkdir(mode=0o500)
    (nobodys_folder / "mine").write_text("mine")
    (nobodys_folder / "mine").chmod(0o400)
    for path in (nobodys_folder / "closed" / "f", nobodys_folder / "mine"):
        for attempt in (check_place, lambda place: write_file(place, "x")):
            with pytest.raises(FileError, match="Permission denied"):
                attempt(path)
    assert (nobodys_folder / "mine").read_text() == "mine"


WRITER = """
import sys
from pathlib import Path
from fluidnpu.models.files import write_files, writing
if sys.argv[2] == "named":
    writing._open_nameless = lambda folder: None
folder, turn = Path(sys.argv[1]), 0
print("begins", flush=True)
while True:
    turn += 1
    write_files({folder / name: f"{turn}\\n" * 20000 for name in ("a", "b")})
"""


@pytest.mark.parametrize("way", ["nameless", "named"])
def test_a_writer_killed_at_any_time_leaves_whole_files(way: str, tmp_path: Path) -> None:
    """SIGKILL cannot be handled; every file holds one turn, and the next writer leaves nothing else."""
    for pause in (0.004, 0.021, 0.037):
        with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, way], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(pause)
            writer.send_signal(signal.SIGKILL)
        for name, content in left(tmp_path).items():
            turns = len(set(content.split())) == 1 and content.count(b"\n") == 20000
            whole = turns or content == b"next"  # a busy machine kills the writer before its first turn
            assert whole or is_leftover(Path(name)), name
        if way == "nameless":
            assert sum(map(is_leftover, tmp_path.iterdir())) <= 1  # between a link and a move lie microseconds
        write_file(tmp_path / "a", "next")
        assert not any(map(is_leftover, tmp_path.iterdir()))


def test_one_writer_a_folder_also_between_processes(tmp_path: Path) -> None:
    code = "import sys; from fluidnpu.models.files import one_writer\nwith one_writer(sys.argv[1]): pass"
    with one_writer(tmp_path):
        with pytest.raises(BusyError, match="must have one writer at a time"), one_writer(tmp_path):
            pass
        other = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
        assert "BusyError" in other.stderr
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert not any(tmp_path.iterdir())


def test_a_folder_made_for_a_lock_goes_unless_it_was_filled(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a" / "b"):
        pass
    assert not any(tmp_path.iterdir())
    with one_writer(tmp_path / "a"):
        write_file(tmp_path / "a" / "f", "x")
    assert left(tmp_path) == {"a/f": b"x"}
