"""The models of one server by their names: bundles on NPUs of their own, or side by side on one.

Where tenants name their networks, the bundles of these names share one NPU. A folder of numbered bundles is a
model with versions, which share its requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..errors import DriverUsageError, UnknownModelError
from .model import VERSION as VERSION
from .model import Model, ServedNetwork
from .options import BOARDS, ModelOptions
from .resident import Resident
from .versions import Versions, is_versioned

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


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
        several = {name: Path(folder) for name, folder in folders.items() if is_versioned(Path(folder))}
        for name in several:
            if shared or options.device in BOARDS:
                why = "its NPU is shared" if shared else f"there is one behind '{options.device}'"
                raise DriverUsageError(
                    f"versions of '{name}' must have an NPU each, and {why}: name one of its folders"
                )
        plain = {name: folder for name, folder in folders.items() if name not in several}
        self._versions = {name: Versions(name, folder, options) for name, folder in several.items()}
        self._models = _together(plain, options) if plain else {}
        self._names = tuple(folders)

    def __iter__(self) -> Iterator[ServedNetwork]:
        """Yield every model, loaded or not, and each of its versions."""
        for name in self._names:
            yield from self.of(name)

    def of(self, name: str) -> tuple[ServedNetwork, ...]:
        """Return all versions of a model. Raises UnknownModelError."""
        versions = self._versions.get(name)
        return (self.find(name),) if versions is None else tuple(versions.models.values())

    def find(self, name: str, version: str = "") -> ServedNetwork:
        """Return the model of a name, of several versions this or the primary. Raises UnknownModelError."""
        if name in self._versions:
            return self._versions[name].find(version)
        model = self._models.get(name)
        if model is None:
            names = ", ".join(self._names)
            raise UnknownModelError(f"a model of this server must be one of {names}, not '{name[:100]}'")
        if version not in ("", VERSION):
            raise UnknownModelError(f"model '{name}' has version {VERSION} only, not '{version[:100]}'")
        return model

    def choose(self, name: str, version: str = "") -> ServedNetwork:
        """Return the model that answers the next request, by the shares where it names no version.

        Raises UnknownModelError.
        """
        return self._versions[name].choose() if name in self._versions and not version else self.find(name, version)

    def versions(self, name: str) -> Versions | None:
        """Return the versions of a model that may have several. Raises UnknownModelError."""
        self.find(name)
        return self._versions.get(name)

    @property
    def ready(self) -> bool:
        """True when every model that is to be served is, of several versions one with a share."""
        plain = [model.npu for model in self._models.values() if model.npu.reason != "unloaded"]
        several = [version for version in self._versions.values() if version.primary.reason != "unloaded"]
        return all(model.ready for model in plain) and all(versions.ready for versions in several)

    def loads(self) -> list[Callable[[], None]]:
        """Return the work of a start: one model after another is loaded, in a thread. It raises as theirs."""
        return [
            partial(self._versions[name].load, at_start=True) if name in self._versions else self.find(name).load
            for name in self._names
        ]

    def close(self) -> None:
        """Unload every model, answering all requests first."""
        for model in self:
            model.unload()


def _together(folders: Mapping[str, Path | str], options: ModelOptions) -> dict[str, ServedNetwork]:
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
