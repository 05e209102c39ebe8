"""Images of other packages, recognised by what they offer, without importing these packages."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from importlib import import_module
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ._native import Image, InputError, OptionError, Transform, VoxalignError, read

#: From LPS, the world of ITK, to RAS, and back.
_LPS = np.array([-1.0, -1.0, 1.0])

#: Directions may be so far from orthonormal where a format holds rotations alone.
_ORTHONORMAL = 1e-4


def image(source: Any, affine: npt.ArrayLike | None = None) -> Image:
    """An image of anything that is one.

    Parameters
    ----------
    source : ImageLike
        A path; an image of nibabel, SimpleITK, ITK or ANTs; or an array of one to three dimensions (numpy, or torch, cupy
        and jax through DLPack), x first. Vectors and colours are refused. An array on a GPU stays there.
    affine : array_like
        Of arrays alone, which have no geometry of their own: 4x4, from voxel index to world, RAS+ mm; of two dimensions
        3x3 as well.

    Returns
    -------
    Image
        Values as 32-bit floats, and the geometry.

    Raises
    ------
    InputError
        What is no image, an array without an affine, or an affine that is singular or not finite.
    VoxalignError
        Memory that does not suffice.
    """
    if affine is not None:
        if _is_image(source) or isinstance(source, (str, os.PathLike)):
            raise InputError("`affine` is for arrays: an image has its own; leave it out")
        return Image(source, affine)
    if isinstance(source, Image):
        return source
    if isinstance(source, (str, os.PathLike)):
        return read(cast("str | os.PathLike[str]", source))
    if _is_nibabel(source):
        return _of_nibabel(source)
    if _is_sitk(source):
        return _of_sitk(source)
    if _is_itk(source):
        return _of_itk(source)
    if _is_ants(source):
        return _of_ants(source)
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    if hasattr(source, "__dlpack__") or hasattr(source, "__array__"):
        raise InputError(
            f"an array ({kind}) has no geometry, so that voxel sizes and orientation would be lost; "
            "give voxalign.image(array, affine=...), with the affine from voxel index to world, RAS+ mm"
        )
    raise InputError(
        f"an object of the type {kind} is no image; give a path, an image of nibabel, SimpleITK, ITK or ANTs, "
        "or an array by voxalign.image(array, affine=...)"
    )


def _has(source: Any, *names: str) -> bool:
    return not isinstance(source, type) and all(hasattr(source, name) for name in names)


def _is_nibabel(source: Any) -> bool:
    return _has(source, "dataobj", "affine", "header", "shape")


def _is_sitk(source: Any) -> bool:
    return _has(source, "GetSpacing", "GetOrigin", "GetDirection", "GetNumberOfComponentsPerPixel", "GetPixelIDValue")


def _is_itk(source: Any) -> bool:
    return _has(source, "GetSpacing", "GetOrigin", "GetDirection", "GetLargestPossibleRegion")


def _is_ants(source: Any) -> bool:
    return _has(source, "spacing", "origin", "direction", "numpy", "dimension")


def _is_image(source: Any) -> bool:
    return isinstance(source, Image) or any(
        is_one(source) for is_one in (_is_nibabel, _is_sitk, _is_itk, _is_ants)
    )


def _of_nibabel(source: Any) -> Image:
    if source.affine is None:
        raise InputError("the image of nibabel has no affine, so that its geometry is not known")
    return Image(np.asanyarray(source.dataobj), source.affine)


def _of_sitk(source: Any) -> Image:
    if source.GetNumberOfComponentsPerPixel() != 1:
        raise InputError("the image of SimpleITK holds vectors or colours; take one component out first")
    package = sys.modules[type(source).__module__.split(".")[0]]
    values = package.GetArrayViewFromImage(source)
    n = source.GetDimension()
    direction = np.array(source.GetDirection(), dtype=np.float64).reshape(n, n)
    return Image(values.T, _of_lps(direction, source.GetSpacing(), source.GetOrigin()))


def _of_itk(source: Any) -> Image:
    n = len(source.GetSpacing())
    of = source.GetDirection().GetVnlMatrix()
    direction = np.array([[of.get(r, c) for c in range(n)] for r in range(n)])
    values = np.asarray(source)
    if values.ndim != n:
        raise InputError("the image of ITK holds vectors or colours; take one component out first")
    return Image(values.T, _of_lps(direction, source.GetSpacing(), source.GetOrigin()))


def _of_ants(source: Any) -> Image:
    if getattr(source, "has_components", False):
        raise InputError("the image of ANTs holds vectors or colours; take one component out first")
    direction = np.asarray(source.direction, dtype=np.float64)
    return Image(source.numpy(), _of_lps(direction, source.spacing, source.origin))


def _of_lps(direction: Any, spacing: Any, origin: Any) -> npt.NDArray[np.float64]:
    """The affine from voxel index to RAS of a geometry in LPS; that of a plane is in the plane of x and y."""
    n = min(len(direction), 3)
    if len(direction) > 3:
        raise InputError(f"the image has {len(direction)} dimensions, and one of 2 or 3 is needed")
    affine = np.eye(4)
    affine[:n, :n] = np.asarray(direction)[:n, :n] * np.asarray(spacing, dtype=np.float64)[:n]
    affine[:n, 3] = np.asarray(origin, dtype=np.float64)[:n]
    affine[:3] *= _LPS[:, None]
    if n == 2:
        affine[2, 2] = 1.0
    return affine + 0.0


def _to_lps(source: Image) -> tuple[npt.NDArray[np.float64], list[float], list[float], int]:
    """Directions, spacing and origin in LPS, and the dimensions that hold them."""
    affine = source.affine
    matrix, origin = affine[:3, :3] * _LPS[:, None], affine[:3, 3] * _LPS
    spacing = np.linalg.norm(matrix, axis=0)
    direction = matrix / spacing
    if np.abs(direction.T @ direction - np.eye(3)).max() > _ORTHONORMAL:
        raise InputError(
            "the axes of the image are not orthogonal, which no image of ITK can hold; resample it first (voxalign.apply)"
        )
    flat = not (affine[2, :2].any() or affine[:2, 2].any() or affine[2, 3])
    n = 2 if source.ndim == 2 and flat else 3
    return direction[:n, :n] + 0.0, spacing[:n].tolist(), (origin[:n] + 0.0).tolist(), n


def _values(source: Image, dimensions: int) -> npt.NDArray[Any]:
    values = source.numpy()
    return values if values.ndim == dimensions else values[..., None]


def to_nibabel(source: Image) -> Any:
    """An image of nibabel: RAS, x first."""
    import nibabel

    values = source.numpy()
    small = max(values.shape) < 2**15
    made: Any = nibabel.Nifti1Image if small else nibabel.Nifti2Image
    return made(values, source.affine)


def to_sitk(source: Image) -> Any:
    """An image of SimpleITK: LPS."""
    SimpleITK: Any = import_module("SimpleITK")
    direction, spacing, origin, n = _to_lps(source)
    made = SimpleITK.GetImageFromArray(_values(source, n).T)
    made.SetDirection(direction.ravel().tolist())
    made.SetSpacing(spacing)
    made.SetOrigin(origin)
    return made


def to_itk(source: Image) -> Any:
    """An image of ITK: LPS."""
    itk: Any = import_module("itk")
    direction, spacing, origin, n = _to_lps(source)
    made = itk.image_from_array(_values(source, n).T)
    made.SetDirection(direction)
    made.SetSpacing(spacing)
    made.SetOrigin(origin)
    return made


def to_ants(source: Image) -> Any:
    """An image of ANTs: LPS."""
    ants: Any = import_module("ants")
    direction, spacing, origin, n = _to_lps(source)
    values = _values(source, n)
    if values.dtype == np.int32:
        # It has no integers with a sign.
        values = values.astype(np.uint32 if values.min() >= 0 else np.float64)
    return ants.from_numpy(values, origin=origin, spacing=spacing, direction=direction)


def transform_to_sitk(source: Transform, dimensions: int | None = None) -> Any:
    """A transform of SimpleITK: LPS, from fixed to moving points."""
    SimpleITK: Any = import_module("SimpleITK")
    if dimensions not in (None, 2, 3):
        raise OptionError(f"`dimensions` is {dimensions}; give 2 or 3")
    affine = source.affine
    if affine is not None:
        n = dimensions or 3
        if n == 2 and (affine[2].tolist() != [0, 0, 1, 0] or affine[:2, 2].any()):
            raise InputError("the transform leaves the plane of x and y; give `dimensions=3`")
        flip = _LPS[:n]
        made = SimpleITK.AffineTransform(n)
        made.SetMatrix((affine[:n, :n] * np.outer(flip, flip) + 0.0).ravel().tolist())
        made.SetTranslation((affine[:n, 3] * flip + 0.0).tolist())
        return made
    # Fields have a file format in common, and no memory.
    with tempfile.TemporaryDirectory(prefix="voxalign-") as folder:
        path = os.path.join(folder, "transform.h5")
        source.save(path)
        made = SimpleITK.ReadTransform(path)
    if dimensions not in (None, made.GetDimension()):
        raise InputError(f"the displacement field has {made.GetDimension()} dimensions; leave `dimensions` out")
    return made


def shape_of_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image of one to three dimensions, of values of this shape."""
    short = shape
    while len(short) > 3 and short[-1] == 1:
        short = short[:-1]
    if not 1 <= len(short) <= 3:
        raise InputError(f"an image has 1 to 3 dimensions, and these values have the shape {short}")
    return short


