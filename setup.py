"""The rooms are folders at the root and packages of `fluidnpu`; a build without one is rejected (ADR 1)."""

import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup

ROOMS = ("boards", "dse", "hls", "host", "models", "rtl_tb", "scheduler", "studies")
FOLDERS = {"fluidnpu": "fluidnpu", **{f"fluidnpu.{room}": room for room in ROOMS}}

missing = [folder for folder in FOLDERS.values() if not Path(folder, "__init__.py").is_file()]
if missing:
    sys.exit(f"a build of fluidnpu must have all rooms, and {', '.join(missing)} is missing in {Path.cwd()}")

shutil.rmtree("build/lib", ignore_errors=True)  # setuptools would pack files that are gone
setup(
    package_dir=FOLDERS,
    packages=[
        name
        for package, folder in FOLDERS.items()
        for name in (package, *(f"{package}.{inner}" for inner in find_packages(folder)))
    ],
)
