"""The models of one server by their names: bundles on NPUs of their own, or side by side on one.

Where tenants name their networks, the bundles of these names share one NPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import DriverUsageError, UnknownModelError
from .model import Model
from .options import BOARDS, ModelOptions
from .resident import Resident

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
VERSION = "1"  # of every model: a reload replaces it


class Models:
    """The repository that the protocol's calls name. Raises DriverUsageError for unfit names."""

    def __init__(self, folders: Mapping[str, Path | str], options: ModelOptions) -> None:
        if not folders:
            raise DriverUsageError("a server must have at least one bundle, and none came")
        shared = options.tenancy is not None and bool(options.tenancy.networks)
        if options.device in BOARDS and len(folders) > 1 and not shared:
            raise DriverUsageError(
                f"this machine has one NPU behind '{options.device}', so one bundle can be served, not {len(folders)}"
            )
        for name in folders:
            if not NAME.fullmatch(name):
                raise DriverUsageError(f"a model's name must be letters, digits, '_', '.' or '-', not '{name}'")
        self._models = _together(folders, options)

    def __iter__(self) -> Iterator[Model]:
        """Yield every model, loaded or not."""
        return iter(self._models.values())

    def find(self, name: str, version: str = "") -> Model:
        """Return the model of a name. Raises UnknownModelError."""
        model = self._models.get(name)
        if model is None:
            known = ", ".join(self._models)
            raise UnknownModelError(f"a model of this server must be one of {known}, not '{name[:100]}'")
        if version not in ("", VERSION):
            raise UnknownModelError(f"model '{name}' has version {VERSION} only, not '{version[:100]}'")
        return model

    def close(self) -> None:
        """Unload every model, answering all requests first."""
        for model in self:
            model.close()


def _together(folders: Mapping[str, Path | str], options: ModelOptions) -> dict[str, Model]:
    """Return a model for each name: on an NPU of its own, or with the others that tenants name."""
    networks = () if options.tenancy is None else options.tenancy.networks
    if not networks:
        return {name: Model(name, folder, options) for name, folder in folders.items()}
    if set(networks) != set(folders):
        odd = next(iter([name for name in networks if name not in folders] or set(folders) - set(networks)))
        raise DriverUsageError(
            f"tenants that name networks must name every bundle, {', '.join(folders)}, and no other; see '{odd}'"
        )
    first = next(iter(folders))
    npu = Model("+".join(folders), folders[first], options, folders=folders)
    return {name: Resident(name, npu) if len(folders) > 1 else npu for name in folders}


def named_folders(words: Sequence[str]) -> dict[str, Path]:
    """Return folders by model name from words `NAME=FOLDER` or `FOLDER`; the name is then the folder's.

    A project is named after itself and served from the bundle inside it. Raises DriverUsageError for a name
    that comes twice.

    >>> named_folders(["a=out/x", "out/y"])
    {'a': PosixPath('out/x'), 'y': PosixPath('out/y')}
    """
    folders: dict[str, Path] = {}
    for word in words:
        name, equals, text = word.partition("=")
        path = Path(text if equals else word)
        inside = path / "bundle"
        if not equals:
            whole = path.resolve()
            name = whole.parent.name if whole.name == "bundle" else whole.name
        if name in folders:
            raise DriverUsageError(
                f"every model must have a name of its own, and '{name}' comes twice: use NAME=BUNDLE"
            )
        folders[name] = inside if inside.is_dir() else path
    return folders
