"""Labels that 32-bit floats do not hold, as those of atlases with numbers of their own: to the bit, in memory as in files."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, refused

import voxalign as vx

#: Neighbours that one float stands for, the largest and the smallest.
NUMBERS = np.array([0, 312782560, 312782561, 2**31 - 1, -(2**31), 2**24 + 1])
SHIFT = np.eye(4)
SHIFT[0, 3] = 1.0


def values(of: type = np.int32) -> np.ndarray:
    return np.random.default_rng(3).choice(NUMBERS, (9, 8, 7)).astype(of)


@pytest.mark.parametrize("of", [np.int32, np.int64])
def test_integers_are_kept(of: type) -> None:
    image = vx.Image(values(of), OBLIQUE)
    assert image.numpy().dtype == np.int32 and not image.numpy().flags.writeable
    np.testing.assert_array_equal(image.numpy(), values())
    np.testing.assert_array_equal(np.from_dlpack(image), values())
    np.testing.assert_array_equal(np.asanyarray(image.to_nibabel().dataobj), values())


def test_what_floats_hold_stays_floats() -> None:
    for array in (np.full((3, 3), 2**24 - 1), np.full((3, 3), -(2**24) + 1), np.full((3, 3), 2**40), np.full((3, 3), 3e8)):
        assert vx.Image(array, np.eye(4)).numpy().dtype == np.float32
    unsigned = np.full((3, 3), 2**31 - 1, dtype=np.uint32)
    assert vx.Image(unsigned, np.eye(4)).numpy().dtype == np.int32
    assert vx.Image(unsigned + 1, np.eye(4)).numpy().dtype == np.float32


def test_of_other_packages() -> None:
    of_sitk = SimpleITK.GetImageFromArray(values().T)
    of_sitk.SetSpacing((1.0, 2.0, 3.0))
    image = vx.image(of_sitk)
    np.testing.assert_array_equal(image.numpy(), values())
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(image.to_sitk()).T, values())
    np.testing.assert_array_equal(vx.image(nibabel.Nifti1Image(values(), OBLIQUE)).numpy(), values())


def test_files(tmp_path: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(values(), OBLIQUE), tmp_path / "a.nii.gz")
    image = vx.read(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(image.numpy(), values())
    image.save(tmp_path / "b.nii.gz")
    back = nibabel.load(tmp_path / "b.nii.gz")
    assert back.get_data_dtype() == np.int32
    np.testing.assert_array_equal(np.asanyarray(back.dataobj), values())
    with refused(vx.OptionError, "`data_type` is f32", "only i32 keeps"):
        image.save(tmp_path / "c.nii.gz", data_type="f32")
    assert not (tmp_path / "c.nii.gz").exists()


def test_they_are_carried_as_from_files(tmp_path: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(values(), SHIFT), tmp_path / "a.nii.gz")
    moved = {"transform": vx.Transform(SHIFT), "interpolation": "label"}
    grid = vx.Image(np.zeros((9, 8, 7)), np.eye(4))
    in_memory = vx.apply(vx.Image(values(), SHIFT), reference=grid, **moved)
    np.testing.assert_array_equal(in_memory.numpy(), values())
    np.testing.assert_array_equal(vx.apply(tmp_path / "a.nii.gz", reference=grid, **moved).numpy(), values())


def test_they_are_compared(pair: tuple[Path, Path], tmp_path: Path) -> None:
    swapped = values()
    swapped[values() == 312782560] = 312782561
    for name, one in (("a", values()), ("b", swapped)):
        nibabel.save(nibabel.Nifti1Image(one, OBLIQUE), tmp_path / f"{name}.nii")
    a, b = vx.Image(values(), OBLIQUE), vx.Image(swapped, OBLIQUE)
    found = vx.compare(a, b, labels=True, min_voxels=1)
    assert found == vx.compare(tmp_path / "a.nii", tmp_path / "b.nii", labels=True, min_voxels=1)
    fixed = vx.read(pair[0])
    labels = vx.Image(np.resize(values(), fixed.shape), fixed.affine)
    quick = {"dof": 6, "search": "local", "device": "cpu", "report": False}
    result = vx.affine(fixed, fixed, fixed_labels=labels, moving_labels=labels, **quick)
    assert {one["label"] for one in result.record["labels"]} >= {312782560, 312782561, 2**31 - 1}
