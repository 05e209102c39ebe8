"""Several threads at once, also where the interpreter has no lock."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs

import voxalign as vx

QUICK = {"dof": 6, "search": "local", "device": "cpu", "threads": 1, "report": False}


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a lock")
def test_the_module_needs_no_lock() -> None:
    """In an interpreter of its own: other modules may have switched the lock on here."""
    told = "import sys, voxalign; print(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout.strip() == "False"


def test_objects_are_shared() -> None:
    """Threads that use the same image and transform, and make and drop others, have what one thread has."""
    image, affine = vx.Image(blobs((14, 13, 12)), OBLIQUE), np.eye(4)
    affine[:3, 3] = (1.5, -2.0, 0.5)
    transform, points = vx.Transform(affine), np.random.default_rng(2).uniform(-20, 20, (200, 3))
    expected = vx.apply(image, reference=image, transform=transform, threads=1).numpy().tobytes()
    together = threading.Barrier(4)

    def work(_: int) -> None:
        together.wait()
        for _ in range(20):
            assert transform(points).tobytes() == (points + affine[:3, 3]).tobytes()
            own = vx.Image(image.numpy(), image.affine)
            moved = vx.apply(own, reference=image, transform=transform @ vx.Transform(np.eye(4)), threads=1)
            assert moved.numpy().tobytes() == expected
            with pytest.raises(vx.InputError):
                vx.Image(np.zeros((2, 2)), np.zeros((4, 4)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_results_are_shared(pair: tuple[Path, Path]) -> None:
    expected = vx.affine(*pair, **QUICK)
    matrix, warped = expected.transform.affine.tobytes(), expected.warped.numpy().tobytes()

    def work(_: int) -> None:
        assert vx.affine(*pair, **QUICK).transform.affine.tobytes() == matrix
        assert expected.transform.affine.tobytes() == matrix and expected.warped.numpy().tobytes() == warped
        assert expected.record["verdict"]["good"] is bool(expected.verdict)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
