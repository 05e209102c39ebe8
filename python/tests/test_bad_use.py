"""Transforms, outputs, callbacks, devices, threads and results that are used as they should not be."""

from __future__ import annotations

import _thread
import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs, refused

import voxalign as vx

IMAGE = vx.Image(blobs((12, 11, 10)), OBLIQUE)
PLANE = vx.Image(blobs((12, 11)), np.eye(4))
SHIFT = vx.Transform(np.eye(4))
QUICK = {"search": "local", "levels": 8, "dof": 6, "device": "cpu", "report": False}

pytestmark = pytest.mark.usefixtures("nothing_left")


#: Of other processes.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vx.__file__).parent.parent), "CUDA_VISIBLE_DEVICES": ""}


def quick() -> vx.Result:
    return vx.affine(IMAGE, IMAGE, **QUICK)


# Transforms

POINTS: dict[str, object] = {
    "one number": 3.0,
    "two numbers": [1, 2],
    "four numbers": [1, 2, 3, 4],
    "two columns": np.zeros((5, 2)),
    "four columns": np.zeros((5, 4)),
    "three rows": np.zeros((3, 5)),
    "lists of lists": [[[1, 2, 3]]],
    "ragged": [[1, 2, 3], [1, 2]],
    "texts": [["a", "b", "c"]],
    "a text": "1,2,3",
    "none": None,
    "complex": np.zeros((2, 3), dtype=complex),
    "objects": [[object()] * 3],
    "a dict": {"x": 1},
    "an image": IMAGE,
    "nothing": [],
}


@pytest.mark.parametrize("name", POINTS)
def test_points(name: str) -> None:
    with refused(vx.InputError, "points"):
        SHIFT(POINTS[name])


