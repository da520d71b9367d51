"""A first run of the vendor's tools: a small array at a slow clock, and the reports that come back of it.

`first_run_design` is what `fluidnpu build --first-run` builds; its project's `make first-run` packs one
archive, which `reports_folder` reads. An archive comes from strangers: only reports with known names are
unpacked, as plain files of bounded size.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fluidnpu.boards import Board
from fluidnpu.dse import Design, Point, build_design
from fluidnpu.models import Workload

from ..errors import ReportError
from .calibration import MOST_BYTES

CLOCK_HZ = 100_000_000
ARRAY = Point(t_r=512, t_p=4, t_c=8)  # the core that `make route` places, too
COLUMNS = "build/dsp_columns.txt"
_FOLDER = "first-run"
# What tarfile raises for headers of a stranger: numbers that are none or too large, and headers of headers.
_BAD_HEADERS = (tarfile.TarError, ValueError, OverflowError, RecursionError)
_REPORT = re.compile(rf"{_FOLDER}/(bundle/design\.json|manifest\.json|build/\w+\.\w+|hls/(?:\w+/)+\w+\.xml)")


def slow_down(board: Board) -> Board:
    """Return the board with the clock of a first run, or its own where that is slower."""
    return replace(board, clock_hz=min(board.clock_hz, CLOCK_HZ))


def first_run_design(workload: Workload, board: Board, *, memory: str | None, core: str, b_max: int) -> Design:
    """Build a small array for a network on a `slowed` board, without a search.

    Raises DesignError or FitError.
    """
    return build_design(workload, board, ARRAY, memory=memory, core=core, b_max=b_max)


@contextmanager
def reports_folder(path: Path) -> Iterator[Path]:
    """Yield the folder of a project's reports: `path` itself, or what the archive of a first run holds.

    Raises ReportError for a file that is no such archive.
    """
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="fluidnpu-") as scratch:
        _unpack(path, Path(scratch))
        yield Path(scratch) / _FOLDER


def _unpack(archive: Path, out: Path) -> None:
    wanted = f"'{archive}' must be a project's folder, or the archive that its `make first-run` has packed"
    content = b""
    try:
        with gzip.open(archive) as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as members:
                _write_reports(members, out)
    except (EOFError, OSError, zlib.error, *_BAD_HEADERS) as error:
        raise ReportError(f"{wanted}, and it cannot be read: {str(error)[:120]}") from None
    if len(content) > MOST_BYTES:
        raise ReportError(f"'{archive}' must hold at most {MOST_BYTES >> 20} MiB, and it holds more")
    if not (out / _FOLDER / "bundle" / "design.json").exists():
        raise ReportError(f"{wanted}, and it holds no {_FOLDER}/bundle/design.json")


def _write_reports(members: tarfile.TarFile, out: Path) -> None:
    """Write the members with known names; a sparse one is left out, since a header gives its size."""
    for member in members:
        plain = member.isreg() and not member.issparse() and _REPORT.fullmatch(member.name)
        file = members.extractfile(member) if plain else None
        if file is not None:
            place = out / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read())


def dsp_columns(text: str) -> tuple[tuple[int, int], ...]:
    r"""Read the columns of DSP slices that a run has listed: (height, count), the highest first.

    >>> dsp_columns("DSP48_X0 140 DSP48_X1 100 DSP48_X2 140".replace(" D", "\nD"))
    ((140, 2), (100, 1))
    """
    return _joined((int(height), 1) for height in re.findall(r"^DSP48\w+ (\d{1,6})$", text, re.MULTILINE))


def _joined(columns: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    counts: Counter[int] = Counter()
    for height, count in columns:
        counts[height] += count
    return tuple(sorted(counts.items(), reverse=True))


def compare_columns(folder: Path, board: Board) -> str:
    """Say whether a device has the columns of the board's file; "" where no run has listed them."""
    file = folder / COLUMNS
    listed = dsp_columns(file.read_text(errors="replace")) if file.is_file() else ()
    if not listed:
        return ""
    given = _joined(board.dsp_columns)
    if listed == given:
        return f"columns of DSP slices: {_words(listed)}, as the file of {board.name} says"
    return f"columns of DSP slices: {_words(listed)}, and the file of {board.name} says {_words(given)}"


def _words(columns: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(f"{count} of {height}" for height, count in columns) or "nothing of them"
