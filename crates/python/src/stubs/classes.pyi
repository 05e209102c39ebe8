# Written from the declaration of the options: see crates/python/src/stubs.rs.
from pathlib import Path
from collections.abc import Callable, Sequence
from typing import Any, Literal, final, overload

import numpy as np
import numpy.typing as npt

from .typing import ImageLike, PathLike, TransformLike, Value

__version__: str

class VoxalignError(Exception):
    """What voxalign could not do."""

class InputError(VoxalignError):
    """An image, a file or another input that cannot be used."""

class OptionError(VoxalignError):
    """A keyword argument that cannot be used as it is given, or that would be ignored."""

class DeviceError(VoxalignError):
    """A device that is not there, or that failed."""

class InternalError(VoxalignError):
    """A defect of voxalign."""

class VoxalignWarning(UserWarning):
    """Something to look at although the work goes on."""

@final
class Image:
    """An image with its geometry."""

    def __new__(cls, values: npt.ArrayLike, affine: npt.ArrayLike) -> Image:
        """From values of one to three dimensions, x first, and the affine from voxel index to world, RAS+ mm."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along x, y and, of three dimensions, z."""
    @property
    def ndim(self) -> int:
        """Dimensions, 2 or 3."""
    @property
    def affine(self) -> npt.NDArray[np.float64]:
        """The affine from voxel index to world, RAS+ mm, 4x4."""
    @property
    def spacing(self) -> tuple[float, float, float]:
        """Lengths of a voxel's edges, mm."""
    @property
    def orientation(self) -> str:
        """The directions of the axes, such as `RAS`."""
    def numpy(self) -> npt.NDArray[np.float32]:
        """The values as an array of 32-bit floats, x first; a copy."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __dlpack__(self, **how: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def to_nibabel(self) -> Any:
        """The same as an image of nibabel."""
    def to_sitk(self) -> Any:
        """The same as an image of SimpleITK."""
    def to_ants(self) -> Any:
        """The same as an image of ANTs."""
    def save(self, path: PathLike, *, data_type: str = "f32") -> None:
        """Writes it; the name sets the format: .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd or .nhdr."""

@final
class Transform:
    """A map from points of the fixed image to points of the moving one, RAS+ mm."""

    def __new__(cls, affine: npt.ArrayLike) -> Transform:
        """From an affine of the world, RAS+ mm: 4x4, fixed to moving."""
    @property
    def is_affine(self) -> bool:
        """Whether it is a matrix alone."""
    @property
    def affine(self) -> npt.NDArray[np.float64] | None:
        """The 4x4 matrix, RAS+ mm; none where a displacement field is in it."""
    def __call__(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Points of the moving image, of points of the fixed one: an array of three columns, or one point."""
    def __matmul__(self, other: Transform, /) -> Transform:
        """`a @ b` is the map that does `b` first and `a` after it, as matrices are multiplied."""
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def inverse(self, *, threads: int | None = None) -> Transform:
        """The map from the moving to the fixed image; that of a displacement field is a field on the same grid."""
    def save(
        self,
        path: PathLike,
        *,
        fixed_geometry: ImageLike | None = None,
        moving_geometry: ImageLike | None = None,
    ) -> None:
        """Writes it; the name sets the format: .tfm or .txt (ITK), .mat (ITK and ANTs), .h5 (ITK and ANTs, with fields), .fsl
        or .fsl.mat (FSL, which needs both geometries), .nii.gz (a displacement field on the grid of the fixed one)."""

@final
class Verdict:
    """Whether a result can be used, and why: true or false where that is asked."""

    def __bool__(self) -> bool: ...
    @property
    def good(self) -> bool:
        """Whether the result can be used."""
    @property
    def checks(self) -> list[dict[str, Any]]:
        """What was checked, each with its value and its bound."""
    @property
    def remarks(self) -> list[str]:
        """What no check can see."""

@final
class Result:
    """The result of a job."""

    @property
    def record(self) -> dict[str, Any]:
        """The record of the run: the dict of result.json."""
    @property
    def verdict(self) -> Verdict:
        """Whether the result can be used, and why."""
    @property
    def scores(self) -> dict[str, Any]:
        """Named figures, before and after."""
    @property
    def folder(self) -> Path:
        """The folder of the files."""
    @property
    def outputs(self) -> dict[str, Path]:
        """The files that were written, by what they are; of several of one kind the last."""
    @property
    def transform(self) -> Transform:
        """The transform from the fixed to the moving image: the affine part after the warp, where there is one."""
    @property
    def warped(self) -> Image:
        """The moving image on the grid of the fixed one."""
    @property
    def jacobian(self) -> Image:
        """The Jacobian determinant of the warp, without the affine part."""
    def report(self) -> str:
        """The report, one page of HTML that opens offline."""
    def _repr_html_(self) -> str: ...

def read(path: PathLike, *, volume: int | None = None, series: str | None = None) -> Image:
    """Reads an image: NIfTI, ANALYZE, NRRD, MetaImage or a folder of DICOM."""

def read_transform(
    path: PathLike,
    *,
    fixed_geometry: ImageLike | None = None,
    moving_geometry: ImageLike | None = None,
) -> Transform:
    """Reads a transform: ITK and ANTs (.tfm, .txt, .mat, .h5), FSL (which needs both geometries), or a displacement field."""

def program(arguments: Sequence[str], starts: Sequence[str]) -> int: ...
