"""Small images with a known map between them, and the program whose results the functions must have."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nibabel
import numpy as np
import pytest

#: Oblique, flipped and anisotropic, as images are.
OBLIQUE = np.array(
    [
        [-1.9, 0.35, 0.0, 30.0],
        [0.3, 2.1, -0.4, -20.0],
        [0.1, 0.45, 2.6, 12.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
).astype(np.float32).astype(np.float64)


def blobs(shape: tuple[int, ...], shift: float = 0.0) -> np.ndarray:
    """Smooth structures of several sizes, the same for every call."""
    rng = np.random.default_rng(7)
    at = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"), axis=-1).astype(float)
    values = np.zeros(shape)
    for _ in range(14):
        centre = rng.uniform(0.25, 0.75, len(shape)) * np.array(shape) + shift
        width = rng.uniform(1.5, 4.5)
        values += rng.uniform(20, 100) * np.exp(-(((at - centre) / width) ** 2).sum(-1) / 2)
    return values.astype(np.float32)


@contextlib.contextmanager
def refused(error: type[BaseException], *said: str) -> Iterator[None]:
    """That exactly this exception is raised, in words that name these, and in those of keyword arguments."""
    with pytest.raises(error) as raised:
        yield
    message = str(raised.value)
    assert type(raised.value) is error, f"{type(raised.value).__name__}: {message}"
    for words in said:
        assert words in message, message
    # Neither the command line, beside commands that are quoted, nor Rust speaks.
    for words in ("internal error", "usize", "invalid type", "panicked"):
        assert words not in message, message
    assert "--" not in re.sub("`[^`]*`", "", message), message


@pytest.fixture
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, which what is refused leaves empty, as it does that of temporary files."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield here
    # Exceptions that are held hold what they passed through.
    gc.collect()
    assert [*here.iterdir(), *temporary.iterdir()] == []


@pytest.fixture(scope="session")
def program() -> str:
    """The program; `VOXALIGN_PROGRAM` says where it is."""
    found = os.environ.get("VOXALIGN_PROGRAM") or shutil.which("voxalign")
    if not found:
        pytest.skip("the program voxalign is not there (VOXALIGN_PROGRAM)")
    return found


@pytest.fixture(scope="session")
def run(program: str):
    """Runs the program, whose verdict may be bad."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fixed and a moving image, oblique, with a shift of two voxels between them."""
    folder = tmp_path_factory.mktemp("pair")
    paths = folder / "fixed.nii.gz", folder / "moving.nii.gz"
    for path, shift in zip(paths, (0.0, 2.0)):
        nibabel.save(nibabel.Nifti1Image(blobs((26, 24, 20), shift), OBLIQUE), path)
    return paths


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two images of the plane."""
    import SimpleITK

    folder = tmp_path_factory.mktemp("plane")
    paths = folder / "fixed.mha", folder / "moving.mha"
    for path, shift in zip(paths, (0.0, 1.5)):
        image = SimpleITK.GetImageFromArray(blobs((40, 36), shift))
        image.SetSpacing((0.8, 1.1))
        image.SetOrigin((3.0, -4.0))
        SimpleITK.WriteImage(image, str(path))
    return paths
