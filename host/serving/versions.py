"""The versions of one model: numbered bundles, each on an NPU of its own, which share its requests.

`FOLDER/1`, `FOLDER/2`, ... hold a bundle each, and `FOLDER/shares.toml` says which part of the requests each
gets that names no version; without it the newest gets all. A version that does not take requests, as one that
failed its warm-up, gets none whatever its share.

>>> shares = VersionShares({"1": 3.0, "2": 1.0})
>>> [shares.turn(["1", "2"]) for _ in range(8)]
['1', '1', '2', '1', '1', '1', '2', '1']
>>> [shares.turn(["2"]) for _ in range(2)]
['2', '2']
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import BundleError, ConflictError, DriverUsageError, HostError, ProtocolError, UnknownModelError
from .model import Model
from .options import ModelOptions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_log = logging.getLogger(__name__)
FILE = "shares.toml"
MOST_VERSIONS = 16


def is_versioned(folder: Path) -> bool:
    """Tell if a folder holds versions in place of a bundle."""
    return not (folder / "design.json").exists() and bool(_number_folders(folder))


def _number_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of versions by their numbers, the smallest first."""
    inner = {path.name: path for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else {}
    names = sorted((name for name in inner if name.isdecimal() and str(int(name)) == name and name != "0"), key=int)
    return {name: inner[name] / "bundle" if (inner[name] / "bundle").is_dir() else inner[name] for name in names}


class VersionShares:
    """Parts of the requests by version. Who gets the next follows from them alone, with no chance in it."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        whole = math.fsum(shares.values())
        self.of = {version: share / whole for version, share in shares.items()}
        self._credits = dict.fromkeys(shares, 0.0)

    def turn(self, takers: Sequence[str]) -> str:
        """Return the version of the next request, one of the takers, each of which has a share.

        It is the one that is farthest behind its share of those of the takers.
        """
        whole = math.fsum(self.of[version] for version in takers)
        for version in takers:
            self._credits[version] += self.of[version] / whole
        chosen = max(takers, key=lambda version: (round(self._credits[version], 9), self.of[version]))
        self._credits[chosen] -= 1.0
        return chosen


class Versions:
    """The versions of a model by number. `load` takes as long as their devices do; all else is quick.

    `load` and `close` may be called from any thread; the rest is used on one.
    """

    def __init__(self, name: str, folder: Path, options: ModelOptions) -> None:
        self.name, self._folder, self._options = name, folder, options
        self.models = {version: self._make_model(version, path) for version, path in self._scan().items()}
        self._shares = self._of_file(list(self.models))
        self._before: dict[str, float] | None = None
        self._work = threading.Lock()  # held by whoever loads or unloads

    @property
    def primary(self) -> Model:
        """The version with the largest share of those that take requests, or of all where none does."""
        models, shares = self.models, self._shares.of
        ready = [model for model in models.values() if model.takes and shares.get(model.version)]
        return max(ready or models.values(), key=lambda model: shares.get(model.version, 0.0))

    @property
    def ready(self) -> bool:
        """True while a version with a share is."""
        shares = self._shares.of
        return any(model.ready and shares.get(version) for version, model in self.models.items())

    def find(self, version: str) -> Model:
        """Return a version by its number, or for none the primary one. Raises UnknownModelError."""
        if not version:
            return self.primary
        if version not in self.models:
            raise UnknownModelError(
                f"model '{self.name}' must be asked for a version of {', '.join(self.models)}, not '{version[:100]}'"
            )
        return self.models[version]

    def choose(self) -> Model:
        """Return the version that a request gets which names none."""
        models, shares = self.models, self._shares
        takers = [version for version, share in shares.of.items() if share and version in models]
        taking = [version for version in takers if models[version].takes]
        return models[shares.turn(taking)] if taking else self.primary

    # -- shares ----------------------------------------------------------------------------------------------

    def shares(self) -> dict[str, Any]:
        """Return the shares in force and those before the last change, with the state of every version."""
        shares: dict[str, Any] = {"shares": dict(self._shares.of)}
        if self._before is not None:
            shares["before"] = dict(self._before)
        return shares | {"versions": {version: model.state for version, model in self.models.items()}}

    def change(self, shares: Mapping[str, Any] | None) -> None:
        """Give the versions other shares of the requests that come from now on; None: those of before.

        Raises ProtocolError, and ConflictError for a version that takes no requests.
        """
        if shares is None and self._before is None:
            raise ConflictError(f"the shares of model '{self.name}' must have been changed to go back, and were not")
        asked = self._check_shares(shares if shares is not None else self._before or {}, "shares")
        if idle := [version for version, share in asked.items() if share and not self.models[version].takes]:
            raise ConflictError(
                f"version {idle[0]} of model '{self.name}' must take requests to get a share, and it is "
                f"{self.models[idle[0]].state}"
            )
        self._set(VersionShares(asked))

    def _set(self, shares: VersionShares) -> None:
        if shares.of != self._shares.of:
            self._before, self._shares = self._shares.of, shares

    def _check_shares(self, asked: Mapping[str, Any], what: str, versions: Sequence[str] = ()) -> dict[str, float]:
        """Return positive shares of known versions. Raises ProtocolError."""
        names = versions or list(self.models)
        for version, share in asked.items():
            if version not in names:
                raise ProtocolError(f"{what} must be of versions {', '.join(names)}, not '{version:.40}'")
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1e9:
                raise ProtocolError(f"the share of version {version} in {what} must be a number from 0 to 1e9")
        shares = {version: float(share) for version, share in asked.items()}
        if not math.fsum(shares.values()) > 0:
            raise ProtocolError(f"{what} must give a version more than nothing, and they give none")
        return shares

    def _of_file(self, versions: Sequence[str]) -> VersionShares:
        """Return the shares of the file, or all for the newest. Raises BundleError."""
        path = self._folder / FILE
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {versions[-1]: 1.0}
            return VersionShares(self._check_shares(raw, f"'{path}'", versions))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ProtocolError) as error:
            raise BundleError(f"'{path}' must be readable shares: {error}") from None

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self, *, at_start: bool = False) -> None:
        """Read the folder again: serve what is new, end what is gone, then take the shares of its file.

        A version whose bundle is as it was is left alone. One that cannot be loaded takes no requests, or
        the old ones. At the start that is an error only where no version with a share is ready, and else
        always: the first one's is raised when all is done. Raises as `Model.load`.
        """
        with self._work:
            failed = self._load()
        if failed is not None and not (at_start and self.ready):
            raise failed

    def _load(self) -> Exception | None:
        """Load what is to be loaded; return the first error of a version."""
        folders = self._scan()
        shares = self._of_file(list(folders))
        kept = {
            version: self.models.get(version) or self._make_model(version, path) for version, path in folders.items()
        }
        self.models = {**self.models, **kept}
        failed: Exception | None = None
        for version, model in kept.items():
            try:
                if not model.is_unchanged():
                    model.load()
            except (ValueError, HostError) as error:
                _log.error("version %s of model '%s' is not loaded: %s", version, self.name, error)
                failed = failed or error
        self._set(shares)
        gone = [model for version, model in self.models.items() if version not in kept]
        self.models = kept
        for model in gone:
            model.close()
        return failed

    def close(self) -> None:
        """Unload every version, answering all requests first."""
        with self._work:
            for model in self.models.values():
                model.close()

    def _scan(self) -> dict[str, Path]:
        folders = _number_folders(self._folder)
        if not 1 <= len(folders) <= MOST_VERSIONS:
            raise DriverUsageError(
                f"'{self._folder}' must hold 1 to {MOST_VERSIONS} folders named by a version's number, not {len(folders)}"
            )
        return folders

    def _make_model(self, version: str, path: Path) -> Model:
        return Model(self.name, path, self._options, version=version)
