"""Objects are pickled and copied, to the bit: what joblib, multiprocessing and caches do with them."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, blobs

import voxalign as vx

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
QUICK = {"dof": 6, "search": "local", "device": "cpu", "threads": 1, "report": False}


def again(of: object, protocol: int = pickle.HIGHEST_PROTOCOL) -> object:
    return pickle.loads(pickle.dumps(of, protocol))


def same(a: vx.Image, b: vx.Image) -> None:
    assert a.shape == b.shape and a.numpy().dtype == b.numpy().dtype
    assert a.numpy().tobytes("F") == b.numpy().tobytes("F")
    assert a.affine.tobytes() == b.affine.tobytes()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_images(protocol: int) -> None:
    odd = blobs((7, 6, 5))
    odd[0, 0] = [np.nan, np.inf, -np.inf, -0.0, 1e-42]
    affine = np.eye(4)
    affine[:3] = OBLIQUE[:3] / 3
    whole = np.arange(60, dtype=np.int32).reshape(5, 4, 3) + 2**30 + 1
    for values in (odd, blobs((9, 8)), whole):
        image = vx.Image(values, affine)
        same(again(image, protocol), image)


def test_images_of_files(pair: tuple[Path, Path], plane: tuple[Path, Path]) -> None:
    for path in (pair[0], plane[0]):
        image = vx.read(path)
        same(again(image), image)


def transforms(folder: Path) -> dict[str, vx.Transform]:
    affine = np.eye(4)
    affine[:3] += np.random.default_rng(5).normal(size=(3, 4)) / 7
    rigid = SimpleITK.Euler3DTransform((3.0, -7.0, 11.0), 0.1, 0.2, -0.3, (1 / 3, 2 / 7, -5.1))
    similar = SimpleITK.Similarity3DTransform(1.07, (0.0, 0.0, 1.0), 0.3, (1.0, 2.0, 3.0), (4.0, 1 / 9, 6.0))
    field = SimpleITK.GetImageFromArray(np.random.default_rng(6).normal(size=(6, 7, 8, 3)), isVector=True)
    field.SetSpacing((1.1, 1.2, 1.3))
    made = {
        "affine": vx.Transform(affine),
        **{name: written(one, folder / f"{name}.tfm") for name, one in (("rigid", rigid), ("similarity", similar))},
        "field": written(SimpleITK.DisplacementFieldTransform(field), folder / "field.h5"),
    }
    return {**made, "composite": made["affine"] @ made["field"], "three": made["rigid"] @ made["field"] @ made["affine"]}


def written(one: SimpleITK.Transform, path: Path) -> vx.Transform:
    SimpleITK.WriteTransform(one, str(path))
    return vx.read_transform(path)


def test_transforms(tmp_path: Path) -> None:
    points = np.random.default_rng(1).uniform(-20, 20, (500, 3))
    for name, one in transforms(tmp_path).items():
        for protocol in PROTOCOLS:
            back = again(one, protocol)
            assert back(points).tobytes() == one(points).tobytes(), name
            assert repr(back) == repr(one)
        suffix = ".tfm" if one.is_affine else ".h5"
        paths = [tmp_path / f"{name}-{i}{suffix}" for i in range(2)]
        one.save(paths[0])
        back.save(paths[1])
        assert paths[0].read_bytes() == paths[1].read_bytes(), name


def test_copies_are_the_object(tmp_path: Path) -> None:
    result = vx.segment(vx.Image(blobs((20, 20, 20)), np.eye(4)).save(tmp_path / "a.nii") or tmp_path / "a.nii", report=False)
    for one in (vx.Image(blobs((4, 3)), np.eye(4)), vx.Transform(np.eye(4)), result, result.verdict):
        assert copy.copy(one) is one and copy.deepcopy([one])[0] is one


def test_results(pair: tuple[Path, Path], tmp_path: Path) -> None:
    # Of a folder that stays, the folder.
    kept = vx.affine(*pair, output=tmp_path / "out", **QUICK)
    back = again(kept)
    assert back.folder == kept.folder and back.record == kept.record and list(back.record) == list(kept.record)
    assert str(back.verdict) == str(kept.verdict) and bool(back.verdict) is bool(kept.verdict)
    verdict = again(kept.verdict)
    assert (verdict.checks, verdict.remarks, str(verdict)) == (kept.verdict.checks, kept.verdict.remarks, str(kept.verdict))
    # Of one that goes with the result, the files.
    result = vx.deform(*pair, schedule="2x3", device="cpu", threads=2)
    data, files = pickle.dumps(result), {role: path.read_bytes() for role, path in result.outputs.items()}
    first, transform = result.folder, result.transform
    del result
    gc.collect()
    assert not first.exists()
    back = pickle.loads(data)
    assert back.folder != first and back.folder.is_dir()
    assert {role: path.read_bytes() for role, path in back.outputs.items()} == files
    assert all(path.parent == back.folder for path in back.outputs.values())
    points = np.random.default_rng(1).uniform(-20, 20, (50, 3))
    assert back.transform(points).tobytes() == transform(points).tobytes()
    folder = back.folder
    del back
    gc.collect()
    assert not folder.exists()


def registered(images: tuple[vx.Image, vx.Image]) -> vx.Result:
    return vx.affine(*images, **QUICK)


def test_other_processes(pair: tuple[Path, Path]) -> None:
    """Images go there and results come back, as with joblib."""
    images = vx.read(pair[0]), vx.read(pair[1])
    here = registered(images)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(registered, images).result(timeout=120)
    assert there.transform.affine.tobytes() == here.transform.affine.tobytes()
    same(there.warped, here.warped)


def test_what_is_damaged_is_refused() -> None:
    function, (parts,) = vx.Transform(np.eye(4)).__reduce__()
    kind, numbers, rest = parts
    for bad in (("none", numbers, rest), (kind, numbers[:5], rest), ("rigid", numbers[:9], rest), ("displacement", [], rest)):
        with pytest.raises(vx.InputError, match="no transform of this version"):
            function(bad)
    with pytest.raises(vx.InputError):
        function(("displacement", numbers, ((2, 2, 2), b"1234")))
