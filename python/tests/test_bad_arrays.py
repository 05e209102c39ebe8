"""Arrays and geometry that make no image are refused, with the argument and a remedy; odd ones that make one are taken."""

from __future__ import annotations

import warnings

import nibabel
import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, blobs, refused

import voxalign as vx

pytestmark = pytest.mark.usefixtures("nothing_left")

EYE = np.eye(4)
IMAGE = vx.Image(blobs((12, 11, 10)), OBLIQUE)


def with_affine(**at: float) -> np.ndarray:
    """The identity with other entries: `r0c3=5.0`."""
    affine = np.eye(4)
    for place, value in at.items():
        affine[int(place[1]), int(place[3])] = value
    return affine


class Raising:
    """What says that it is an array, and fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise self.error


class Elsewhere:
    """A tensor on a device that nothing here can read."""

    def __dlpack__(self, **how: object) -> object:
        raise BufferError("on the device 99")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 99, 0


TYPES = {
    "complex64": np.zeros((3, 3, 3), dtype="c8"),
    "complex128": np.zeros((3, 3, 3), dtype="c16"),
    "objects": np.full((3, 3, 3), object()),
    "numbers as objects": np.ones((3, 3, 3)).astype(object),
    "texts": np.full((3, 3, 3), "a"),
    "bytes": np.full((3, 3, 3), b"a"),
    "structured": np.zeros((3, 3, 3), dtype=[("red", "f4"), ("green", "f4")]),
    "dates": np.zeros((3, 3, 3), dtype="M8[s]"),
    "durations": np.zeros((3, 3, 3), dtype="m8[s]"),
    "void": np.zeros((3, 3, 3), dtype="V4"),
    "masked": np.ma.masked_array(np.zeros((3, 3, 3)), mask=np.eye(3, dtype=bool)[None].repeat(3, 0)),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_values(name: str) -> None:
    with refused(vx.InputError, "values"):
        vx.Image(TYPES[name], EYE)
    with refused(vx.InputError, "values"):
        vx.image(TYPES[name], affine=EYE)


SHAPES: dict[str, object] = {
    "a number": 3.0,
    "no dimension": np.array(3.0),
    "four dimensions": np.zeros((2, 2, 2, 2)),
    "five dimensions": np.zeros((2, 2, 2, 2, 2)),
    "32 dimensions": np.zeros((1,) * 30 + (2, 2)),
    "nothing": np.zeros(0),
    "no voxels along x": np.zeros((0, 3, 3)),
    "no voxels along z": np.zeros((3, 3, 0)),
    "an empty list": [],
    "ragged": [[1, 2], [3]],
    "a text": "values",
    "a dict": {"a": 1},
    "a set": {1, 2},
    "none": None,
    "a function": len,
    "a module": np,
    "a type": np.ndarray,
    "a generator": (n for n in range(3)),
    "an object": object(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_values(name: str) -> None:
    with refused(vx.InputError):
        vx.Image(SHAPES[name], EYE)


@pytest.mark.parametrize("shape", [(40_000, 4_000, 4_000), (2**31, 2**10, 2**10), (2**20, 2**20, 2**20)], ids=str)
def test_values_that_no_memory_holds(shape: tuple[int, ...]) -> None:
    # Of one number in memory.
    with pytest.raises(vx.VoxalignError, match="memory|voxels"):
        vx.Image(np.broadcast_to(np.float32(0), shape), EYE)
    with pytest.raises(vx.VoxalignError, match="memory"):
        vx.Transform(EYE)(np.broadcast_to(np.float64(0), (2**45, 3)))


@pytest.mark.parametrize(
    "error", [TypeError("x"), ValueError("x"), KeyError("x"), RuntimeError("x"), ZeroDivisionError("x"), IndexError("x")], ids=repr
)
def test_arrays_that_fail(error: Exception) -> None:
    with refused(vx.InputError, "Raising", "no array of numbers"):
        vx.Image(Raising(error), EYE)


def test_tensors_of_other_devices() -> None:
    with refused(vx.InputError, "Elsewhere", "no array of numbers"):
        vx.image(Elsewhere(), affine=EYE)
    with refused(vx.InputError, "geometry", "affine="):
        vx.image(Elsewhere())


AFFINES: dict[str, object] = {
    "none": None,
    "a text": "RAS",
    "a number": 1.0,
    "3x3 of a volume": np.eye(3),
    "3x4": np.eye(4)[:3],
    "4x3": np.eye(4)[:, :3],
    "5x5": np.eye(5),
    "sixteen numbers": np.eye(4).ravel(),
    "empty": [],
    "ragged": [[1, 0], [0]],
    "complex": np.eye(4) * 1j,
    "objects": [[object()] * 4] * 4,
    "zero": np.zeros((4, 4)),
    "all one": np.ones((4, 4)),
    "nan": np.full((4, 4), np.nan),
    "nan in the origin": with_affine(r0c3=np.nan),
    "infinite origin": with_affine(r1c3=np.inf),
    "infinite spacing": with_affine(r2c2=np.inf),
    "singular": with_affine(r2c2=0.0),
    "two equal axes": with_affine(r0c0=0.0, r0c1=1.0),
    "last row": with_affine(r3c0=1.0),
    "last row nan": with_affine(r3c3=np.nan),
    "perspective": with_affine(r3c3=2.0),
}


@pytest.mark.parametrize("name", AFFINES)
def test_affines(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused(vx.InputError, ""):
            vx.Image(np.zeros((3, 4, 5)), AFFINES[name])


@pytest.mark.parametrize(
    "affine", [np.eye(2), [[1, 0, 0], [0, 1, 0], [0, 0, 2]], [[0, 0, 0], [0, 1, 0], [0, 0, 1]], np.full((3, 3), np.nan)], ids=repr
)
def test_affines_of_the_plane(affine: object) -> None:
    with refused(vx.InputError):
        vx.Image(np.zeros((3, 4)), affine)


VALUES = blobs((6, 5, 4))

TAKEN = {
    "bool": VALUES > 20,
    "int8": VALUES.astype("i1"),
    "uint16": VALUES.astype("u2"),
    "int64": VALUES.astype("i8"),
    "half": VALUES.astype("f2"),
    "double": VALUES.astype("f8"),
    "long double": VALUES.astype("g"),
    "other bytes first": VALUES.astype(VALUES.dtype.newbyteorder()),
    "other bytes first, integers": VALUES.astype(">i2"),
    "Fortran order": np.asfortranarray(VALUES),
    "transposed": np.ascontiguousarray(VALUES.T).T,
    "reversed": VALUES[::-1, ::-1, ::-1],
    "every second": np.repeat(VALUES, 2, axis=1)[:, ::2],
    "read only": np.frombuffer(VALUES.tobytes(), dtype="f4").reshape(VALUES.shape),
    "broadcast": np.broadcast_to(VALUES[:, :, :1], VALUES.shape),
    "not aligned": np.frombuffer(b"\0" + VALUES.tobytes(), dtype="u1")[1:].view("f4").reshape(VALUES.shape),
    "nan and infinite": np.where(VALUES > 50, np.nan, np.where(VALUES > 40, -np.inf, VALUES)),
    "lists": VALUES.tolist(),
    "volumes of one": VALUES[..., None, None],
    "one voxel": np.ones((1, 1, 1)),
    "one column": np.ones((1, 1, 7)),
    "a matrix": np.matrix([[1.0, 2.0], [3.0, 4.0]]),
    "masked without a mask": np.ma.masked_array(VALUES),
    "a memory map": memoryview(VALUES),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str) -> None:
    values = TAKEN[name]
    image = vx.Image(values, OBLIQUE)
    expected = np.asarray(values, dtype=np.float32)
    expected = expected[..., 0, 0] if expected.ndim == 5 else expected
    np.testing.assert_array_equal(image.numpy(), expected)
    np.testing.assert_array_equal(image.affine, OBLIQUE)


def test_values_stay_when_the_array_changes() -> None:
    values = VALUES.copy(order="F")
    image = vx.Image(values, EYE)
    values[:] = -1
    np.testing.assert_array_equal(image.numpy(), VALUES)


def test_the_view_of_an_image() -> None:
    view = vx.Image(VALUES, EYE).numpy()
    # The image is gone, and its values are not.
    np.testing.assert_array_equal(view, VALUES)
    assert view.flags.f_contiguous and not view.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0, 0] = 1
    image = vx.Image(VALUES, EYE)
    assert np.shares_memory(image.numpy(), image.numpy()) and np.shares_memory(np.asarray(image), image.numpy())
    lent = np.from_dlpack(image)
    assert not np.shares_memory(lent, image.numpy())
    with pytest.raises(BufferError, match="copy"):
        image.__dlpack__(copy=False)
    doubles = np.array(image, dtype=np.float64)
    doubles[0, 0, 0] = -7
    np.testing.assert_array_equal(image.numpy(), VALUES)


HELD: dict[str, object] = {
    "vectors of SimpleITK": SimpleITK.Image((3, 3), SimpleITK.sitkVectorFloat32, 3),
    "complex of SimpleITK": SimpleITK.Image((3, 3, 3), SimpleITK.sitkComplexFloat32),
    "four dimensions of SimpleITK": SimpleITK.Image((3, 3, 3, 3), SimpleITK.sitkFloat32),
    "a type of nibabel": nibabel.Nifti1Image,
    "no affine": nibabel.Nifti1Image(np.zeros((3, 3, 3), dtype="f4"), None),
    "four dimensions": nibabel.Nifti1Image(np.zeros((3, 3, 3, 2), dtype="f4"), EYE),
    "colours": nibabel.Nifti1Image(np.zeros((3, 3, 3), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")]), EYE),
    "complex": nibabel.Nifti1Image(np.zeros((3, 3, 3), dtype="c8"), EYE),
    "a transform": vx.Transform(EYE),
    "a number": 3,
    "a list": [[1, 2], [3, 4]],
    "bytes": b"scan.nii",
    "a bare array": np.zeros((3, 3, 3)),
    "a bare image of one": np.float32(3),
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("place", ["fixed", "moving", "fixed_mask"])
def test_images_of_other_packages(name: str, place: str) -> None:
    images = {"fixed": IMAGE, "moving": IMAGE, place: HELD[name]}
    # `no affine` of nibabel is the identity in some versions.
    if name == "no affine" and HELD[name].affine is not None:
        pytest.skip("this nibabel gives an affine to images that have none")
    with refused(vx.InputError, f"`{place}`"):
        vx.affine(**images)


def test_an_affine_beside_an_image() -> None:
    for source in (IMAGE, nibabel.Nifti1Image(VALUES, EYE), SimpleITK.Image((3, 3, 3), SimpleITK.sitkFloat32), "a.nii"):
        with refused(vx.InputError, "`affine` is for arrays"):
            vx.image(source, affine=EYE)


FLAT = vx.Image(np.zeros((12, 11, 10)), EYE)

BY_WHICH_NOTHING_IS_FOUND = {
    "flat": (FLAT, "fixed"),
    "nan": (vx.Image(np.full((12, 11, 10), np.nan), EYE), "NaN"),
    "infinite": (vx.Image(np.full((12, 11, 10), np.inf), EYE), "infinite"),
    "some nan": (vx.Image(np.where(blobs((12, 11, 10)) > 60, np.nan, 1.0), EYE), "NaN"),
    "one voxel": (vx.Image(np.ones((1, 1, 1)), EYE), "image"),
    "two voxels": (vx.Image(np.arange(2.0).reshape(2, 1, 1), EYE), "image"),
    "of the plane": (vx.Image(blobs((12, 11)), EYE), "image"),
}


@pytest.mark.parametrize("function", [vx.affine, vx.deform, vx.elastic])
@pytest.mark.parametrize("name", BY_WHICH_NOTHING_IS_FOUND)
def test_images_by_which_nothing_is_found(name: str, function: object) -> None:
    image, said = BY_WHICH_NOTHING_IS_FOUND[name]
    with refused(vx.InputError, said):
        function(image, IMAGE)


def test_masks_and_labels() -> None:
    other = vx.Image(np.ones((5, 5, 5)), EYE)
    with refused(vx.InputError, "mask"):
        vx.affine(IMAGE, IMAGE, fixed_mask=other)
    with refused(vx.InputError, "mask"):
        vx.affine(IMAGE, IMAGE, fixed_mask=vx.Image(np.zeros(IMAGE.shape), OBLIQUE))
    with refused(vx.InputError, "whole numbers"):
        vx.affine(IMAGE, IMAGE, fixed_labels=IMAGE, moving_labels=IMAGE)
    with refused(vx.OptionError, "go together"):
        vx.affine(IMAGE, IMAGE, moving_labels=IMAGE)
    huge = vx.Image(np.full(IMAGE.shape, 2.0**24), OBLIQUE)
    with refused(vx.InputError, "2^24"):
        vx.apply(huge, reference=IMAGE, interpolation="label")
    with refused(vx.InputError, "whole numbers"):
        vx.compare(IMAGE, IMAGE, labels=True)
    with refused(vx.InputError, "grid"):
        vx.compare(IMAGE, vx.Image(np.ones((3, 3, 3)), EYE))


def test_images_stay_as_they_are() -> None:
    with pytest.raises(AttributeError):
        IMAGE.shape = (1, 2, 3)
    with pytest.raises(TypeError):
        vx.Image()
    with pytest.raises(TypeError):
        type("Other", (vx.Image,), {})
    for made in (vx.Result, vx.Verdict):
        with pytest.raises(TypeError):
            made()
