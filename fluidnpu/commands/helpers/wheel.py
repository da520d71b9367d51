"""A wheel of this very fluidnpu for the board's Python, byte for byte the same each time.

No build tool is needed: a wheel is an archive of the package's files with three of metadata (PyPA, "Binary
distribution format"). RTL, templates, networks and studies stay out: a board serves, it designs nothing. Of
the extras it has the one that a server needs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from ...errors import NegativeAnswerError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FRONT = Path(__file__).resolve().parents[2]  # the folder `fluidnpu`
_CHECKOUT = not (_FRONT / "boards").is_dir()  # the rooms lie beside it
_DATE = (1980, 1, 1, 0, 0, 0)
ROOMS = ("boards", "dse", "hls", "host", "models", "rtl_tb", "scheduler")  # of a board: all but `studies`
EXTRA = "serve"
_SUFFIXES = {".py", ".pyi", ".toml", ".json", ".npz", ".typed", ".fashion-mnist"}


def board_wheel() -> tuple[str, bytes]:
    """Make the wheel: (file name, content). NegativeAnswerError where fluidnpu's metadata cannot be found."""
    version, needs = _requirements()
    files = {f"fluidnpu/{name}": path.read_bytes() for name, path in _package_files().items()}
    info = f"fluidnpu-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: fluidnpu\nVersion: {version}\nLicense: Apache-2.0\nRequires-Python: >=3.10\n"
        f"Provides-Extra: {EXTRA}\n{needed}"
    ).encode()
    files[f"{info}/LICENSE"] = _license()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: fluidnpu\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nfluidnpu = fluidnpu.cli:main\n"
    record = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in sorted(files.items())]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return f"fluidnpu-{version}-py3-none-any.whl", packed.getvalue()


def _package_files() -> dict[str, Path]:
    """Map the package's files that a board needs, as paths in it, to their places."""
    inside = {path.name: path for path in _FRONT.iterdir() if path.name not in ("studies", *ROOMS)}
    rooms = {room: (_FRONT.parent if _CHECKOUT else _FRONT) / room for room in ROOMS}
    places = {
        f"{name}/{path.relative_to(top).as_posix()}" if path != top else name: path
        for name, top in (inside | rooms).items()
        for path in (top, *top.rglob("*"))
    }
    return {
        name: path
        for name, path in sorted(places.items())
        if (path.suffix in _SUFFIXES or name.startswith("host/")) and path.is_file() and path.suffix != ".pyc"
    }


def _requirements() -> tuple[str, list[str]]:
    """Version and requirements, those of `EXTRA` with its marker.

    They are those of the checkout's pyproject.toml, or else of the installed metadata.
    """
    project = _FRONT.parent / "pyproject.toml"
    if _CHECKOUT and project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        base, extra = table["dependencies"], table["optional-dependencies"][EXTRA]
        return table["version"], [*map(_canonical, base), *(_canonical(need, f'extra == "{EXTRA}"') for need in extra)]
    try:
        facts = metadata.metadata("fluidnpu")
    except metadata.PackageNotFoundError:
        raise NegativeAnswerError("the board's wheel needs fluidnpu's own metadata, and it is not installed") from None
    needs = facts.get_all("Requires-Dist", [])
    return facts["Version"], [need for need in needs if "extra ==" not in need or f'extra == "{EXTRA}"' in need]


def _canonical(need: str, extra: str = "") -> str:
    """Write a requirement as installed metadata have it, with the marker of an extra behind its own."""
    package, _, marker = (part.strip() for part in need.replace("'", '"').partition(";"))
    name = re.match(r"[\w.-]+", package)
    assert name is not None
    versions = ",".join(sorted(part.strip() for part in package[name.end() :].split(",") if part.strip()))
    marker = f"({marker})" if extra and " or " in marker else marker
    markers = " and ".join(filter(None, (marker, extra)))
    return f"{name[0]}{versions}{'; ' if markers else ''}{markers}"


def _license() -> bytes:
    """The licence's text, of the checkout or of the installed distribution."""
    if _CHECKOUT:
        return (_FRONT.parent / "LICENSE").read_bytes()
    licences = [file for file in metadata.files("fluidnpu") or () if file.name == "LICENSE"]
    if not licences:
        raise NegativeAnswerError("the board's wheel needs fluidnpu's licence, and it is not installed with it")
    return licences[0].read_binary()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