def test_points_that_are_taken() -> None:
    at = np.arange(12.0).reshape(4, 3)
    for points in (at, at.astype("f4"), at.astype(">f8"), at.tolist(), np.asfortranarray(at), at[::-1][::-1]):
        np.testing.assert_array_equal(SHIFT(points), at)
    assert np.isnan(SHIFT([np.nan] * 3)).all() and SHIFT(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("affine", [np.eye(3), np.eye(4)[:3], np.full((4, 4), np.nan), np.ones((4, 4)), None, "x", np.eye(4) * 1j], ids=repr)
def test_transforms_of_no_matrix(affine: object) -> None:
    with refused(vx.InputError, "affine"):
        vx.Transform(affine)


@pytest.mark.parametrize("least", [0.0, 1e-200])
def test_transforms_without_an_inverse(least: float) -> None:
    flat = vx.Transform(np.diag([1.0, 1.0, least, 1.0]))
    with refused(vx.InputError, "singular"):
        flat.inverse()
    with refused(vx.InputError, "singular"):
        vx.invert(flat)


@pytest.mark.parametrize("other", [3, None, np.eye(4), "a.tfm", IMAGE], ids=repr)
def test_what_a_transform_is_not_composed_with(other: object) -> None:
    with refused(vx.InputError, "composed with a transform"):
        SHIFT @ other
    with pytest.raises((TypeError, vx.InputError, ValueError)):
        other @ SHIFT


@pytest.mark.parametrize("threads", [0, -1, 2**70, 1.5, "many", True, [1]], ids=repr)
def test_threads_of_an_inverse(threads: object) -> None:
    with refused(vx.OptionError, "`threads` is", "from 1 to 1024"):
        SHIFT.inverse(threads=threads)


def test_transforms_of_other_dimensions() -> None:
    leaning = np.eye(4)
    leaning[0, 2] = 0.5
    with refused(vx.InputError, "2D"):
        vx.affine(PLANE, IMAGE, **QUICK)
    with refused(vx.OptionError, "`dof`"):
        vx.affine(PLANE, PLANE, dof=9, device="cpu")
    with refused(vx.OptionError, "`dof`"):
        vx.affine(IMAGE, IMAGE, dof=3, device="cpu")
    with pytest.raises(vx.InputError):
        vx.Transform(leaning).save("a.fsl.mat")


# Outputs


def test_outputs_that_cannot_be_written(nothing_left: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with refused(vx.InputError, "file"):
        vx.affine(IMAGE, IMAGE, output=file, **QUICK)
    with refused(vx.InputError, "file"):
        vx.affine(IMAGE, IMAGE, output=file / "under", **QUICK)
    for name in (tmp_path, tmp_path / "none/a.nii", "a.xyz", "a", file / "a.nii"):
        with refused(vx.InputError, Path(name).name):
            IMAGE.save(name)
    for name in (tmp_path, tmp_path / "none/a.tfm", "a.xyz", "a", file / "a.tfm"):
        with refused(vx.InputError, Path(name).name):
            SHIFT.save(name)
    assert file.read_text() == "mine"
    with refused(vx.OptionError, "`data_type`"):
        IMAGE.save("a.nii", data_type="f16")
    with refused(vx.OptionError, "`data_type` is 3"):
        IMAGE.save("a.nii", data_type=3)
    with refused(vx.InputError, "FSL"):
        SHIFT.save("a.fsl.mat")


def test_results_are_not_written_over(tmp_path: Path) -> None:
    """An older result is replaced as a whole, or stays as it is."""
    out = tmp_path / "out"
    vx.affine(IMAGE, IMAGE, output=out, **QUICK)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    with refused(vx.InputError, "fixed"):
        vx.affine(vx.Image(np.zeros(IMAGE.shape), OBLIQUE), IMAGE, output=out, **QUICK)
    with refused(vx.OptionError, "`dof`"):
        vx.affine(IMAGE, IMAGE, output=out, **QUICK | {"dof": 5})
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder that nobody can write to")
def test_folders_that_nobody_can_write_to() -> None:
    with refused(vx.InputError, "/proc/out"):
        vx.affine(IMAGE, IMAGE, output="/proc/out", **QUICK)
    with refused(vx.InputError, "/proc/a.nii"):
        IMAGE.save("/proc/a.nii")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_no_folder_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/dev/full")
    with refused(vx.InputError, "give `output`"):
        vx.affine(IMAGE, IMAGE, **QUICK)


# Devices


@pytest.mark.parametrize("device", ["cuda:63", "cuda:12"])
def test_devices_that_are_not_there(device: str) -> None:
    with refused(vx.DeviceError, f"`device='{device}'`"):
        vx.affine(IMAGE, IMAGE, device=device)


def test_no_gpu(tmp_path: Path) -> None:
    """In a process that no GPU is shown to."""
    code = "import voxalign as vx, numpy as np\nimage = vx.Image(np.random.rand(9, 9, 9), np.eye(4))\n" \
        "try:\n    vx.deform(image, image, device='cuda')\nexcept vx.DeviceError as e:\n    print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "`device='cuda'`" in done.stdout and "`device='cpu'` works" in done.stdout


# Callbacks


class Enough(Exception):
    pass


@pytest.mark.parametrize("error", [Enough("enough"), KeyboardInterrupt(), SystemExit(3), vx.InputError("mine"), MemoryError()], ids=repr)
def test_callbacks_that_raise(error: BaseException) -> None:
    def stop(message: dict[str, object]) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        vx.affine(IMAGE, IMAGE, output="out", progress=stop, **QUICK)
    assert raised.value is error


@pytest.mark.parametrize("progress", [3, "bar", [print], object(), 0], ids=["3", "bar", "a list", "an object", "0"])
def test_callbacks_that_cannot_be_called(progress: object) -> None:
    with refused(vx.OptionError, "`progress` is neither true nor a function"):
        vx.affine(IMAGE, IMAGE, progress=progress)


def test_callbacks_of_other_arguments() -> None:
    with pytest.raises(TypeError, match="argument"):
        vx.affine(IMAGE, IMAGE, progress=lambda: None, **QUICK)


def test_callbacks_that_register() -> None:
    """A function may be called while another one works."""
    inner: list[np.ndarray] = []

    def nested(message: dict[str, object]) -> None:
        if message["kind"] == "end" and not inner:
            inner.append(vx.affine(IMAGE, IMAGE, **QUICK).transform.affine)

    outer = vx.affine(IMAGE, IMAGE, progress=nested, **QUICK)
    np.testing.assert_array_equal(inner[0], outer.transform.affine)
    del outer


# Results


def test_results_whose_folder_is_gone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = vx.deform(IMAGE, IMAGE, output=out, schedule="4x2", device="cpu")
    for file in out.iterdir():
        file.unlink()
    out.rmdir()
    # The record is held.
    assert result.record["verdict"]["good"] is bool(result.verdict) and result.scores and result.folder == out
    for name in ("transform", "warped", "jacobian"):
        with refused(vx.InputError, str(out)):
            getattr(result, name)
    with refused(vx.InputError, "report.html"):
        result.report()
    assert str(result.verdict) in result._repr_html_().replace("&#x27;", "'").replace("&gt;", ">").replace("&lt;", "<")


def test_results_of_several_threads() -> None:
    found = quick()
    affine = found.transform.affine
    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(lambda: found.transform.affine) for _ in range(12)]:
            np.testing.assert_array_equal(job.result(), affine)
        for job in [pool.submit(lambda: found.warped.numpy().sum()) for _ in range(6)]:
            assert job.result() == found.warped.numpy().sum()


def test_results_go_while_they_are_read() -> None:
    box = [quick()]
    folder = box[0].folder
    warped: list[vx.Image] = []
    reader = threading.Thread(target=lambda result: warped.append(result.warped), args=(box.pop(),))
    reader.start()
    reader.join()
    assert warped
    gc.collect()
    assert not folder.exists()


def test_a_result_that_goes_in_another_thread() -> None:
    result = [vx.affine(IMAGE, IMAGE, **QUICK)]
    folder = result[0].folder
    other = threading.Thread(target=result.clear)
    other.start()
    other.join()
    gc.collect()
    assert not folder.exists()


def test_what_a_result_lacks() -> None:
    found = quick()
    with refused(vx.VoxalignError, "no warp"):
        found.jacobian
    with refused(vx.VoxalignError, "no report"):
        found.report()
    with pytest.raises(AttributeError):
        found.verdict = True


# Threads and interrupts


def test_several_threads_register_at_once() -> None:
    moving = vx.Image(blobs((12, 11, 10), 1.0), OBLIQUE)
    alone = vx.affine(IMAGE, moving, **QUICK).transform.affine
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(vx.affine, IMAGE, moving, threads=1 + i % 3, **QUICK) for i in range(8)]
        wrong = [pool.submit(vx.affine, IMAGE, moving, threads=0) for _ in range(4)]
        for job in jobs:
            np.testing.assert_array_equal(job.result().transform.affine, alone)
        for job in wrong:
            with refused(vx.OptionError, "`threads` is 0"):
                job.result()
    del jobs, job