#: Up to this all whole numbers are 32-bit floats.
_EXACT = 2**24


def parts(values: Any, affine: Any) -> tuple[npt.NDArray[Any], tuple[int, ...], list[float], bool]:
    """Values of one to three dimensions, of whatever type, their shape, the sixteen numbers of an affine, and whether the values
    are integers of 32 bits that floats do not hold.
    """
    array = _array(values)
    shape = shape_of_image(array.shape)
    while array.ndim > len(shape):
        array = array[..., 0]
    return array, array.shape, matrix(affine, plane=array.ndim < 3), _is_whole(array)


def _is_whole(array: npt.NDArray[Any]) -> bool:
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or not array.size:
        return False
    least, largest = int(array.min()), int(array.max())
    return (least <= -_EXACT or largest >= _EXACT) and -(2**31) <= least and largest < 2**31


def fill(memory: Any, values: npt.NDArray[Any]) -> None:
    """Writes values into the memory of an image, as floats or as the integers that they are."""
    into = np.asarray(memory)
    # What is beyond the largest float becomes infinite, as it does where a file is read.
    with np.errstate(over="ignore", invalid="ignore"):
        into[...] = values.reshape(values.shape + (1,) * (into.ndim - values.ndim))


def _array(values: Any) -> npt.NDArray[Any]:
    """Numbers in the memory of the host."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(cast(Any, values)):
        raise InputError(
            "the values are masked, and an image has no mask of its own; give values.filled(...), and the mask as an image "
            "(`fixed_mask`, `moving_mask`)"
        )
    try:
        array: npt.NDArray[Any] = _of_dlpack(values) if _is_lent(values) else np.asarray(cast(Any, values))
    except MemoryError:
        raise
    except Exception as e:
        # Whatever the code of others raises.
        raise _no_array(values, e) from e
    if array.dtype.kind not in "biuf":
        raise InputError(f"the values are of the type {array.dtype}, which are no numbers of an image; give numbers, as by astype")
    return array


#: A GPU of CUDA, in the enumeration of DLPack, and the number of its default stream.
_CUDA, _DEFAULT_STREAM = 2, 1


def lent_by_gpu(values: Any) -> Any:
    """A capsule of DLPack with an array in the memory of a GPU, which what is asked of the default stream comes after; None of others."""
    if not _is_lent(values):
        return None
    try:
        lent = _without_flags(values)
        kind, number = lent.__dlpack_device__()
        if kind != _CUDA:
            return None
        with _current_gpu(lent, number):
            try:
                return lent.__dlpack__(stream=_DEFAULT_STREAM, max_version=(1, 0))
            except TypeError:
                # Of DLPack before 1.
                return lent.__dlpack__(stream=_DEFAULT_STREAM)
    except MemoryError:
        raise
    except Exception as e:
        # Whatever the code of others raises.
        raise _no_array(values, e) from e


def _without_flags(values: Any) -> Any:
    """A tensor without what is not lent: that derivatives are taken of it, and a sign that is still to be applied."""
    lent = values.detach() if hasattr(values, "detach") else values
    return lent.resolve_neg() if hasattr(lent, "resolve_neg") else lent


def _current_gpu(values: Any, number: int) -> contextlib.AbstractContextManager[Any]:
    """Makes the GPU of a tensor of torch the current one meanwhile: torch lends no others."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, torch.Tensor):
        return contextlib.nullcontext()
    return cast("contextlib.AbstractContextManager[Any]", torch.cuda.device(number))


