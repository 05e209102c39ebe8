"""The stubs are those of the module, and types hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

FOLDER = Path(__file__).parent.parent


def test_stubs_fit_the_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "voxalign._native", "--ignore-missing-stub"]
    # Where it is not found, nothing would be compared.
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_package_has_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "voxalign"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_pyright_agrees() -> None:
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_written_from_the_options() -> None:
    from voxalign import _native

    written = (FOLDER / "voxalign" / "_native.pyi").read_text()
    assert written == _native._stubs(), "`tools/python.sh stubs` writes python/voxalign/_native.pyi anew"
