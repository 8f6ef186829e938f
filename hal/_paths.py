"""Where the project's libraries and data lie, in a checkout and in an installed wheel.

In a checkout the data folders are at the top of the repository and CMake puts the built libraries
into `hal/_lib`. In a wheel the same libraries are in `hal/_lib` and the data in `hal/_data`, under
the same relative names. Everything else in the package asks this module and never builds such a
path by itself. Standard library only: the command line imports this at start.
"""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The folder of the package `hal`."""

LIBRARY_ENV = "HAL_LIB_DIR"
"""Environment variable that names another folder of built libraries (a sanitizer build, say)."""


def is_checkout() -> bool:
    """Tell whether the package runs from a source tree rather than from a wheel."""
    return not (PACKAGE / "_data" / "include").is_dir()


def data_root() -> Path:
    """Return the folder that holds include/, hcd/, vendors/ and conformance/."""
    return PACKAGE.parent if is_checkout() else PACKAGE / "_data"


def lib_dir() -> Path:
    """Return the folder of libhal and the ports that come with it. It exists once built."""
    override = os.environ.get(LIBRARY_ENV)
    return Path(override).resolve() if override else PACKAGE / "_lib"


def cmake_dir() -> Path:
    """Return the folder to pass as -Dhal_DIR so that find_package(hal) works."""
    return lib_dir() / "cmake"


def toolchains_dir() -> Path:
    """Return the folder of CMake's toolchain files for other machines."""
    return cmake_dir() / "toolchains"


def include_dir() -> Path:
    """Return the folder to pass to a C compiler with -I for `#include "hal/hal.h"`."""
    return data_root() / "include"


def registry_dir() -> Path:
    """Return the folder of the interface descriptions, the source of truth of the ABI."""
    return data_root() / "include" / "registry"


def hcd_dir() -> Path:
    """Return the folder of capability descriptions: schema/ and chips/."""
    return data_root() / "hcd"


def conformance_dir() -> Path:
    """Return the folder of the certification cases: tier1/, tier2/, mutants/."""
    return data_root() / "conformance"


def calibration_dir() -> Path:
    """Return the folder of the constants that were fitted to measured chips."""
    return data_root() / "sim/calibration"


def measurements_dir() -> Path:
    """Return the folder of the measured rows that `hal sim validate` reads."""
    return data_root() / "sim/data"


def models_dir() -> Path:
    """Return the folder of the models that `hal sim run` knows by name."""
    return data_root() / "sim/models"


def template_dir() -> Path:
    """Return the folder that `hal port new` copies."""
    return data_root() / "vendors" / "template"


def kit_dir() -> Path:
    """Return the folder of the kit's headers and sources."""
    return data_root() / "vendors" / "kit"


def cache_dir() -> Path:
    """Return the folder of what can be made again: tuned choices, compiled kernels.

    HAL_CACHE_DIR names it; otherwise it is `hal` in XDG_CACHE_HOME or in ~/.cache. It need not
    exist.
    """
    named = os.environ.get("HAL_CACHE_DIR")
    if named:
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "hal"
