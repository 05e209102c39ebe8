"""Images of other packages and back, with their geometry."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, blobs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import voxalign as vx

AFFINES = {
    "plain": np.diag([1.0, 1.0, 1.0, 1.0]),
    "anisotropic": np.diag([0.7, 1.3, 2.9, 1.0]),
    "flipped": np.diag([-1.0, 1.0, -2.0, 1.0]) + np.array([[0, 0, 0, 9.0]] * 3 + [[0, 0, 0, 0]]),
    "oblique": OBLIQUE,
}


def test_a_file_is_read_as_nibabel_reads_it(pair: tuple[Path, Path]) -> None:
    mine, theirs = vx.read(pair[0]), nibabel.load(pair[0])
    assert mine.shape == theirs.shape and mine.ndim == 3
    np.testing.assert_array_equal(mine.numpy(), np.asarray(theirs.dataobj))
    np.testing.assert_array_equal(mine.affine, theirs.affine)


@pytest.mark.parametrize("name", AFFINES)
def test_nibabel_there_and_back(name: str) -> None:
    values = blobs((5, 6, 7))
    image = vx.image(nibabel.Nifti1Image(values, AFFINES[name]))
    back = image.to_nibabel()
    np.testing.assert_array_equal(np.asarray(back.dataobj), values)
    np.testing.assert_array_equal(back.affine, AFFINES[name])
    np.testing.assert_array_equal(vx.image(back).affine, image.affine)


def rotated(spacing: tuple[float, ...]) -> np.ndarray:
    """Orthogonal axes, oblique."""
    turn, _ = np.linalg.qr(OBLIQUE[:3, :3])
    affine = np.eye(4)
    affine[:3, :3] = turn * np.array(spacing)
    affine[:3, 3] = (12.5, -3.25, 88.0)
    return affine


@pytest.mark.parametrize("affine", [AFFINES["flipped"], rotated((0.9, 1.4, 3.0))], ids=["flipped", "oblique"])
def test_simpleitk_there_and_back(affine: np.ndarray, tmp_path: Path) -> None:
    image = vx.Image(blobs((5, 6, 7)), affine)
    theirs = image.to_sitk()
    assert theirs.GetSize() == (5, 6, 7)
    at = (4, 1, 6)
    world = affine @ [*at, 1]
    np.testing.assert_allclose(theirs.TransformIndexToPhysicalPoint(at), world[:3] * [-1, -1, 1], atol=1e-9)
    assert theirs.GetPixel(at) == image.numpy()[at]
    back = vx.image(theirs)
    np.testing.assert_array_equal(back.numpy(), image.numpy())
    np.testing.assert_allclose(back.affine, affine, atol=1e-12)
    # The same file, read by each.
    SimpleITK.WriteImage(theirs, str(tmp_path / "a.mha"))
    np.testing.assert_allclose(vx.read(tmp_path / "a.mha").affine, affine, atol=1e-9)


def test_images_of_the_plane(plane: tuple[Path, Path]) -> None:
    read = vx.read(plane[0])
    held = vx.image(SimpleITK.ReadImage(str(plane[0])))
    assert read.ndim == held.ndim == 2 and read.shape == held.shape == (36, 40)
    np.testing.assert_array_equal(read.numpy(), held.numpy())
    np.testing.assert_array_equal(read.affine, held.affine)
    back = held.to_sitk()
    assert back.GetDimension() == 2
    assert back.GetSpacing() == pytest.approx((0.8, 1.1)) and back.GetOrigin() == pytest.approx((3.0, -4.0))
    np.testing.assert_array_equal(vx.image(held.numpy(), affine=held.affine).affine, held.affine)


def test_a_plane_by_a_matrix_of_three_rows() -> None:
    image = vx.image(blobs((6, 5)), affine=[[2, 0, 1], [0, 3, -1], [0, 0, 1]])
    assert image.ndim == 2 and image.spacing == (2.0, 3.0, 1.0)
    np.testing.assert_array_equal(image.affine[:2, 3], [1, -1])


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".mha", ".nrrd"])
def test_saved_and_read(suffix: str, tmp_path: Path) -> None:
    image = vx.Image(blobs((5, 6, 7)), rotated((1.0, 2.0, 1.5)))
    image.save(tmp_path / f"a{suffix}")
    back = vx.read(tmp_path / f"a{suffix}")
    np.testing.assert_array_equal(back.numpy(), image.numpy())
    np.testing.assert_allclose(back.affine, image.affine, atol=1e-5)


class Lent:
    """An array that is known by DLPack alone, as tensors are."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **how: object) -> object:
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def test_arrays_with_their_affine() -> None:
    values = blobs((4, 5, 6))
    for lent in (values, Lent(values), values.tolist(), np.asfortranarray(values), values.astype(">f8")):
        image = vx.image(lent, affine=OBLIQUE)
        np.testing.assert_array_equal(image.numpy(), values)
    np.testing.assert_array_equal(np.from_dlpack(image), values)
    np.testing.assert_array_equal(np.asarray(image), values)
    reversed_ = vx.image(values[::-1, :, ::2], affine=OBLIQUE)
    np.testing.assert_array_equal(reversed_.numpy(), values[::-1, :, ::2])


