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
        """An image of values and their geometry; the values are copied once. Those on a GPU stay there: they are copied within
        its memory, once what was asked of them there before is done.

        Parameters
        ----------
        values : array_like
            One to three dimensions, x first, of real numbers of any type, which become 32-bit floats. Arrays of
            numpy, or of torch, cupy and jax through DLPack. Integers of which some are 2^24 or more, as labels may
            be, are kept as 32-bit integers, too.
        affine : array_like
            4x4, from voxel index to world, RAS+ mm, with the last row 0 0 0 1; of two dimensions 3x3 as well.

        Raises
        ------
        InputError
            No such values, or an affine that is singular or not finite.
        VoxalignError
            Memory that does not suffice.
        """
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
    def numpy(self) -> npt.NDArray[Any]:
        """The values as an array, x first: a view that cannot be written to, and that keeps the image.

        Returns
        -------
        numpy.ndarray
            32-bit floats of the shape of the image, x fastest (Fortran order); 32-bit integers of an image that
            keeps these. `numpy().copy()` can be written to.
        """
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """By which numpy makes arrays, which keep the image."""
    def __dlpack__(self, **how: Any) -> Any:
        """A copy for other packages, as by `torch.from_dlpack(image)`: who takes it may write to it. That of an image on a GPU is
        there as well.

        Raises
        ------
        BufferError
            Where no copy is asked for (`copy=False`), or one on a device where the image is not.
        """
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def device(self) -> str:
        """Where the values are: `cpu`, or `cuda:0` and so on. Of an image on a GPU, `numpy()`, `save()` and whatever takes it and
        is not on that GPU copy them to the host, once.
        """
    def to_nibabel(self) -> Any:
        """The same as an image of nibabel, which has to be installed: RAS+, x first, with the values as a view that
        cannot be written to.
        """
    def to_sitk(self) -> Any:
        """The same as an image of SimpleITK, which has to be installed: LPS, with a copy of the values.

        Raises
        ------
        InputError
            Axes that are not orthogonal, which such an image cannot hold.
        """
    def to_itk(self) -> Any:
        """The same as an image of ITK, which has to be installed: LPS, with a copy of the values.

        Raises
        ------
        InputError
            Axes that are not orthogonal, which such an image cannot hold.
        """
    def to_ants(self) -> Any:
        """The same as an image of ANTs, which has to be installed: LPS, with a copy of the values.

        Raises
        ------
        InputError
            Axes that are not orthogonal, which such an image cannot hold.
        """
    def save(self, path: PathLike, *, data_type: str | None = None) -> None:
        """Writes it to a file that is complete or absent.

        Parameters
        ----------
        path : PathLike
            The name sets the format: .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd or .nhdr.
        data_type : str
            The type of values in the file: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64 [default: f32; i32 of an
            image that keeps 32-bit integers, which has no other]. What is rounded is warned of.

        Raises
        ------
        OptionError
            A type of values that there is not.
        InputError
            A name of no format, or a place that cannot be written to.
        """
    def __copy__(self) -> Image: ...
    def __deepcopy__(self, _memo: Any, /) -> Image: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Transform:
    """A map from points of the fixed image to points of the moving one, RAS+ mm."""

    def __new__(cls, affine: npt.ArrayLike) -> Transform:
        """An affine map of the world.

        Parameters
        ----------
        affine : array_like
            4x4, RAS+ mm, from points of the fixed image to points of the moving one, with the last row 0 0 0 1.

        Raises
        ------
        InputError
            No such matrix, or numbers that are not finite.
        """
    @property
    def is_affine(self) -> bool:
        """Whether it is a matrix alone."""
    @property
    def affine(self) -> npt.NDArray[np.float64] | None:
        """The 4x4 matrix, RAS+ mm; none where a displacement field is in it."""
    def __call__(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Carries points of the fixed image to the moving one.

        Parameters
        ----------
        points : array_like
            N points of the fixed image, N x 3, or one of three coordinates, RAS+ mm.

        Returns
        -------
        numpy.ndarray
            The points of the moving image, of the same shape, RAS+ mm.

        Raises
        ------
        InputError
            What is no list of points.
        """
    def __matmul__(self, other: Transform, /) -> Transform:
        """`a @ b` is the map that does `b` first and `a` after it, as matrices are multiplied."""
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def inverse(self, *, threads: int | None = None) -> Transform:
        """The map from the moving to the fixed image; that of a displacement field is a field on the same grid.

        Parameters
        ----------
        threads : int
            Threads to use; the result does not depend on it [default: all].

        Raises
        ------
        InputError
            A transform that has no inverse.
        """
    def save(
        self,
        path: PathLike,
        *,
        fixed_geometry: ImageLike | None = None,
        moving_geometry: ImageLike | None = None,
    ) -> None:
        """Writes it to a file that is complete or absent.

        Parameters
        ----------
        path : PathLike
            The name sets the format: .tfm or .txt (ITK), .mat (ITK and ANTs), .h5 (ITK and ANTs, with fields), .fsl
            or .fsl.mat (FSL), .nii.gz (a displacement field on the grid of the fixed image, or on its own).
        fixed_geometry, moving_geometry : ImageLike
            The images between which the transform is, which FSL's matrices are relative to.

        Raises
        ------
        InputError
            A name of no format, a transform that the format cannot hold, or a place that cannot be written to.
        """

    def to_sitk(self, *, dimensions: int | None = None) -> Any:
        """The same as a transform of SimpleITK, which has to be installed: LPS, from fixed to moving points, as its
        resampling takes it.

        Parameters
        ----------
        dimensions : int
            2 for images of the plane, or 3 [default: those of a displacement field; of a matrix alone 3].

        Raises
        ------
        InputError
            A transform that leaves the plane, where two dimensions are asked for, or a field of others.
        """
    def __copy__(self) -> Transform: ...
    def __deepcopy__(self, _memo: Any, /) -> Transform: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

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
    def __copy__(self) -> Verdict: ...
    def __deepcopy__(self, _memo: Any, /) -> Verdict: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

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
        """The moving image on the grid of the fixed one. Where one of the two was on the GPU that registered them, it is there as
        well.
        """
    @property
    def jacobian(self) -> Image:
        """The Jacobian determinant of the warp, without the affine part, in each voxel of the fixed image.

        Where images were in memory and `outputs` left out `warped` and `jacobian`, in each voxel of the warp.
        """
    def report(self) -> str:
        """The report, one page of HTML that opens offline."""
    def _repr_html_(self) -> str: ...
    def __copy__(self) -> Result: ...
    def __deepcopy__(self, _memo: Any, /) -> Result: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def read(path: PathLike, *, volume: int | None = None, series: str | None = None) -> Image:
    """Reads an image.

    Parameters
    ----------
    path : PathLike
        NIfTI, ANALYZE, NRRD, MetaImage, or a folder of DICOM.
    volume : int
        Which volume of several, from 0.
    series : str
        Which series of a folder of DICOM, by its UID or a part of it.

    Returns
    -------
    Image
        Values as 32-bit floats, x first, scaled as the header says, with the geometry in RAS+ mm.

    Raises
    ------
    InputError
        A file that is not there, is damaged, or holds no single image.
    OptionError
        A volume that is no number from 0 on.
    """

def transfers() -> dict[str, int]:
    """The bytes that were copied between the host and GPUs since the process began, by all that it did.

    Returns
    -------
    dict
        `to_device`, `to_host` and `within_device`, and `images_to_host`: of those to the host, the ones of images that had been
        given on a GPU.
    """

def read_transform(
    path: PathLike,
    *,
    fixed_geometry: ImageLike | None = None,
    moving_geometry: ImageLike | None = None,
) -> Transform:
    """Reads a transform.

    Parameters
    ----------
    path : PathLike
        ITK and ANTs (.tfm, .txt, .mat, .h5), FreeSurfer (.lta), FSL, or a displacement field.
    fixed_geometry, moving_geometry : ImageLike
        The images between which the transform is, which FSL's matrices are relative to.

    Returns
    -------
    Transform
        From points of the fixed image to points of the moving one, RAS+ mm.

    Raises
    ------
    InputError
        A file that is not there, is damaged, or holds no transform.
    """

def bids(
    result: Result | PathLike,
    output: PathLike,
    *,
    space: str | None = None,
    name: str | None = None,
    desc: str | None = None,
    skull_stripped: bool | None = None,
    reference: str | None = None,
    accept_bad: bool | None = None,
    overwrite: bool | None = None,
) -> dict[str, Path]:
    """Puts the result of a registration into a data set of BIDS derivatives, as the option `bids` of `affine`, `deform` and
    `elastic` does.

    The moving image on the grid of the fixed one, the transforms both ways, the Jacobian determinant where there is one, and
    the report get the names of the standard, each image and transform with a sidecar that says by what it was made and what
    the verdict is. Transforms are named as fMRIPrep does, and listed in `.bidsignore`, as the standard has no names for them
    yet: `from-T1w_to-MNI` resamples images of the subject to the space. The files appear together; where one of these names is
    there already, nothing is written.

    Parameters
    ----------
    result : Result or path
        What `affine`, `deform` or `elastic` gave, or the folder that the program wrote.
    output : path
        The folder of the data set; made where it is not there. `dataset_description.json` is written if there is none.
    space : str
        The label of the space of the fixed image, such as `MNI152NLin2009cAsym` [default: that of the name of its file: of a
        template (`tpl-LABEL`), of a space (`space-LABEL`), or its suffix where both images are of one subject].
    name : str
        Entities and suffix of the moving image, such as `sub-01_ses-two_T1w` [default: those of the name of its file].
    desc : str
        The label of the resampled image [default: preproc].
    skull_stripped : bool
        Whether voxels outside the brain of the moving image are 0, which the standard wants to know of anatomical images
        [default: what the sidecar of the moving image says].
    reference : str
        What `SpatialReference` says [default: the path of the fixed image].
    accept_bad : bool
        Take a result whose verdict is bad, too; its sidecars say so [default: False].
    overwrite : bool
        Replace files that the data set has under these names [default: False].

    Returns
    -------
    dict of str to pathlib.Path
        The files that were written, by what they are: `resampled`, `jacobian`, `transform`, `inverse_transform`, `report`.

    Raises
    ------
    OptionError
        A label that BIDS does not allow, or one that is missing.
    InputError
        A folder without a result, a result whose verdict is bad, a data set that is none of derivatives, or files that are
        there already.
    """

def program(arguments: Sequence[str], starts: Sequence[str]) -> int:
    """Runs the program with these arguments, its name first, and gives its exit code; `starts` is what would start it anew. It
    takes the process' signals, and is for a process of its own.
    """