def _no_array(values: Any, why: Exception) -> InputError:
    kind = f"{type(values).__module__}.{type(values).__qualname__}"
    return InputError(f"the values, of the type {kind}, are no array of numbers: {why}")


def _is_lent(values: Any) -> bool:
    return hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray)


def _of_dlpack(values: Any) -> npt.NDArray[Any]:
    lent = _without_flags(values)
    if lent.__dlpack_device__()[0] == 1:
        return np.from_dlpack(lent)
    for name in ("cpu", "get"):
        if hasattr(lent, name):
            return np.asarray(getattr(lent, name)())
    if not hasattr(lent, "__array__"):
        raise BufferError("they are on a device that cannot be read; bring them to the host first")
    return np.asarray(lent)


def _real(values: Any, what: str) -> npt.NDArray[np.float64]:
    """Real numbers, of which nothing is left out."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"of the type {array.dtype}")
        return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    except MemoryError:
        raise VoxalignError(f"{what} do not fit into memory; give fewer at a time") from None
    except Exception as e:
        raise InputError(f"{what} are no numbers: {e}") from e


def matrix(affine: Any, plane: bool = False) -> list[float]:
    """The sixteen numbers of a 4x4 matrix, row by row; of images of the plane it may be 3x3."""
    numbers = _real(affine, "the entries of the affine")
    if plane and numbers.shape == (3, 3):
        whole = np.eye(4)
        whole[:2, :2], whole[:2, 3] = numbers[:2, :2], numbers[:2, 2]
        if numbers[2].tolist() != [0.0, 0.0, 1.0]:
            raise InputError("the affine is no 3x3 matrix whose last row is 0 0 1")
        numbers = whole
    if numbers.shape != (4, 4):
        raise InputError(f"the affine has the shape {numbers.shape}; a 4x4 matrix from voxel index to RAS+ mm is needed")
    numbers_list: list[float] = numbers.ravel().tolist()
    return numbers_list


def points(values: Any) -> npt.NDArray[np.float64]:
    """Points of three coordinates each, or one."""
    array = _real(values, "the coordinates of points")
    if array.ndim not in (1, 2) or array.shape[-1] != 3:
        raise InputError(f"points have three columns, x, y and z in mm, and these have the shape {array.shape}")
    return array
