"""Transforms, results, verdicts, progress, threads and interruption."""

from __future__ import annotations

import _thread
import gc
import gzip
import inspect
import os
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs

import voxalign as vx

QUICK = {"dof": 6, "search": "local", "device": "cpu", "report": False}


@pytest.fixture(scope="module")
def found(pair: tuple[Path, Path]) -> vx.Result:
    return vx.deform(*pair, schedule="2x10,1x5", device="cpu")


def test_transforms_map_points() -> None:
    shift, scale = np.eye(4), np.diag([2.0, 2.0, 2.0, 1.0])
    shift[:3, 3] = (5, 0, -1)
    a, b = vx.Transform(shift), vx.Transform(scale)
    points = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(a(points), points + [5, 0, -1])
    np.testing.assert_array_equal(a([1, 2, 3]), [6, 2, 2])
    np.testing.assert_array_equal((b @ a)(points), 2 * (points + [5, 0, -1]))
    np.testing.assert_array_equal((b @ a).affine, scale @ shift)
    np.testing.assert_allclose((b @ a).inverse().affine, np.linalg.inv(scale @ shift))
    assert a(np.zeros((0, 3))).shape == (0, 3)
    assert a.is_affine and "affine" in repr(a)


@pytest.mark.parametrize("suffix", [".tfm", ".txt", ".mat", ".h5", ".fsl.mat", ".nii.gz"])
def test_transforms_are_saved(suffix: str, tmp_path: Path) -> None:
    affine = np.eye(4)
    affine[:3] += np.arange(12).reshape(3, 4) / 100
    image = vx.Image(blobs((12, 11, 10)), OBLIQUE)
    geometry = {"fixed_geometry": image, "moving_geometry": image}
    vx.Transform(affine).save(tmp_path / f"a{suffix}", **geometry)
    back = vx.read_transform(tmp_path / f"a{suffix}", **geometry)
    inside = (OBLIQUE @ [5, 5, 5, 1])[:3]
    np.testing.assert_allclose(back(inside), (affine @ [*inside, 1])[:3], atol=1e-4)


def test_results(found: vx.Result) -> None:
    assert set(found.outputs) >= {"warp", "transform", "resampled", "record", "report"}
    assert found.folder.is_dir() and found.record["program"] == "voxalign.deform"
    assert found.warped.shape == (26, 24, 20)
    jacobian = found.jacobian.numpy()
    assert jacobian.shape == (26, 24, 20) and 0.1 < jacobian.mean() < 2
    assert not found.transform.is_affine and found.transform.affine is None
    centre = (OBLIQUE @ [13, 12, 10, 1])[:3]
    there = found.transform(centre)
    np.testing.assert_allclose(found.transform.inverse()(there), centre, atol=0.2)
    assert "ncc_after" in found.scores
    assert isinstance(found.verdict.checks, list) and found.verdict.checks
    assert bool(found.verdict) is found.verdict.good is found.record["verdict"]["good"]
    assert str(found.verdict) in repr(found)
    assert found.report().startswith("<!") and "<figure" in found._repr_html_().replace("&lt;", "<")


def test_the_jacobian_is_that_of_the_program(pair: tuple[Path, Path], found: vx.Result) -> None:
    written = vx.deform(*pair, schedule="2x10,1x5", device="cpu", outputs="all")
    np.testing.assert_allclose(written.jacobian.numpy(), found.jacobian.numpy(), atol=1e-5)


def test_the_jacobian_of_thick_slices_is_on_the_fixed_grid() -> None:
    """Fields divide thick slices; what they do to volumes is that of the voxels of the image."""
    thick = np.diag([2.0, 2.0, 6.0, 1.0])
    fixed = vx.Image(blobs((26, 24, 30))[:, :, 1::3], thick)
    moving = vx.Image(blobs((26, 24, 30), 1.0)[:, :, 1::3], thick)
    how = {"schedule": "2x10,1x5", "device": "cpu", "affine": "none", "report": False}
    found = vx.deform(fixed, moving, **how)
    written = vx.deform(fixed, moving, outputs="all", **how)
    header = gzip.open(found.outputs["warp"]).read(348)
    assert struct.unpack_from("<8h", header, 40)[1:4] == (26, 24, 30)
    assert found.jacobian.shape == written.jacobian.shape == (26, 24, 10)
    np.testing.assert_allclose(written.jacobian.numpy(), found.jacobian.numpy(), atol=1e-5)
    assert found.jacobian.numpy().std() > 0.01


def test_files_go_with_the_result(pair: tuple[Path, Path]) -> None:
    result = vx.affine(*pair, **QUICK)
    folder = result.folder
    assert folder.is_dir()
    with pytest.raises(vx.VoxalignError, match="warp"):
        _ = result.jacobian
    with pytest.raises(vx.VoxalignError, match="report"):
        result.report()
    del result
    gc.collect()
    assert not folder.exists()


def test_progress(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    told: list[dict[str, object]] = []
    vx.affine(*pair, progress=told.append, **QUICK)
    kinds = {message["kind"] for message in told}
    assert {"stage", "end"} <= kinds <= {"stage", "step", "end", "line"}
    vx.affine(*pair, progress=True, **QUICK)
    assert "%" in capsys.readouterr().err
    with pytest.raises(vx.OptionError, match="progress"):
        vx.affine(*pair, progress=3, **QUICK)


def test_what_a_callback_raises_stops_the_work(pair: tuple[Path, Path], tmp_path: Path) -> None:
    def stop(message: dict[str, object]) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        vx.deform(*pair, output=tmp_path / "out", device="cpu", progress=stop)
    assert not (tmp_path / "out/result.json").exists()


@pytest.fixture(scope="module")
def large() -> vx.Image:
    return vx.Image(blobs((96, 96, 96)), np.eye(4))


def test_interrupts_stop_at_once(large: vx.Image, tmp_path: Path) -> None:
    since: list[float] = []

    def interrupt() -> None:
        since.append(time.monotonic())
        _thread.interrupt_main()

    timer = threading.Timer(1.5, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        vx.deform(large, vx.Image(blobs((96, 96, 96), 3.0), np.eye(4)), output=tmp_path / "out", device="cpu")
    timer.join()
    assert time.monotonic() - since[0] < 1.0
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nii")
    with pytest.raises(vx.InputError, match="pipe"):
        vx.affine(pair[0], tmp_path / "pipe.nii", **QUICK)


def test_several_threads_register_at_once(pair: tuple[Path, Path]) -> None:
    images = [vx.read(path) for path in pair]
    alone = vx.affine(*images, threads=1, **QUICK).transform.affine
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(vx.affine, *images, threads=1 + i % 2, **QUICK) for i in range(4)]
        for job in jobs:
            np.testing.assert_array_equal(job.result().transform.affine, alone)


def test_the_interpreter_is_free_meanwhile(large: vx.Image) -> None:
    moving = vx.Image(blobs((96, 96, 96), 3.0), np.eye(4))
    count = 0
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(vx.affine, large, moving, threads=1, **QUICK)
        while not job.done():
            count += 1
            time.sleep(0.005)
    assert job.result() and count > 10


def test_signatures_and_documentation() -> None:
    signature = inspect.signature(vx.affine)
    assert list(signature.parameters)[:2] == ["fixed", "moving"]
    assert signature.parameters["report"].default is True
    assert signature.parameters["dof"].kind is inspect.Parameter.KEYWORD_ONLY
    for name in vx.__all__:
        member = getattr(vx, name)
        assert member.__doc__ or name == "__version__", name
    assert "[default:" in vx.affine.__doc__ and "Returns" in vx.affine.__doc__
