"""Ports and hosts of kept releases, compiled from what was kept of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hal import _paths, dtypes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RELEASES = sorted(path.parent for path in (HERE / "releases").glob("*/layout.json"))
NAMES = [folder.name for folder in RELEASES]

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile C files against the headers of one folder; the program or the library."""

    def call(name: str, include: Path, *words: str | Path) -> Path:
        target = tmp_path_factory.mktemp("compiled") / name
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
        flags += ["-fPIC", "-shared"] if name.endswith(".so") else []
        command = [*os.environ.get("CC", "cc").split(), *flags, *map(str, words)]
        done = subprocess.run(
            [*command, "-o", str(target), "-ldl", "-pthread"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return target

    return call


@pytest.fixture(scope="session", params=RELEASES, ids=NAMES)
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of each kept release."""
    folder: Path = request.param
    return folder


@pytest.fixture(scope="session")
def old_port(release: Path, compile_c: Compile) -> Path:
    """The whole small port of a release, built with that release's header."""
    return compile_c("hal_port_old.so", release, release / "port.c")


@pytest.fixture(scope="session")
def old_example(
    release: Path, compile_c: Compile, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The example vendor of a release with the kit of that release: a folder, port and chip."""
    folder = tmp_path_factory.mktemp("example")
    with tarfile.open(release / "example.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    sources = [*folder.glob("docs/examples/*/*.c"), *folder.glob("docs/examples/*/runtime/*.c")]
    sources += sorted(folder.glob("vendors/kit/*.c"))
    flags = ["-O1", "-D_GNU_SOURCE", "-ffp-contract=off", "-fvisibility=hidden"]
    flags += [f"-I{folder / 'vendors'}", f"-I{folder / 'vendors/kit'}"]
    library = compile_c("hal_port_example.so", release, *flags, *sources, "-lm")
    description = next(folder.glob("docs/examples/*/*.hcd.yaml"))
    shutil.copy(description, library.parent / description.name)
    return library.parent


@pytest.fixture(scope="session")
def old_host(release: Path, compile_c: Compile) -> Path:
    """A host that knows a release only."""
    return compile_c("host", release, HERE / "host.c")


@pytest.fixture(scope="session")
def bent_port(compile_c: Compile) -> Path:
    """A port that passes another one on with tables of another size: see bent.c."""
    return compile_c("hal_port_bent.so", _paths.include_dir(), HERE / "bent.c")


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VIL module that doubles f32."""
    from hal.vil import encode, recipes

    path = tmp_path_factory.mktemp("image") / "doubled.hvil"
    path.write_bytes(encode(recipes.doubled(dtypes.by_name("f32"))))
    return path


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Ports that come with HAL and need no driver: library and flat description."""
    from hal.port.description import flat_text, load_description

    folder = tmp_path_factory.mktemp("flat")
    found = {}
    for name in ("cpu", "sim"):
        library = _paths.lib_dir() / f"hal_port_{name}.so"
        flat = folder / f"{library.stem}.flat"
        flat.write_bytes(flat_text(load_description(library.with_suffix(".hcd.yaml"))))
        found[name] = (library, flat)
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[Path], Path]:
    """Copy a library, so that its static state is this test's alone."""

    def call(library: Path) -> Path:
        return Path(shutil.copy(library, tmp_path / library.name))

    return call


Host = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def host(old_host: Path) -> Host:
    """Run the old host over a port: `host(port, flat, image, HAL_BENT_GROW="3")`."""

    def call(*words: str | Path, **environment: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(old_host), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        )

    return call