def test_an_exception_in_one_thread_leaves_others_alone() -> None:
    def stop(message: dict[str, object]) -> None:
        raise Enough

    with ThreadPoolExecutor(2) as pool:
        stopped = pool.submit(vx.affine, IMAGE, IMAGE, progress=stop, **QUICK)
        good = pool.submit(vx.affine, IMAGE, IMAGE, **QUICK)
        with pytest.raises(Enough):
            stopped.result()
        assert good.result().folder.is_dir()
    del good


@pytest.mark.parametrize("output", [None, "out"])
def test_an_interrupt_leaves_nothing(output: str | None) -> None:
    large = [vx.Image(blobs((72, 72, 72), shift), np.eye(4)) for shift in (0.0, 3.0)]
    timer = threading.Timer(0.7, _thread.interrupt_main)
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        vx.deform(*large, output=output, device="cpu", schedule="4x500,2x500,1x500")
    timer.join()
    assert time.monotonic() - began < 2.5
    # An empty folder may be left where one was asked for.
    if output and Path(output).is_dir():
        Path(output).rmdir()


def test_the_interpreter_ends_while_work_goes_on(tmp_path: Path) -> None:
    """Work of a thread that nobody waits for ends with the interpreter, without a crash."""
    code = (
        "import threading, time, numpy as np, voxalign as vx\n"
        "rng = np.random.default_rng(0)\n"
        "a, b = (vx.Image(rng.normal(size=(60, 60, 60)), np.eye(4)) for _ in range(2))\n"
        "threading.Thread(target=lambda: vx.deform(a, b, device='cpu'), daemon=True).start()\n"
        "time.sleep(0.5)\nprint('over')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == "over\n", done.stderr
    for folder in Path(os.environ["TMPDIR"]).glob("voxalign-*"):
        # What a killed thread cannot remove.
        import shutil

        shutil.rmtree(folder)