class Matrix:
    """A matrix as ITK has it."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def GetVnlMatrix(self) -> Matrix:
        return self

    def get(self, row: int, column: int) -> float:
        return float(self.values[row, column])


class OfItk:
    """What an image of ITK offers, z first."""

    def __init__(self, of: SimpleITK.Image) -> None:
        self.of = of
        self.GetSpacing, self.GetOrigin = of.GetSpacing, of.GetOrigin
        self.GetLargestPossibleRegion = of.GetSize

    def GetDirection(self) -> Matrix:
        n = self.of.GetDimension()
        return Matrix(np.array(self.of.GetDirection()).reshape(n, n))

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return SimpleITK.GetArrayFromImage(self.of)


class OfAnts:
    """What an image of ANTs offers, x first."""

    def __init__(self, of: SimpleITK.Image) -> None:
        n = self.dimension = of.GetDimension()
        self.spacing, self.origin = of.GetSpacing(), of.GetOrigin()
        self.direction = np.array(of.GetDirection()).reshape(n, n)
        self.numpy = lambda: SimpleITK.GetArrayFromImage(of).T


@pytest.mark.parametrize("shape", [(5, 6, 7), (6, 5)])
def test_images_of_itk_and_ants_by_what_they_offer(shape: tuple[int, ...]) -> None:
    affine = rotated((0.9, 1.4, 3.0)) if len(shape) == 3 else np.diag([0.5, 2.0, 1.0, 1.0])
    of_sitk = vx.Image(blobs(shape), affine).to_sitk()
    for theirs in (OfItk(of_sitk), OfAnts(of_sitk)):
        image = vx.image(theirs)
        assert image.shape == shape
        np.testing.assert_array_equal(image.numpy(), blobs(shape))
        np.testing.assert_allclose(image.affine, affine, atol=1e-12)


@pytest.mark.parametrize("bare", [np.zeros((3, 3, 3)), Lent(np.zeros((3, 3, 3)))], ids=["numpy", "dlpack"])
def test_a_bare_array_is_refused(bare: object) -> None:
    with pytest.raises(vx.InputError, match="affine"):
        vx.image(bare)
    with pytest.raises(vx.InputError, match="`fixed`.*geometry"):
        vx.affine(bare, bare)


@pytest.mark.parametrize(
    ("values", "affine"),
    [
        (np.zeros((2, 2, 2)), np.eye(3)),
        (np.zeros((2, 2, 2)), np.zeros((4, 4))),
        (np.zeros((2, 2, 2)), np.full((4, 4), np.nan)),
        (np.zeros((2, 2, 2)), np.ones((4, 4))),
        (np.zeros((2, 2, 2)), "eye"),
        (np.zeros((2, 2, 2)), None),
        (np.zeros((2, 2, 2, 3)), np.eye(4)),
        (np.zeros((0, 2, 2)), np.eye(4)),
        (np.zeros(()), np.eye(4)),
        (np.zeros((2, 2, 2), dtype=complex), np.eye(4)),
        (np.array([["a", "b"]]), np.eye(4)),
        ([[1, 2], [3]], np.eye(4)),
        (object(), np.eye(4)),
    ],
)
def test_bad_arrays(values: object, affine: object) -> None:
    with pytest.raises(vx.InputError):
        vx.Image(values, affine)


def test_what_is_no_image() -> None:
    for wrong in (3, object(), {}, vx.Transform(np.eye(4)), Path):
        with pytest.raises(vx.InputError):
            vx.image(wrong)
    with pytest.raises(vx.InputError, match="nowhere.nii.gz.*check the path"):
        vx.read("nowhere.nii.gz")
    with pytest.raises(vx.InputError, match="several volumes|dimensions"):
        vx.image(nibabel.Nifti1Image(np.zeros((3, 3, 3, 2), dtype=np.float32), np.eye(4)))
    with pytest.raises(vx.InputError, match="affine"):
        vx.image(nibabel.Nifti1Image(np.zeros((3, 3, 3), dtype=np.float32), np.eye(4)), affine=np.eye(4))
    with pytest.raises(vx.InputError, match="colours"):
        vx.image(SimpleITK.Image((3, 3), SimpleITK.sitkVectorFloat32, 3))
    sheared = np.eye(4)
    sheared[0, 1] = 0.3
    with pytest.raises(vx.InputError, match="orthogonal"):
        vx.Image(np.zeros((3, 3, 3)), sheared).to_sitk()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    numbers=st.lists(st.floats(-50, 50), min_size=12, max_size=12),
)
def test_any_geometry_stays(shape: list[int], numbers: list[float]) -> None:
    affine = np.vstack([np.array(numbers).reshape(3, 4), [0, 0, 0, 1]])
    try:
        image = vx.Image(np.zeros(shape), affine)
    except vx.InputError:
        assert abs(np.linalg.det(affine[:3, :3])) < 1e-3 * max(1.0, np.abs(affine).max() ** 3)
        return
    assert image.shape == tuple(shape)
    np.testing.assert_array_equal(image.affine, affine)
    np.testing.assert_array_equal(vx.image(image.to_nibabel()).affine, affine)
