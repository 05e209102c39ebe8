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

@overload
def affine(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    bins: int | None = None,
    init: Value | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    search_angles: Value | None = None,
    search_steps: Value | None = None,
    optimiser: Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None = None,
    wolfe: Value | None = None,
    line_accuracy: Value | None = None,
    simplex: Value | None = None,
    history: Value | None = None,
    damping: Value | None = None,
    population: Value | None = None,
    temperature: Value | None = None,
    cooling: Value | None = None,
    particles: Value | None = None,
    sample_size: Value | None = None,
    dof: int | None = None,
    levels: Value | None = None,
    apodise: Value | None = None,
    rescue: Literal["on", "off"] | None = None,
    scheme: Value | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    fixed_weight: PathLike | None = None,
    distributed: Literal["auto", "replicate", "halo", "list", "peer", "stream"] | None = None,
    halo: Value | None = None,
    chunk: Value | None = None,
    streams: int | None = None,
    device_memory: Value | None = None,
    host_memory: Value | None = None,
    fixed_channel: int | None = None,
    moving_channel: int | None = None,
    fixed_window: Value | None = None,
    moving_window: Value | None = None,
    missing: Literal["error", "background"] | None = None,
    work: PathLike | None = None,
    gpus: int | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def affine(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    bins: int | None = None,
    init: Value | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    search_angles: Value | None = None,
    search_steps: Value | None = None,
    optimiser: Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None = None,
    wolfe: Value | None = None,
    line_accuracy: Value | None = None,
    simplex: Value | None = None,
    history: Value | None = None,
    damping: Value | None = None,
    population: Value | None = None,
    temperature: Value | None = None,
    cooling: Value | None = None,
    particles: Value | None = None,
    sample_size: Value | None = None,
    dof: int | None = None,
    levels: Value | None = None,
    apodise: Value | None = None,
    rescue: Literal["on", "off"] | None = None,
    scheme: Value | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    fixed_weight: PathLike | None = None,
    distributed: Literal["auto", "replicate", "halo", "list", "peer", "stream"] | None = None,
    halo: Value | None = None,
    chunk: Value | None = None,
    streams: int | None = None,
    device_memory: Value | None = None,
    host_memory: Value | None = None,
    fixed_channel: int | None = None,
    moving_channel: int | None = None,
    fixed_window: Value | None = None,
    moving_window: Value | None = None,
    missing: Literal["error", "background"] | None = None,
    work: PathLike | None = None,
    gpus: int | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Register two images by a rigid, similarity or affine transform.

    Parameters
    ----------
    fixed : ImageLike
        The fixed (reference) image
    moving : ImageLike
        The moving image, which is registered to it
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    cost : Literal["cr", "mi", "nmi", "ncc", "ssd"] | None
        Similarity measure (also `similarity`) [default: nmi; ncc in the finest stages if the intensities turn out to be linearly related]
    bins : int | None
        Histogram bins at the finest level; without `cost`, implies nmi in all stages; for cr, mi, nmi [default: cr: 256; mi: 64; nmi: 32]
    init : Value | None
        Start: `header` uses the headers as they are, `centre` aligns the image centres, `moments` aligns the centres of mass, `identity` ignores the headers (first voxel on first voxel, axis on axis), FILE is a transform file, fixed to moving, and `landmarks:FIXED.csv,MOVING.csv` the least-squares map with these degrees of freedom, from at least three point pairs (2D: two): CSV with columns x,y,z (mm), or a list of 3D Slicer, elastix, ANTs or MNI, the same number of points in the same order [default: moments]
    point_convention : Literal["ras", "lps"] | None
        World coordinates of the points of `init`, if their file does not state them [default: ras; of ANTs' CSV lps]
    search : Literal["full", "local", "none"] | None
        How far the search looks [default: full]
    search_angles : Value | None
        Rotations about x, y and z covered by a full search, degrees: one number A for -A:A about every axis, or three values, each a number A or a range MIN:MAX, such as `30,30,-180:180`; for full [default: 180]
    search_steps : Value | None
        Steps of the coarse and the fine rotation search, degrees; for full [default: 60,18]
    optimiser : Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None
        How the minimum of the cost is found from each candidate [default: bfgs]
    wolfe : Value | None
        Constant of the Wolfe curvature condition: fraction of the initial slope that may remain at the end of a line search; for bfgs [default: 0.9]
    line_accuracy : Value | None
        Relative tolerance of a line search; for powell [default: 0.1]
    simplex : Value | None
        Edge length of the initial simplex, in multiples of the initial step; for nelder-mead [default: 1]
    history : Value | None
        Number of previous costs whose maximum bounds the next one (non-monotone line search); 1 for monotone descent; for gradient [default: 10]
    damping : Value | None
        Initial damping, as a fraction of the diagonal of the approximate Hessian; for levenberg-marquardt [default: 0.001]
    population : Value | None
        Population size: points per generation; for cma-es [default: 4 + 3 ln n for n parameters: 9 for 6, 11 for 12]
    temperature : Value | None
        Initial temperature, in units of the mean cost difference between the start and points near it; for annealing [default: 2]
    cooling : Value | None
        Final temperature, as a fraction of the initial one; for annealing [default: 0.01]
    particles : Value | None
        Number of particles; for monte-carlo [default: 8 to 22: 1/32 of the maximum number of evaluations, at least 8]
    sample_size : Value | None
        Effective sample size to which each temperature step may reduce the particles, as a fraction of their number; for monte-carlo [default: 0.5]
    dof : int | None
        Degrees of freedom: 6 rigid, 7 with one scale, 9 with three, 12 affine; for 2D images 3 rigid, 4 with one scale, 6 affine [default: 12, and 6 for 2D images]
    levels : Value | None
        Sample spacing of each resolution level, coarse to fine, mm [default: 8,4,2,1, adapted to images much smaller or larger than a head]
    apodise : Value | None
        Width of the border of the moving image in which voxels are down-weighted, mm; 0 for none [default: 1/40 of the median of its extents; 5 for a head]
    rescue : Literal["on", "off"] | None
        Whether to respond to a bad result by also trying another cost, a local search from the headers, and fewer degrees of freedom, and to keep the result with the best agreement of the images; the record lists what was tried [default: on]
    scheme : Value | None
        How the sums of cr, ncc and ssd are accumulated: conflict_free, direct, and on a GPU also fixed_point, warp_aggregated, global_merge, and, for comparison only, because their last digits differ between runs, global_atomic, shared_atomic, shared_merge, shared_warp [default: conflict_free]
    fixed_mask : ImageLike | None
        Mask of the fixed image, on its grid: only voxels above 0 count
    moving_mask : ImageLike | None
        Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    fixed_labels : ImageLike | None
        Label map of the fixed image, to report the overlap before and after; not used for the registration
    moving_labels : ImageLike | None
        Label map of the moving image, to report the overlap before and after
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    fixed_volume : int | None
        Which volume of a fixed image with several, such as a 4D NIfTI file, counted from 0
    moving_volume : int | None
        The same for the moving image
    fixed_series : Value | None
        Which DICOM series of a fixed image folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    moving_series : Value | None
        The same for the moving image
    fixed_weight : PathLike | None
        Weight of each voxel of the fixed image (0 or more), on its grid
    distributed : Literal["auto", "replicate", "halo", "list", "peer", "stream"] | None
        Register images that are read in blocks and may be larger than memory: sections and volumes in OME-Zarr, TIFF or NIfTI, spread over the devices of all processes that mpirun starts, or over all GPUs of one. Only mi and nmi, of sections by default mi
    halo : Value | None
        Pixels around its block of the moving image that each rank has as well, as a fraction of the block on each side; at least the one pixel that interpolation needs; for auto, halo, list, peer [default: 0]
    chunk : Value | None
        Pixels of a side of the chunks after each of which ranks exchange samples; for list [default: 1536]
    streams : int | None
        Chunks that are worked on at once; for list [default: 4]
    device_memory : Value | None
        Memory that images may take on each device, such as 8GiB [default: seven tenths of the free memory of a GPU; of a CPU half, shared by all ranks]
    host_memory : Value | None
        Memory that images may take on the host, for each rank [default: half the free memory, shared by all ranks]
    fixed_channel : int | None
        Channel of the fixed image, from 0 [default: the luminance of red, green and blue]
    moving_channel : int | None
        Channel of the moving image, from 0 [default: the luminance of red, green and blue]
    fixed_window : Value | None
        Values of the fixed image that become 0 and 65535; needed where they are neither 8 nor 16 bits
    moving_window : Value | None
        The same for the moving image
    missing : Literal["error", "background"] | None
        What a missing chunk of an OME-Zarr is: an error, or its fill value, as some writers leave chunks of background out [default: error]
    work : PathLike | None
        Folder for the coarser levels of files that lack them; what is there is used again, also after a run that was stopped or killed [default: pyramids in the folder of the results, removed at the end]
    gpus : int | None
        GPUs of a single process [default: all of its machine]; under mpirun each process has one device
    interpolation : Literal["nearest", "linear", "cubic", "label"] | None
        Interpolation of warped.nii.gz [default: linear]
    outside : Value | None
        Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a background below 0, such as CT, their smallest value]
    report : bool
        False: do not write report.html [default: True]
    outputs : Value | None
        Which files to write, separated by commas: affine, warped, or `all`; result.json is always written, and report.html unless `report=False` says otherwise [default: all]
    bids : PathLike | None
        Put the result into this data set of BIDS derivatives as well, under the names of BIDS and with sidecars; the folder is made where it is not there
    bids_space : Value | None
        Label of the space of the fixed image, such as MNI152NLin2009cAsym [default: that of its name: of a template (tpl-LABEL), of a space (space-LABEL), or its suffix where both images are of one subject]
    bids_name : Value | None
        Entities and suffix of the moving image, such as sub-01_ses-two_T1w [default: those of the name of its file]
    bids_desc : Value | None
        Label of the resampled image [default: preproc]
    bids_skull_stripped : Literal["yes", "no"] | None
        Whether voxels outside the brain of the moving image are 0, which BIDS wants to know of anatomical images [default: what the sidecar of the moving image says]
    bids_reference : Value | None
        What sidecars have as SpatialReference [default: the path of the fixed image]
    bids_accept_bad : bool
        Put a result there whose verdict is bad, too; its sidecars say so [default: False]
    bids_overwrite : bool
        Replace files that the data set has under these names [default: False]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def deform(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    path_storage: Literal["full", "half", "checkpoints"] | None = None,
    similarity: Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    channel: Value | None = None,
    histogram_match: bool = False,
    clip: bool = True,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    dof: int | None = None,
    rescue: Literal["on", "off"] | None = None,
    landmarks: Value | None = None,
    landmark_weight: Value | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def deform(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    path_storage: Literal["full", "half", "checkpoints"] | None = None,
    similarity: Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    channel: Value | None = None,
    histogram_match: bool = False,
    clip: bool = True,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    dof: int | None = None,
    rescue: Literal["on", "off"] | None = None,
    landmarks: Value | None = None,
    landmark_weight: Value | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Register two images by a diffeomorphic (invertible) deformation, after an affine transform.

    Parameters
    ----------
    fixed : ImageLike
        The fixed (reference) image
    moving : ImageLike
        The moving image, which is registered to it
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    affine : Value | None
        Affine transform to start from: `auto` runs an affine registration first, as `voxalign affine` does; `none` uses the headers as they are; FILE is an affine transform, fixed to moving [default: auto]
    init : Value | None
        Start of the initial affine registration, as for `voxalign affine`; `landmarks` do not influence it unless given here as well [default: moments]
    model : Literal["greedy", "symmetric", "lddmm"] | None
        Deformation model [default: symmetric; for populations, anatomies and transforms without a half-way greedy]
    step : Value | None
        Largest displacement of an iteration, voxels at the current scale; where both images move, of each of them [default: 0.5]
    step_rule : Literal["largest", "adaptive"] | None
        How the step is controlled; for greedy, symmetric [default: largest]
    total_sigma : Value | None
        Standard deviation of the Gaussian that smooths the total displacement after each iteration, voxels at the current scale, and where both images of a pair move 1.2 times that of each of them; 0 for none. It makes the deformation elastic instead of fluid; for greedy, symmetric [default: 0.7; for anatomies of shapes alone 0]
    time_steps : int | None
        Number of time steps of the velocity; for lddmm [default: 10]
    lddmm_sigma : Value | None
        The similarity has the weight 1 / sigma^2 relative to the length of the path; for lddmm [default: 0.1]
    path_storage : Literal["full", "half", "checkpoints"] | None
        How the path over time is stored; half precision changes the last digits of the result; for lddmm [default: full]
    similarity : Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None
        Similarity measure [default: auto]
    bins : int | None
        Histogram bins; for mi, nmi [default: mi: 64; nmi: 32]
    radius : Value | None
        Radius of the windows, voxels at the current scale; for lncc, mapped [default: 2]
    patch_radius : Value | None
        Radius of the patches, voxels at the current scale; for mapped, mind [default: 1]
    patch_distance : Value | None
        Distance from a voxel to the patches around it that are compared, voxels at the current scale; for mapped, mind [default: 1]
    solver : Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None
        How forces are smoothed into velocities: by inverting the elastic operator `-alpha Laplacian - beta grad div + gamma`, or by a Gaussian [default: gaussian, and fft for lddmm]
    alpha : Value | None
        Weight of the Laplacian; for fft, sor, cg, hybrid [default: 0.01]
    beta : Value | None
        Weight of the gradient of the divergence; for fft, sor, cg, hybrid [default: 0]
    gamma : Value | None
        Weight of the velocity itself; must be above 0 with periodic boundaries or without a Laplacian; for fft, sor, cg, hybrid [default: 0.001]
    boundary : Literal["zero", "periodic"] | None
        Boundary condition of the operator; for fft, sor, cg, hybrid [default: fft: periodic; sor, cg, hybrid: zero]
    solver_iterations : int | None
        Maximum number of iterations per velocity; for sor, cg, hybrid [default: sor, cg: 200; hybrid: 2 sweeps, or 4 conjugate gradient iterations with beta]
    solver_tolerance : Value | None
        Relative residual at which iterations stop; for sor, cg [default: 0.001]
    sigma : Value | None
        Standard deviation of the Gaussian, voxels at the current scale; for gaussian [default: 1.732; for pairs of images that are compared by mapped, mind, mi or nmi 3]
    schedule : Value | None
        Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100 iterations at twice the voxel size [default: 4x100,2x100,1x50; for an atlas 4x50,2x50,1x25]
    convergence : Value | None
        A scale ends once the energy has decreased over a window of iterations by less than this fraction of its decrease at this scale so far; 0 for never [default: 0.01; for an atlas 0]
    convergence_window : int | None
        Number of iterations in that window [default: 10]
    channel : Value | None
        Another pair of images, its similarity and its weight (FIXED and MOVING have weight 1); the fixed image must be on the grid of FIXED. May be repeated
    histogram_match : bool
        Match the histogram of each moving image to that of its fixed one first [default: False]
    clip : bool
        False: compute on all of both images, not only around the part of the body that both show [default: True]
    cost : Literal["cr", "mi", "nmi", "ncc", "ssd"] | None
        Similarity measure of the affine registration [default: nmi; ncc in the finest stages if the intensities turn out to be linearly related]
    search : Literal["full", "local", "none"] | None
        Search range of the affine registration; none uses the start of `init` unchanged [default: full]
    dof : int | None
        Degrees of freedom of the affine registration, as for `voxalign affine` [default: 12, and 6 for 2D images]
    rescue : Literal["on", "off"] | None
        Whether to respond to a bad affine result by trying other settings, as for `voxalign affine` [default: on]
    landmarks : Value | None
        Corresponding points of the fixed and of the moving image that drive the deformation together with the images: CSV with columns x,y,z (world coordinates, mm), or a list of 3D Slicer, elastix, ANTs or MNI, the same number of points in the same order. A column `weight` in the first CSV gives the weight of each pair (0: measured only)
    landmark_weight : Value | None
        Weight of the landmarks, 1/mm²: the mean squared distance times this is added to the energy of the images. A larger weight brings them closer together, and the images count less around them [default: mi, nmi: 0.001; lncc, mapped, mind: 0.0003; ssd: 0.000003]
    point_convention : Literal["ras", "lps"] | None
        World coordinates of points whose file does not state them [default: ras; of ANTs' CSV lps]
    fixed_mask : ImageLike | None
        Mask of the fixed image, on its grid: only voxels above 0 count
    moving_mask : ImageLike | None
        Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    fixed_labels : ImageLike | None
        Label map of the fixed image, to report the overlap before and after; not used for the registration
    moving_labels : ImageLike | None
        Label map of the moving image, to report the overlap before and after
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    fixed_volume : int | None
        Which volume of a fixed image with several, such as a 4D NIfTI file, counted from 0
    moving_volume : int | None
        The same for the moving image
    fixed_series : Value | None
        Which DICOM series of a fixed image folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    moving_series : Value | None
        The same for the moving image
    interpolation : Literal["nearest", "linear", "cubic", "label"] | None
        Interpolation of warped.nii.gz [default: linear]
    outside : Value | None
        Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a background below 0, such as CT, their smallest value]
    report : bool
        False: do not write report.html [default: True]
    outputs : Value | None
        Which files to write, separated by commas: warp, inverse_warp, affine, composite, inverse_composite, warped, jacobian, or `all`; result.json is always written, and report.html unless `report=False` says otherwise [default: warp,inverse_warp,affine,warped]
    bids : PathLike | None
        Put the result into this data set of BIDS derivatives as well, under the names of BIDS and with sidecars; the folder is made where it is not there
    bids_space : Value | None
        Label of the space of the fixed image, such as MNI152NLin2009cAsym [default: that of its name: of a template (tpl-LABEL), of a space (space-LABEL), or its suffix where both images are of one subject]
    bids_name : Value | None
        Entities and suffix of the moving image, such as sub-01_ses-two_T1w [default: those of the name of its file]
    bids_desc : Value | None
        Label of the resampled image [default: preproc]
    bids_skull_stripped : Literal["yes", "no"] | None
        Whether voxels outside the brain of the moving image are 0, which BIDS wants to know of anatomical images [default: what the sidecar of the moving image says]
    bids_reference : Value | None
        What sidecars have as SpatialReference [default: the path of the fixed image]
    bids_accept_bad : bool
        Put a result there whose verdict is bad, too; its sidecars say so [default: False]
    bids_overwrite : bool
        Replace files that the data set has under these names [default: False]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def elastic(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    slice: PathLike | Sequence[Any] | None = None,
    similarity: Literal["mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    histogram_match: bool = False,
    young: Value | None = None,
    poisson: Value | None = None,
    density: Value | None = None,
    materials: PathLike | None = None,
    state: PathLike | None = None,
    stream: PathLike | Sequence[Any] | None = None,
    stream_schedule: Value | None = None,
    mesh: PathLike | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    mesh_spacing: Value | None = None,
    mesh_mask: PathLike | None = None,
    mesh_labels: PathLike | None = None,
    fix_label: Value | None = None,
    fix_nodes: PathLike | None = None,
    force: Literal["consistent", "least-squares", "nodes"] | None = None,
    force_scale: Value | None = None,
    coupling: Literal["implicit", "explicit"] | None = None,
    samples: Value | None = None,
    time_step: Value | None = None,
    newmark: Value | None = None,
    damping: Value | None = None,
    stiffness_damping: Value | None = None,
    tolerance: Value | None = None,
    step_solver: Literal["auto", "direct", "cg", "chebyshev", "inverse"] | None = None,
    schedule: Value | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    dof: int | None = None,
    rescue: Literal["on", "off"] | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def elastic(
    fixed: ImageLike,
    moving: ImageLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    slice: PathLike | Sequence[Any] | None = None,
    similarity: Literal["mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    histogram_match: bool = False,
    young: Value | None = None,
    poisson: Value | None = None,
    density: Value | None = None,
    materials: PathLike | None = None,
    state: PathLike | None = None,
    stream: PathLike | Sequence[Any] | None = None,
    stream_schedule: Value | None = None,
    mesh: PathLike | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    mesh_spacing: Value | None = None,
    mesh_mask: PathLike | None = None,
    mesh_labels: PathLike | None = None,
    fix_label: Value | None = None,
    fix_nodes: PathLike | None = None,
    force: Literal["consistent", "least-squares", "nodes"] | None = None,
    force_scale: Value | None = None,
    coupling: Literal["implicit", "explicit"] | None = None,
    samples: Value | None = None,
    time_step: Value | None = None,
    newmark: Value | None = None,
    damping: Value | None = None,
    stiffness_damping: Value | None = None,
    tolerance: Value | None = None,
    step_solver: Literal["auto", "direct", "cg", "chebyshev", "inverse"] | None = None,
    schedule: Value | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    search: Literal["full", "local", "none"] | None = None,
    dof: int | None = None,
    rescue: Literal["on", "off"] | None = None,
    fixed_mask: ImageLike | None = None,
    moving_mask: ImageLike | None = None,
    fixed_labels: ImageLike | None = None,
    moving_labels: ImageLike | None = None,
    label_names: PathLike | None = None,
    fixed_volume: int | None = None,
    moving_volume: int | None = None,
    fixed_series: Value | None = None,
    moving_series: Value | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    bids: PathLike | None = None,
    bids_space: Value | None = None,
    bids_name: Value | None = None,
    bids_desc: Value | None = None,
    bids_skull_stripped: Literal["yes", "no"] | None = None,
    bids_reference: Value | None = None,
    bids_accept_bad: bool = False,
    bids_overwrite: bool = False,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Register two images by an elastic body that they move, with its strain, after an affine transform.

    Parameters
    ----------
    fixed : ImageLike
        The fixed (reference) image
    moving : ImageLike
        The moving image, which is registered to it
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    affine : Value | None
        Affine transform to start from: `auto` runs an affine registration first, as `voxalign affine` does; `none` uses the headers as they are; FILE is an affine transform, fixed to moving [default: auto]
    init : Value | None
        Start of the initial affine registration, as for `voxalign affine` [default: moments]
    slice : PathLike | Sequence[Any] | None
        Further slices, where the fixed image is a slice too: a volume is brought to all of them. A slice is an image of which exactly one dimension is 1, at its place in the world
    similarity : Literal["mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None
        Similarity measure [default: ssd]
    bins : int | None
        Histogram bins; for mi, nmi [default: mi: 64; nmi: 32]
    radius : Value | None
        Radius of the windows, voxels at the current scale; for lncc, mapped [default: 2]
    patch_radius : Value | None
        Radius of the patches, voxels at the current scale; for mapped, mind [default: 1]
    patch_distance : Value | None
        Distance from a voxel to the patches around it that are compared, voxels at the current scale; for mapped, mind [default: 1]
    histogram_match : bool
        Match the histogram of each moving image to that of its fixed one first [default: False]
    young : Value | None
        Young's modulus [default: 1000]
    poisson : Value | None
        Poisson's ratio: near 0.5 for what keeps its volume [default: 0.4]
    density : Value | None
        Density [default: 1000]
    materials : PathLike | None
        CSV file with the material of each label of the mesh: label, young (Pa), poisson, density (kg/m³)
    state : PathLike | None
        Start where the body of an earlier run with the same mesh ended, and as it moved there: the mesh.vtu of that run
    stream : PathLike | Sequence[Any] | None
        Follow a sequence: further fixed images on the same grid, in the order of time after FIXED. Each begins where the body ended in the one before, without the coarse scales, and has a folder frame_NNN of its own
    stream_schedule : Value | None
        Scales and iterations of the frames after the first [default: the last scale of `schedule`]
    mesh : PathLike | None
        Mesh of linear tetrahedra in the world of the fixed image (of the moving one where slices are fixed), mm: VTK (.vtu, .vtk) or Gmsh (.msh), in one part that faces connect
    point_convention : Literal["ras", "lps"] | None
        World coordinates of the vertices of `mesh`, if its file does not state them [default: ras]
    mesh_spacing : Value | None
        Edges of the cells, each of six tetrahedra, of a mesh that is made over the fixed image, over the moving one where slices are fixed, or of `mesh_mask`, mm [default: 10]
    mesh_mask : PathLike | None
        Mask of the body, on any grid in the same world: the mesh is fitted to its largest part, with the surface where that of the mask is; its values other than 0 are the labels of the tetrahedra
    mesh_labels : PathLike | None
        Label map on any grid in that world: each tetrahedron has the label at most of its corners, centre and middles of edges, the lowest of several
    fix_label : Value | None
        Labels whose vertices are held where they are, separated by commas
    fix_nodes : PathLike | None
        Text file of vertices that are held, the number of one a line, counted from 0
    force : Literal["consistent", "least-squares", "nodes"] | None
        How forces at samples become forces on the vertices of the mesh [default: consistent]
    force_scale : Value | None
        Pressure by which the energy of the images is multiplied: the larger, the more they deform the body [default: ssd: 12; lncc: 0.5; mi and nmi: 0.05; others: 1]
    coupling : Literal["implicit", "explicit"] | None
        How steps see that the forces of images change on the way [default: implicit]
    samples : Value | None
        Where the images pull: at all voxels, or at this many points along the axes of the fixed image [default: all]
    time_step : Value | None
        Time step [default: 0.05]
    newmark : Value | None
        Weights of the new acceleration in Newmark's method; a gamma above 1/2 damps fast motions [default: 0.3025,0.6]
    damping : Value | None
        Damping in proportion to the mass [default: 4 over the time step]
    stiffness_damping : Value | None
        Damping in proportion to the stiffness [default: 0]
    tolerance : Value | None
        A scale ends once the body would go less than this part of a voxel farther, and the unbalanced force has fallen to this part of its largest value; 0 for never [default: 0.1]
    step_solver : Literal["auto", "direct", "cg", "chebyshev", "inverse"] | None
        How the displacements of a step are solved for [default: auto]
    schedule : Value | None
        Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100 iterations at twice the voxel size [default: 4x100,2x100,1x50; for an atlas 4x50,2x50,1x25]
    cost : Literal["cr", "mi", "nmi", "ncc", "ssd"] | None
        Similarity measure of the affine registration [default: nmi; ncc in the finest stages if the intensities turn out to be linearly related]
    search : Literal["full", "local", "none"] | None
        Search range of the affine registration; none uses the start of `init` unchanged [default: full]
    dof : int | None
        Degrees of freedom of the affine registration, as for `voxalign affine` [default: 12, and 6 for 2D images]
    rescue : Literal["on", "off"] | None
        Whether to respond to a bad affine result by trying other settings, as for `voxalign affine` [default: on]
    fixed_mask : ImageLike | None
        Mask of the fixed image, on its grid: only voxels above 0 count
    moving_mask : ImageLike | None
        Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    fixed_labels : ImageLike | None
        Label map of the fixed image, to report the overlap before and after; not used for the registration
    moving_labels : ImageLike | None
        Label map of the moving image, to report the overlap before and after
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    fixed_volume : int | None
        Which volume of a fixed image with several, such as a 4D NIfTI file, counted from 0
    moving_volume : int | None
        The same for the moving image
    fixed_series : Value | None
        Which DICOM series of a fixed image folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    moving_series : Value | None
        The same for the moving image
    interpolation : Literal["nearest", "linear", "cubic", "label"] | None
        Interpolation of warped.nii.gz [default: linear]
    outside : Value | None
        Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a background below 0, such as CT, their smallest value]
    report : bool
        False: do not write report.html [default: True]
    outputs : Value | None
        Which files to write, separated by commas: warp, inverse_warp, affine, composite, inverse_composite, warped, jacobian, mesh, or `all`; result.json is always written, and report.html unless `report=False` says otherwise [default: warp,inverse_warp,affine,warped,mesh]
    bids : PathLike | None
        Put the result into this data set of BIDS derivatives as well, under the names of BIDS and with sidecars; the folder is made where it is not there
    bids_space : Value | None
        Label of the space of the fixed image, such as MNI152NLin2009cAsym [default: that of its name: of a template (tpl-LABEL), of a space (space-LABEL), or its suffix where both images are of one subject]
    bids_name : Value | None
        Entities and suffix of the moving image, such as sub-01_ses-two_T1w [default: those of the name of its file]
    bids_desc : Value | None
        Label of the resampled image [default: preproc]
    bids_skull_stripped : Literal["yes", "no"] | None
        Whether voxels outside the brain of the moving image are 0, which BIDS wants to know of anatomical images [default: what the sidecar of the moving image says]
    bids_reference : Value | None
        What sidecars have as SpatialReference [default: the path of the fixed image]
    bids_accept_bad : bool
        Put a result there whose verdict is bad, too; its sidecars say so [default: False]
    bids_overwrite : bool
        Replace files that the data set has under these names [default: False]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def anatomy(
    fixed: PathLike,
    moving: PathLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    spacing: Value | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    path_storage: Literal["full", "half", "checkpoints"] | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    histogram_match: bool = False,
    clip: bool = True,
    fixed_mask: PathLike | None = None,
    moving_mask: PathLike | None = None,
    fixed_labels: PathLike | None = None,
    moving_labels: PathLike | None = None,
    label_names: PathLike | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def anatomy(
    fixed: PathLike,
    moving: PathLike,
    *,
    output: PathLike | None = None,
    affine: Value | None = None,
    init: Value | None = None,
    spacing: Value | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    path_storage: Literal["full", "half", "checkpoints"] | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    histogram_match: bool = False,
    clip: bool = True,
    fixed_mask: PathLike | None = None,
    moving_mask: PathLike | None = None,
    fixed_labels: PathLike | None = None,
    moving_labels: PathLike | None = None,
    label_names: PathLike | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    report: bool = True,
    outputs: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Register two anatomies: tissue probabilities, images, surfaces, curves and points together.

    Parameters
    ----------
    fixed : PathLike
        The file of the fixed anatomy
    moving : PathLike
        The file of the moving anatomy, which is registered to it
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    affine : Value | None
        Affine transform to start from: `auto` runs an affine registration first, of the first image, else of all probabilities, else of the closest points of the shapes; `none` uses the coordinates as they are; FILE is an affine transform, fixed to moving [default: auto]
    init : Value | None
        Start of the initial affine registration: `landmarks` uses those of the anatomies, the others are as for `voxalign affine` [default: moments]
    spacing : Value | None
        Spacing of the grid around the shapes of anatomies without images, mm [default: 1/80 of the longest side of the fixed shapes]
    model : Literal["greedy", "symmetric", "lddmm"] | None
        Deformation model [default: symmetric; for populations, anatomies and transforms without a half-way greedy]
    step : Value | None
        Largest displacement of an iteration, voxels at the current scale; where both images move, of each of them [default: 0.5]
    step_rule : Literal["largest", "adaptive"] | None
        How the step is controlled; for greedy, symmetric [default: largest]
    total_sigma : Value | None
        Standard deviation of the Gaussian that smooths the total displacement after each iteration, voxels at the current scale, and where both images of a pair move 1.2 times that of each of them; 0 for none. It makes the deformation elastic instead of fluid; for greedy, symmetric [default: 0.7; for anatomies of shapes alone 0]
    time_steps : int | None
        Number of time steps of the velocity; for lddmm [default: 10]
    lddmm_sigma : Value | None
        The similarity has the weight 1 / sigma^2 relative to the length of the path; for lddmm [default: 0.1]
    path_storage : Literal["full", "half", "checkpoints"] | None
        How the path over time is stored; half precision changes the last digits of the result; for lddmm [default: full]
    patch_radius : Value | None
        Radius of the patches, voxels at the current scale; for mapped, mind [default: 1]
    patch_distance : Value | None
        Distance from a voxel to the patches around it that are compared, voxels at the current scale; for mapped, mind [default: 1]
    solver : Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None
        How forces are smoothed into velocities: by inverting the elastic operator `-alpha Laplacian - beta grad div + gamma`, or by a Gaussian [default: gaussian, and fft for lddmm]
    alpha : Value | None
        Weight of the Laplacian; for fft, sor, cg, hybrid [default: 0.01]
    beta : Value | None
        Weight of the gradient of the divergence; for fft, sor, cg, hybrid [default: 0]
    gamma : Value | None
        Weight of the velocity itself; must be above 0 with periodic boundaries or without a Laplacian; for fft, sor, cg, hybrid [default: 0.001]
    boundary : Literal["zero", "periodic"] | None
        Boundary condition of the operator; for fft, sor, cg, hybrid [default: fft: periodic; sor, cg, hybrid: zero]
    solver_iterations : int | None
        Maximum number of iterations per velocity; for sor, cg, hybrid [default: sor, cg: 200; hybrid: 2 sweeps, or 4 conjugate gradient iterations with beta]
    solver_tolerance : Value | None
        Relative residual at which iterations stop; for sor, cg [default: 0.001]
    sigma : Value | None
        Standard deviation of the Gaussian, voxels at the current scale; for gaussian [default: 1.732; for pairs of images that are compared by mapped, mind, mi or nmi 3]
    schedule : Value | None
        Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100 iterations at twice the voxel size [default: 4x100,2x100,1x50; for an atlas 4x50,2x50,1x25]
    convergence : Value | None
        A scale ends once the energy has decreased over a window of iterations by less than this fraction of its decrease at this scale so far; 0 for never [default: 0.01; for an atlas 0]
    convergence_window : int | None
        Number of iterations in that window [default: 10]
    histogram_match : bool
        Match the histogram of each moving image to that of its fixed one first [default: False]
    clip : bool
        False: compute on all of both images, not only around the part of the body that both show [default: True]
    fixed_mask : PathLike | None
        Mask of the fixed image, on its grid: only voxels above 0 count
    moving_mask : PathLike | None
        Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    fixed_labels : PathLike | None
        Label map of the fixed image, to report the overlap before and after; not used for the registration
    moving_labels : PathLike | None
        Label map of the moving image, to report the overlap before and after
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    interpolation : Literal["nearest", "linear", "cubic", "label"] | None
        Interpolation of warped.nii.gz [default: linear]
    outside : Value | None
        Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a background below 0, such as CT, their smallest value]
    report : bool
        False: do not write report.html [default: True]
    outputs : Value | None
        Which files to write, separated by commas: warp, inverse_warp, affine, composite, inverse_composite, warped (everything that is warped: images, probabilities, shapes), jacobian, or `all`; result.json is always written, and report.html unless `report=False` says otherwise [default: warp,inverse_warp,affine,warped]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def atlas(
    images: PathLike | Sequence[Any] | None = None,
    *,
    list: PathLike | None = None,
    output: PathLike | None = None,
    align: Literal["none", "rigid", "similarity", "affine"] | None = None,
    rounds: int | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    spacing: Value | None = None,
    reference: PathLike | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    similarity: Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    centre: bool = True,
    exclude: Value | None = None,
    subjects: bool = True,
    report: bool = True,
    resume: bool = False,
    checkpoint_every: Value | None = None,
    processes: int | None = None,
    device_memory: Value | None = None,
    host_memory: Value | None = None,
    scratch: PathLike | None = None,
    regress: Value | None = None,
    at: Value | None = None,
    bandwidth: Value | None = None,
    volumes: Value | None = None,
    label_names: PathLike | None = None,
    stability: Value | None = None,
    cohorts: int | None = None,
    seed: int | None = None,
    config: PathLike | None = None,
    dry_run: Literal[True],
    gpus: int | None = None,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def atlas(
    images: PathLike | Sequence[Any] | None = None,
    *,
    list: PathLike | None = None,
    output: PathLike | None = None,
    align: Literal["none", "rigid", "similarity", "affine"] | None = None,
    rounds: int | None = None,
    cost: Literal["cr", "mi", "nmi", "ncc", "ssd"] | None = None,
    spacing: Value | None = None,
    reference: PathLike | None = None,
    model: Literal["greedy", "symmetric", "lddmm"] | None = None,
    step: Value | None = None,
    step_rule: Literal["largest", "adaptive"] | None = None,
    total_sigma: Value | None = None,
    time_steps: int | None = None,
    lddmm_sigma: Value | None = None,
    similarity: Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    patch_radius: Value | None = None,
    patch_distance: Value | None = None,
    solver: Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None = None,
    alpha: Value | None = None,
    beta: Value | None = None,
    gamma: Value | None = None,
    boundary: Literal["zero", "periodic"] | None = None,
    solver_iterations: int | None = None,
    solver_tolerance: Value | None = None,
    sigma: Value | None = None,
    schedule: Value | None = None,
    convergence: Value | None = None,
    convergence_window: int | None = None,
    centre: bool = True,
    exclude: Value | None = None,
    subjects: bool = True,
    report: bool = True,
    resume: bool = False,
    checkpoint_every: Value | None = None,
    processes: int | None = None,
    device_memory: Value | None = None,
    host_memory: Value | None = None,
    scratch: PathLike | None = None,
    regress: Value | None = None,
    at: Value | None = None,
    bandwidth: Value | None = None,
    volumes: Value | None = None,
    label_names: PathLike | None = None,
    stability: Value | None = None,
    cohorts: int | None = None,
    seed: int | None = None,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    gpus: int | None = None,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Build an unbiased atlas of many images, with the deformation of each to it.

    Parameters
    ----------
    images : PathLike | Sequence[Any] | None
        The images, one per subject; or files of anatomies, which end in .toml
    list : PathLike | None
        CSV file with a line for each subject
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    align : Literal["none", "rigid", "similarity", "affine"] | None
        How subjects are first aligned to a common space [default: affine]
    rounds : int | None
        Number of times the subjects are registered to their mean; for rigid, similarity, affine [default: 2]
    cost : Literal["cr", "mi", "nmi", "ncc", "ssd"] | None
        Similarity measure of these registrations [default: ncc]
    spacing : Value | None
        Spacing of the atlas, mm [default: the median of the subjects]
    reference : PathLike | None
        Image that defines the grid of the atlas [default: along the world axes around all subjects; with `align` none the grid of the images, if they share one]
    model : Literal["greedy", "symmetric", "lddmm"] | None
        Deformation model [default: symmetric; for populations, anatomies and transforms without a half-way greedy]
    step : Value | None
        Largest displacement of an iteration, voxels at the current scale; where both images move, of each of them [default: 0.5]
    step_rule : Literal["largest", "adaptive"] | None
        How the step is controlled; for greedy, symmetric [default: largest]
    total_sigma : Value | None
        Standard deviation of the Gaussian that smooths the total displacement after each iteration, voxels at the current scale, and where both images of a pair move 1.2 times that of each of them; 0 for none. It makes the deformation elastic instead of fluid; for greedy, symmetric [default: 0.7; for anatomies of shapes alone 0]
    time_steps : int | None
        Number of time steps of the velocity; for lddmm [default: 10]
    lddmm_sigma : Value | None
        The similarity has the weight 1 / sigma^2 relative to the length of the path; for lddmm [default: 0.1]
    similarity : Literal["auto", "mi", "nmi", "lncc", "mapped", "mind", "ssd"] | None
        Similarity measure [default: auto]
    bins : int | None
        Histogram bins; for mi, nmi [default: mi: 64; nmi: 32]
    radius : Value | None
        Radius of the windows, voxels at the current scale; for lncc, mapped [default: 2]
    patch_radius : Value | None
        Radius of the patches, voxels at the current scale; for mapped, mind [default: 1]
    patch_distance : Value | None
        Distance from a voxel to the patches around it that are compared, voxels at the current scale; for mapped, mind [default: 1]
    solver : Literal["fft", "sor", "cg", "hybrid", "gaussian"] | None
        How forces are smoothed into velocities: by inverting the elastic operator `-alpha Laplacian - beta grad div + gamma`, or by a Gaussian [default: gaussian, and fft for lddmm]
    alpha : Value | None
        Weight of the Laplacian; for fft, sor, cg, hybrid [default: 0.01]
    beta : Value | None
        Weight of the gradient of the divergence; for fft, sor, cg, hybrid [default: 0]
    gamma : Value | None
        Weight of the velocity itself; must be above 0 with periodic boundaries or without a Laplacian; for fft, sor, cg, hybrid [default: 0.001]
    boundary : Literal["zero", "periodic"] | None
        Boundary condition of the operator; for fft, sor, cg, hybrid [default: fft: periodic; sor, cg, hybrid: zero]
    solver_iterations : int | None
        Maximum number of iterations per velocity; for sor, cg, hybrid [default: sor, cg: 200; hybrid: 2 sweeps, or 4 conjugate gradient iterations with beta]
    solver_tolerance : Value | None
        Relative residual at which iterations stop; for sor, cg [default: 0.001]
    sigma : Value | None
        Standard deviation of the Gaussian, voxels at the current scale; for gaussian [default: 1.732; for pairs of images that are compared by mapped, mind, mi or nmi 3]
    schedule : Value | None
        Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100 iterations at twice the voxel size [default: 4x100,2x100,1x50; for an atlas 4x50,2x50,1x25]
    convergence : Value | None
        A scale ends once the energy has decreased over a window of iterations by less than this fraction of its decrease at this scale so far; 0 for never [default: 0.01; for an atlas 0]
    convergence_window : int | None
        Number of iterations in that window [default: 10]
    centre : bool
        False: keep the mean displacement in the result: the shape of the template then depends on the course of the registrations [default: True]
    exclude : Value | None
        Leave out subjects with a file that cannot be read, or subjects unlike the mean of all after affine alignment (of four or more); the record says which, and why
    subjects : bool
        False: do not write the results of each subject [default: True]
    report : bool
        False: do not write report.html [default: True]
    resume : bool
        Continue from the last checkpoint of a run that was stopped or killed; the result is identical, to the bit, to that of an uninterrupted run. The options must be the same, except for `gpus`, `threads`, the number of processes and memory; `device` may name another GPU, but not the CPU instead [default: False]
    checkpoint_every : Value | None
        Minutes between checkpoints, 0 for one after each iteration, or `never`. They are in DIR/checkpoint, and are removed when the atlas is complete [default: 10]
    processes : int | None
        Under mpirun or srun, how many of the processes hold subjects; the others wait [default: the number that a dry run predicts to be fastest]
    device_memory : Value | None
        Memory that may be used on each device, such as 20GiB; subjects that do not fit are streamed at every iteration [default: nine tenths of the free memory]
    host_memory : Value | None
        Host memory for subjects that are streamed; those that do not fit are kept on disk [default: six tenths of the free memory]
    scratch : PathLike | None
        Folder for subjects that are streamed from disk, best on a local disk of each machine; a killed run leaves a folder .voxalign-... there, which the next run removes [default: within DIR]
    regress : Value | None
        A numeric column of the list, such as age: build an atlas at each value of `at`, in which subjects weigh more the closer their value is
    at : Value | None
        Values of the covariate; each atlas is written to at_VALUE
    bandwidth : Value | None
        Standard deviation of the Gaussian weights, in the units of the column
    volumes : Value | None
        Labels whose volumes are reported against the column, if the list has label maps [default: the twelve largest that all subjects have]
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    stability : Value | None
        Instead of one atlas of all subjects, build atlases of random subsets of each of these sizes, and report how sharp they are: a range such as 2..14 (both ends included), or 2,4,8
    cohorts : int | None
        Number of atlases to build for each number of subjects [default: 100]
    seed : int | None
        Random seed; the same seed chooses the same subjects [default: 0]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    gpus : int | None
        GPUs per process [default: all those of its machine, shared among the processes there]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def drr(
    ct: PathLike,
    *,
    output: PathLike | None = None,
    units: Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None = None,
    energy: Value | None = None,
    water: Value | None = None,
    air: Value | None = None,
    labels: PathLike | None = None,
    only: Value | None = None,
    volume: int | None = None,
    series: Value | None = None,
    view: Value | None = None,
    geometry: PathLike | None = None,
    primary: Value | None = None,
    secondary: Value | None = None,
    gantry: Value | None = None,
    source_to_isocentre: Value | None = None,
    source_to_detector: Value | None = None,
    isocentre: Value | None = None,
    size: Value | None = None,
    pixel: Value | None = None,
    region: Value | None = None,
    rotation: Value | None = None,
    translation: Value | None = None,
    centre: Value | None = None,
    pose: PathLike | None = None,
    poses: PathLike | None = None,
    rays: Literal["trilinear", "texture", "siddon", "joseph"] | None = None,
    step: Value | None = None,
    projection: Literal["integral", "maximum"] | None = None,
    values: Literal["attenuation", "intensity"] | None = None,
    photons: Value | None = None,
    seed: Value | None = None,
    format: Value | None = None,
    report: bool = True,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def drr(
    ct: PathLike,
    *,
    output: PathLike | None = None,
    units: Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None = None,
    energy: Value | None = None,
    water: Value | None = None,
    air: Value | None = None,
    labels: PathLike | None = None,
    only: Value | None = None,
    volume: int | None = None,
    series: Value | None = None,
    view: Value | None = None,
    geometry: PathLike | None = None,
    primary: Value | None = None,
    secondary: Value | None = None,
    gantry: Value | None = None,
    source_to_isocentre: Value | None = None,
    source_to_detector: Value | None = None,
    isocentre: Value | None = None,
    size: Value | None = None,
    pixel: Value | None = None,
    region: Value | None = None,
    rotation: Value | None = None,
    translation: Value | None = None,
    centre: Value | None = None,
    pose: PathLike | None = None,
    poses: PathLike | None = None,
    rays: Literal["trilinear", "texture", "siddon", "joseph"] | None = None,
    step: Value | None = None,
    projection: Literal["integral", "maximum"] | None = None,
    values: Literal["attenuation", "intensity"] | None = None,
    photons: Value | None = None,
    seed: Value | None = None,
    format: Value | None = None,
    report: bool = True,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Simulate X-ray images of a CT (digitally reconstructed radiographs).

    Parameters
    ----------
    ct : PathLike
        The CT: NIfTI, NRRD, MetaImage, or a folder of DICOM
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    units : Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None
        Units of the CT values [default: hu, if plausible (some values are air)]
    energy : Value | None
        Effective energy of the photons, keV: a third to a half of the tube voltage [default: 70]
    water : Value | None
        Attenuation of water, 1/mm, instead of an energy: all tissue follows as `water (1 + HU / 1000)`
    air : Value | None
        Values at or below this are air and absorb nothing, HU [default: -950]
    labels : PathLike | None
        Label map on the grid of the CT, for `only`
    only : Value | None
        Labels to show, such as 3,4; everything else is air
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    view : Value | None
        Standard views, separated by commas: ap, pa, lateral [default: ap]
    geometry : PathLike | None
        Views from a file: tables `[[view]]` in TOML, MayaCam 2 calibrations, cameras of OpenCV (YAML, XML), projection matrices of plastimatch
    primary : Value | None
        Angle of a C-arm about the long axis of the patient, degrees: to the left (LAO), below 0 to the right (RAO)
    secondary : Value | None
        Angle of a C-arm towards the head (cranial), degrees; below 0 towards the feet (caudal) [default: 0]
    gantry : Value | None
        Angle of the gantry of a treatment machine (IEC 61217), degrees
    source_to_isocentre : Value | None
        Distance from the source to the isocentre, mm [default: 1000]
    source_to_detector : Value | None
        Distance from the source to the detector, mm [default: 1.5 times the distance to the isocentre]
    isocentre : Value | None
        Isocentre in the world coordinates of the CT, RAS mm [default: the centre of the CT]
    size : Value | None
        Columns and rows of the detector [default: 512,512]
    pixel : Value | None
        Pixel size, mm [default: so that the detector shows the whole CT in its original pose]
    region : Value | None
        Region of the detector to simulate: first column and row, then the numbers of columns and rows; replaces the 'region' of a table of views
    rotation : Value | None
        Rotation of the CT about x, y and z, in that order, around `centre`, degrees [default: 0,0,0]
    translation : Value | None
        Translation of the CT, applied after the rotation, RAS mm [default: 0,0,0]
    centre : Value | None
        Centre of rotation, in the world coordinates of the CT, RAS mm [default: the centre of its grid]
    pose : PathLike | None
        A rigid transform file: from the room (fixed) to the world of the CT (moving), as `voxalign pose` writes it
    poses : PathLike | None
        A sequence: a table with one row per pose and the columns rotation_x, rotation_y, rotation_z (degrees), translation_x, translation_y, translation_z (mm), and possibly centre_x, centre_y, centre_z instead of `centre`; such as a track.csv that `voxalign pose` wrote
    rays : Literal["trilinear", "texture", "siddon", "joseph"] | None
        Ray casting method [default: trilinear]
    step : Value | None
        Sample spacing along rays, mm; for trilinear, texture [default: half the smallest voxel spacing of the CT]
    projection : Literal["integral", "maximum"] | None
        Projection along each ray [default: integral]
    values : Literal["attenuation", "intensity"] | None
        Quantity stored in the pixels; for integral [default: attenuation]
    photons : Value | None
        Poisson noise for this many photons per unobstructed pixel; for integral [default: none]
    seed : Value | None
        Random seed of the noise: the same seed gives the same noise; for integral [default: 0]
    format : Value | None
        Formats of the images, separated by commas: png, tiff, nifti, dicom [default: png,nifti]
    report : bool
        False: do not write report.html [default: True]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def pose(
    ct: PathLike,
    xrays: PathLike | Sequence[Any] | None = None,
    *,
    output: PathLike | None = None,
    geometry: PathLike | Sequence[Any] | None = None,
    frame: Value | None = None,
    pixels: Literal["attenuation", "intensity"] | None = None,
    region: Value | None = None,
    init: Value | None = None,
    init_rotation: Value | None = None,
    init_translation: Value | None = None,
    search: Literal["local", "full"] | None = None,
    centre: Value | None = None,
    targets: Value | None = None,
    similarity: Literal["ncc", "gradient-ncc", "mi", "nmi", "ssd", "l1", "pattern-intensity", "kullback-leibler"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    sigma: Value | None = None,
    floor: Value | None = None,
    optimiser: Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None = None,
    wolfe: Value | None = None,
    line_accuracy: Value | None = None,
    simplex: Value | None = None,
    history: Value | None = None,
    damping: Value | None = None,
    population: Value | None = None,
    temperature: Value | None = None,
    cooling: Value | None = None,
    particles: Value | None = None,
    sample_size: Value | None = None,
    sampling: Value | None = None,
    redraw: bool = False,
    range: Value | None = None,
    starts: Value | None = None,
    levels: Value | None = None,
    refine: Literal["distance", "principal-point"] | None = None,
    metal: Literal["mask", "keep"] | None = None,
    response: Literal["straighten", "keep"] | None = None,
    restarts: Value | None = None,
    seed: Value | None = None,
    units: Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None = None,
    energy: Value | None = None,
    water: Value | None = None,
    air: Value | None = None,
    labels: PathLike | None = None,
    only: Value | None = None,
    volume: int | None = None,
    series: Value | None = None,
    stream: Value | None = None,
    frame_type: Literal["u8", "u16", "f32"] | None = None,
    frame_range: Value | None = None,
    report: bool = True,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def pose(
    ct: PathLike,
    xrays: PathLike | Sequence[Any] | None = None,
    *,
    output: PathLike | None = None,
    geometry: PathLike | Sequence[Any] | None = None,
    frame: Value | None = None,
    pixels: Literal["attenuation", "intensity"] | None = None,
    region: Value | None = None,
    init: Value | None = None,
    init_rotation: Value | None = None,
    init_translation: Value | None = None,
    search: Literal["local", "full"] | None = None,
    centre: Value | None = None,
    targets: Value | None = None,
    similarity: Literal["ncc", "gradient-ncc", "mi", "nmi", "ssd", "l1", "pattern-intensity", "kullback-leibler"] | None = None,
    bins: int | None = None,
    radius: Value | None = None,
    sigma: Value | None = None,
    floor: Value | None = None,
    optimiser: Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None = None,
    wolfe: Value | None = None,
    line_accuracy: Value | None = None,
    simplex: Value | None = None,
    history: Value | None = None,
    damping: Value | None = None,
    population: Value | None = None,
    temperature: Value | None = None,
    cooling: Value | None = None,
    particles: Value | None = None,
    sample_size: Value | None = None,
    sampling: Value | None = None,
    redraw: bool = False,
    range: Value | None = None,
    starts: Value | None = None,
    levels: Value | None = None,
    refine: Literal["distance", "principal-point"] | None = None,
    metal: Literal["mask", "keep"] | None = None,
    response: Literal["straighten", "keep"] | None = None,
    restarts: Value | None = None,
    seed: Value | None = None,
    units: Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None = None,
    energy: Value | None = None,
    water: Value | None = None,
    air: Value | None = None,
    labels: PathLike | None = None,
    only: Value | None = None,
    volume: int | None = None,
    series: Value | None = None,
    stream: Value | None = None,
    frame_type: Literal["u8", "u16", "f32"] | None = None,
    frame_range: Value | None = None,
    report: bool = True,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Find the rigid pose of a CT from X-ray images of it (2D-3D registration).

    Parameters
    ----------
    ct : PathLike
        The CT: NIfTI, NRRD, MetaImage, or a folder of DICOM
    xrays : PathLike | Sequence[Any] | None
        X-ray images: PNG, TIFF, DICOM, NIfTI; omitted if the views of `geometry` name them; or a folder written by `voxalign drr`
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    geometry : PathLike | Sequence[Any] | None
        Geometry of the views, in the order of the images: TOML tables, MayaCam 2, cameras of OpenCV (YAML, XML) or plastimatch's projection matrices; may be repeated [default: the headers of DICOM]
    frame : Value | None
        Which frame of X-ray files with several, counted from 0; one for all files, or one for each
    pixels : Literal["attenuation", "intensity"] | None
        Quantity stored in the pixels of the X-ray images [default: as in the DICOM headers, else attenuation]
    region : Value | None
        Region of each X-ray image to compare: first column and row, then the numbers of columns and rows; replaces the 'region' of a table of views
    init : Value | None
        Where the search starts: a rigid transform file from the room to the world of the CT, as `voxalign pose` writes it; or points:CT.csv,XRAY.csv, points of the CT (label,x,y,z) and where views show them (label,view,column,row): 4 in one view, or 3 in two
    init_rotation : Value | None
        Start of the search: rotation of the CT in the room about x, y and z, in that order, around `centre`, degrees [default: 0,0,0]
    init_translation : Value | None
        Start of the search: translation of the CT in the room, applied after the rotation, RAS mm [default: 0,0,0]
    search : Literal["local", "full"] | None
        How far the search looks: `local` within `range` around the start, `full` at all rotations, with the CT in the middle of what the views show [default: local, and full where the verdict would be bad]
    centre : Value | None
        Centre of rotation, in the world coordinates of the CT, RAS mm [default: the centre of its grid]
    targets : Value | None
        Points of the CT (label,x,y,z, or any other list of points) for which the record says how far they are expected to be from where the pose has them
    similarity : Literal["ncc", "gradient-ncc", "mi", "nmi", "ssd", "l1", "pattern-intensity", "kullback-leibler"] | None
        Similarity measure [default: gradient-ncc]
    bins : int | None
        Histogram bins; for mi, nmi [default: 32]
    radius : Value | None
        Radius of the neighbourhood that each pixel is compared with, pixels; for pattern-intensity [default: 3]
    sigma : Value | None
        Difference between neighbours that counts as structure, in standard deviations of the images; for pattern-intensity [default: 0.2]
    floor : Value | None
        Offset added to each pixel, as a fraction of the mean of its image; for kullback-leibler [default: 0.001]
    optimiser : Literal["bfgs", "powell", "nelder-mead", "gradient", "levenberg-marquardt", "cma-es", "annealing", "monte-carlo"] | None
        How the minimum of the cost is found [default: bfgs]
    wolfe : Value | None
        Constant of the Wolfe curvature condition: fraction of the initial slope that may remain at the end of a line search; for bfgs [default: 0.9]
    line_accuracy : Value | None
        Relative tolerance of a line search; for powell [default: 0.1]
    simplex : Value | None
        Edge length of the initial simplex, in multiples of the initial step; for nelder-mead [default: 1]
    history : Value | None
        Number of previous costs whose maximum bounds the next one (non-monotone line search); 1 for monotone descent; for gradient [default: 10]
    damping : Value | None
        Initial damping, as a fraction of the diagonal of the approximate Hessian; for levenberg-marquardt [default: 0.001]
    population : Value | None
        Population size: points per generation; for cma-es [default: 4 + 3 ln n for n parameters: 9 for 6, 11 for 12]
    temperature : Value | None
        Initial temperature, in units of the mean cost difference between the start and points near it; for annealing [default: 2]
    cooling : Value | None
        Final temperature, as a fraction of the initial one; for annealing [default: 0.01]
    particles : Value | None
        Number of particles; for monte-carlo [default: 8 to 22: 1/32 of the maximum number of evaluations, at least 8]
    sample_size : Value | None
        Effective sample size to which each temperature step may reduce the particles, as a fraction of their number; for monte-carlo [default: 0.5]
    sampling : Value | None
        Fraction of the pixels to compare, drawn at random, such as 0.05 [default: up to 16384 pixels of each view]
    redraw : bool
        Draw new pixels for each evaluation of the cost [default: False]
    range : Value | None
        Search range around the start, along and about each axis, mm and degrees; also the range around the result that is searched for competing poses [default: 20,15]
    starts : Value | None
        Number of starting poses within the search range; 1 for a local search from the start [default: 256]
    levels : Value | None
        Pixel size of each level, at the CT, coarse to fine, mm [default: down to the voxel size of the CT, halving at each level]
    refine : Literal["distance", "principal-point"] | None
        Geometry of each view to refine together with the pose; needs at least two views [default: nothing]
    metal : Literal["mask", "keep"] | None
        Treatment of pixels that show what the CT lacks: metal, markers, text [default: mask]
    response : Literal["straighten", "keep"] | None
        Treatment of values that are not attenuations but a monotonic function of them [default: straighten]
    restarts : Value | None
        Number of repeated searches from nearby poses, for the uncertainty of the result [default: 4]
    seed : Value | None
        Random seed [default: 0]
    units : Literal["hu", "hu-plus-1024", "attenuation", "relative"] | None
        Units of the CT values [default: hu, if plausible (some values are air)]
    energy : Value | None
        Effective energy of the photons, keV: a third to a half of the tube voltage [default: 70]
    water : Value | None
        Attenuation of water, 1/mm, instead of an energy: all tissue follows as `water (1 + HU / 1000)`
    air : Value | None
        Values at or below this are air and absorb nothing, HU [default: -950]
    labels : PathLike | None
        Label map on the grid of the CT, for `only`
    only : Value | None
        Labels to show, such as 3,4; everything else is air
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    stream : Value | None
        Track the CT over a sequence instead: for each view a folder of images in the order of the numbers in their names, or a file with several frames; one folder of images that `voxalign drr` wrote; or `-` for raw frames on standard input, one per view in turn
    frame_type : Literal["u8", "u16", "f32"] | None
        Data type of raw frames [default: u16]
    frame_range : Value | None
        Largest motion of the CT between two frames, along and about each axis, mm and degrees; the track is lost beyond it [default: 10,10]
    report : bool
        False: do not write report.html [default: True]
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def segment(
    image: PathLike,
    *,
    output: PathLike | None = None,
    preset: Literal["none", "white-matter", "white-matter-head", "bone"] | None = None,
    bone_threshold: Value | None = None,
    force: Literal["chan-vese", "geodesic-regions", "mean-curvature", "edge", "speed"] | None = None,
    curvature: Value | None = None,
    inside: Value | None = None,
    outside: Value | None = None,
    object: Literal["brighter", "darker", "as-started"] | None = None,
    classes: int | None = None,
    object_classes: Value | None = None,
    edge_sigma: Value | None = None,
    contrast: Value | None = None,
    pressure: Value | None = None,
    speed: PathLike | None = None,
    init: Literal["dense", "circle", "box", "mask"] | None = None,
    init_shape: Literal["checkerboard", "ball", "box"] | None = None,
    init_size: Value | None = None,
    init_spacing: Value | None = None,
    init_centre: Value | None = None,
    prior_mask: PathLike | None = None,
    initial_mask: PathLike | None = None,
    connectivity: Literal["4", "8", "6", "18", "26"] | None = None,
    regions: int | None = None,
    iterations: Value | None = None,
    smooth: int | None = None,
    smooth_every: int | None = None,
    sigma: Value | None = None,
    smallest_island: Value | None = None,
    largest_component: bool = False,
    fill_holes: bool = False,
    label_names: PathLike | None = None,
    surface: bool = True,
    report: bool = True,
    volume: int | None = None,
    series: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def segment(
    image: PathLike,
    *,
    output: PathLike | None = None,
    preset: Literal["none", "white-matter", "white-matter-head", "bone"] | None = None,
    bone_threshold: Value | None = None,
    force: Literal["chan-vese", "geodesic-regions", "mean-curvature", "edge", "speed"] | None = None,
    curvature: Value | None = None,
    inside: Value | None = None,
    outside: Value | None = None,
    object: Literal["brighter", "darker", "as-started"] | None = None,
    classes: int | None = None,
    object_classes: Value | None = None,
    edge_sigma: Value | None = None,
    contrast: Value | None = None,
    pressure: Value | None = None,
    speed: PathLike | None = None,
    init: Literal["dense", "circle", "box", "mask"] | None = None,
    init_shape: Literal["checkerboard", "ball", "box"] | None = None,
    init_size: Value | None = None,
    init_spacing: Value | None = None,
    init_centre: Value | None = None,
    prior_mask: PathLike | None = None,
    initial_mask: PathLike | None = None,
    connectivity: Literal["4", "8", "6", "18", "26"] | None = None,
    regions: int | None = None,
    iterations: Value | None = None,
    smooth: int | None = None,
    smooth_every: int | None = None,
    sigma: Value | None = None,
    smallest_island: Value | None = None,
    largest_component: bool = False,
    fill_holes: bool = False,
    label_names: PathLike | None = None,
    surface: bool = True,
    report: bool = True,
    volume: int | None = None,
    series: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Divide an image into regions by fronts that move (level sets).

    Parameters
    ----------
    image : PathLike
        The image, of two or three dimensions
    output : PathLike | None
        Folder for the results; created if it does not exist; none for one that goes with the result
    preset : Literal["none", "white-matter", "white-matter-head", "bone"] | None
        A force, a start and checks that belong together [default: none]
    bone_threshold : Value | None
        Intensity between soft tissue and bone, HU; about 200 where spongy bone counts too; for bone [default: 300]
    force : Literal["chan-vese", "geodesic-regions", "mean-curvature", "edge", "speed"] | None
        What moves the front [default: chan-vese]
    curvature : Value | None
        Weight of the curvature, by which fronts become smooth: the variance of the image times mm with chan-vese, nats times mm with geodesic-regions; 0 for none; for chan-vese, geodesic-regions [default: the smallest spacing of the image, mm]
    inside : Value | None
        How much differences from the mean inside weigh (lambda 1); for chan-vese [default: 1]
    outside : Value | None
        How much differences from the mean outside weigh (lambda 2); for chan-vese [default: 1]
    object : Literal["brighter", "darker", "as-started"] | None
        Which of the two regions is the object; for chan-vese [default: brighter]
    classes : int | None
        Gaussians of the mixture that is fitted to the intensities of the whole image; for geodesic-regions [default: as many as `regions`]
    object_classes : Value | None
        Which of them are the object, numbered by rising mean from 1; for geodesic-regions [default: the brightest]
    edge_sigma : Value | None
        Standard deviation of the Gaussian that the image is smoothed by before its edges are found, mm; for geodesic-regions, edge [default: the smallest spacing of the image]
    contrast : Value | None
        Gradient of the smoothed image that halves the speed of a front, intensity by mm; for geodesic-regions, edge [default: the median of its gradients that are not 0]
    pressure : Value | None
        Pressure on the front, by mm: above 0 it grows, below 0 it shrinks, until edges hold it; for edge [default: 0]
    speed : PathLike | None
        Image of the speed with which the front moves outwards in each voxel (inwards below 0), on the grid of the image; for `force` speed
    init : Literal["dense", "circle", "box", "mask"] | None
        Where the front begins [default: dense]
    init_shape : Literal["checkerboard", "ball", "box"] | None
        Shapes of a dense start; for dense [default: checkerboard]
    init_size : Value | None
        Diameter or side of the shapes: voxels with dense, mm with circle and box; for dense, circle, box [default: dense: 8 in 2D, 4 in 3D; circle, box: half the shortest side of the image]
    init_spacing : Value | None
        Distance between the centres of balls or boxes, voxels; for dense [default: twice `init_size`]
    init_centre : Value | None
        Centre of the shape, world mm (RAS+); for circle, box [default: the centre of the image]
    prior_mask : PathLike | None
        Mask that a dense start is kept to, or with `preset` white-matter that of the brain, on the grid of the image; voxels above 0 count
    initial_mask : PathLike | None
        Mask to start from, on the grid of the image, for `init` mask; voxels above 0 are inside
    connectivity : Literal["4", "8", "6", "18", "26"] | None
        Which voxels are neighbours [default: 4 in 2D, 6 in 3D]
    regions : int | None
        Regions, the background among them, ordered by rising mean; more than 2 with chan-vese and geodesic-regions alone [default: 2]
    iterations : Value | None
        Most iterations; auto: as many as the largest connected part of either side has voxels at the start, which are always enough for a force that does not change; of presets 100 [default: auto]
    smooth : int | None
        Iterations by curvature alone after every few by the force [default: 0]
    smooth_every : int | None
        After how many iterations by the force these come [default: 5]
    sigma : Value | None
        Standard deviation of the Gaussian that curvatures and normals of the front are from, mm [default: 3 times the smallest spacing of the image, of presets once]
    smallest_island : Value | None
        Remove connected parts that are smaller, mm³; of 2D images mm² [default: 0]
    largest_component : bool
        Keep only the largest connected component of each region [default: False]
    fill_holes : bool
        Fill enclosed cavities of each region [default: False]
    label_names : PathLike | None
        Names of the labels, for the record and the report: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    surface : bool
        False: do not write surfaces [default: True]
    report : bool
        False: do not write report.html [default: True]
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def stack(
    operation: Literal["mean", "max", "min", "variance", "product", "energy", "normalise", "smooth", "window-mean"],
    images: PathLike | Sequence[Any] | None = None,
    *,
    list: PathLike | None = None,
    output: PathLike,
    weights: Value | None = None,
    sigma: Value | None = None,
    window: int | None = None,
    range: Value | None = None,
    data_type: Value | None = None,
    reference: PathLike | None = None,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def stack(
    operation: Literal["mean", "max", "min", "variance", "product", "energy", "normalise", "smooth", "window-mean"],
    images: PathLike | Sequence[Any] | None = None,
    *,
    list: PathLike | None = None,
    output: PathLike,
    weights: Value | None = None,
    sigma: Value | None = None,
    window: int | None = None,
    range: Value | None = None,
    data_type: Value | None = None,
    reference: PathLike | None = None,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Compute the mean, extremes, variance or product of many images, or normalise or smooth each.

    Parameters
    ----------
    operation : Literal["mean", "max", "min", "variance", "product", "energy", "normalise", "smooth", "window-mean"]
        What to compute from the images
    images : PathLike | Sequence[Any] | None
        The images, all on one grid
    list : PathLike | None
        The images as a table with the column `path` and, for mean, optionally `weight`
    output : PathLike
        The result: an image, a table for energy, a folder for normalise, smooth and window-mean
    weights : Value | None
        Weights of the images, for mean; they are divided by their sum
    sigma : Value | None
        Standard deviation of the Gaussian, mm, for smooth
    window : int | None
        Number of images in a window, odd, for window-mean [default: 3]
    range : Value | None
        Intensity range that each image is scaled to, for normalise [default: zero mean and unit variance]
    data_type : Value | None
        Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for energy [default: f32; for max and min that of the images, if all have the same one of at most 16 bits and none is scaled]
    reference : PathLike | None
        Image that is subtracted first, for energy
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

@overload
def surface(
    image: PathLike,
    *,
    output: PathLike,
    label: Value | None = None,
    level: Value | None = None,
    below: bool = False,
    largest_component: bool = False,
    fill_holes: bool = False,
    sigma: Value | None = None,
    smoothing: int | None = None,
    triangles: int | None = None,
    keep: Value | None = None,
    each: bool = False,
    format: Value | None = None,
    label_names: PathLike | None = None,
    space: Literal["ras", "lps"] | None = None,
    report: bool = False,
    volume: int | None = None,
    series: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[True],
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
@overload
def surface(
    image: PathLike,
    *,
    output: PathLike,
    label: Value | None = None,
    level: Value | None = None,
    below: bool = False,
    largest_component: bool = False,
    fill_holes: bool = False,
    sigma: Value | None = None,
    smoothing: int | None = None,
    triangles: int | None = None,
    keep: Value | None = None,
    each: bool = False,
    format: Value | None = None,
    label_names: PathLike | None = None,
    space: Literal["ras", "lps"] | None = None,
    report: bool = False,
    volume: int | None = None,
    series: Value | None = None,
    config: PathLike | None = None,
    dry_run: Literal[False] = False,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Result:
    r"""Extract the surface of labels, or an isosurface of an image.

    Parameters
    ----------
    image : PathLike
        A label map, or an image
    output : PathLike
        The mesh to write; with `each` the folder of the meshes
    label : Value | None
        Labels of a label map, separated by commas: the surface is that of all of them together, or with `each` a surface of each
    level : Value | None
        Isovalue of an image: the surface encloses values at or above it
    below : bool
        Enclose values at or below `level` instead [default: False]
    largest_component : bool
        Keep only the largest connected component (face connectivity) [default: False]
    fill_holes : bool
        Fill enclosed cavities [default: False]
    sigma : Value | None
        Standard deviation of a Gaussian that smooths the voxels first, mm; removes staircase artefacts, but also thin parts [default: 0]
    smoothing : int | None
        Iterations of non-shrinking (Taubin) smoothing [default: 15 for labels without `sigma`, else 0]
    triangles : int | None
        Most triangles [default: all of them]
    keep : Value | None
        Fraction of the triangles to keep, such as 0.25
    each : bool
        One surface for each label of `label`, or without it for each non-zero label; OUTPUT is the folder for them [default: False]
    format : Value | None
        Format of the meshes of `each`, as a file extension: gii, surf.gii, vtk, vtp, stl or ply [default: gii, of outlines vtk]
    label_names : PathLike | None
        Names of the labels, which become part of the names of the meshes of `each`: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    space : Literal["ras", "lps"] | None
        World coordinates of a VTK, STL or PLY file, stated in the file; other formats prescribe theirs [default: ras]
    report : bool
        Write a report beside the surface: MESH.html, or with `each` report.html [default: False]
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    config : PathLike | None
        TOML file with options; those that are given beside it take precedence
    dry_run : bool
        Report what would be read and written and how much memory is needed, and stop there [default: False]
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Result
        The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def apply(
    input: ImageLike,
    *,
    reference: ImageLike | None = None,
    transform: TransformLike | Sequence[TransformLike] | None = None,
    inverse_warp: PathLike | None = None,
    output: PathLike | None = None,
    interpolation: Literal["nearest", "linear", "cubic", "label"] | None = None,
    outside: Value | None = None,
    data_type: Value | None = None,
    points_from: Literal["fixed", "moving"] | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    points_of: PathLike | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    device: Value | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Image | dict[str, Any]:
    r"""Apply transforms to an image, a label map or points.

    Parameters
    ----------
    input : ImageLike
        An image, also one larger than memory (.ome.zarr, .tif, .svs, .btf, .png, .jpg), a label map (with `interpolation` label or nearest), a list of points (.csv, .fcsv, .mrk.json, .tag, elastix' .txt) or a mesh (.gii, .vtk, .vtp, .stl, .ply, .tck, .trk, lh.pial)
    reference : ImageLike | None
        The image that defines the grid of the result, by its finest level where it has several; not for points and meshes
    transform : TransformLike | Sequence[TransformLike] | None
        A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes through the first `transform`, then the next. Without any, an image is resampled as the headers say
    inverse_warp : PathLike | None
        The inverse of the displacement field in the chain, such as ANTs' 1InverseWarp.nii.gz: used where that inverse is needed, instead of computing it
    output : PathLike | None
        The result; an image named .zarr, .tif, .tiff or .btf is written block by block, with coarser levels, and may be larger than memory
    interpolation : Literal["nearest", "linear", "cubic", "label"] | None
        How values between voxels are interpolated [default: linear]
    outside : Value | None
        Value outside the moving image, or `nan` [default: 0; for images with a background below 0, such as CT, their smallest value]
    data_type : Value | None
        Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for label maps [default: f32; that of the input with `interpolation` nearest, and where the result is .zarr or TIFF, which hold 8 or 16 bits]
    points_from : Literal["fixed", "moving"] | None
        Which of the two images the points or the mesh belong to [default: moving]
    point_convention : Literal["ras", "lps"] | None
        World coordinates of points and meshes whose files do not state them [default: ras; of ANTs' CSV lps]
    points_of : PathLike | None
        The image that the points or the mesh belong to: elastix' lists of voxel indices need it, and other points are checked to lie on it
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    device : Value | None
        Device to compute on [default: VOXALIGN_DEVICE, else auto]
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Image | dict[str, Any]
        The image on the grid of the reference; where something is written to `output`, what that is: a result that shows nothing of the input is not `met`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    DeviceError
        A device that is not there, or that failed.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def invert(
    transform: TransformLike | Sequence[TransformLike],
    *,
    output: PathLike | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Transform | dict[str, Any]:
    r"""Write the inverse of a transform.

    Parameters
    ----------
    transform : TransformLike | Sequence[TransformLike]
        The transform
    output : PathLike | None
        File for the inverse; its extension sets the format: .tfm or .txt (ITK text), .mat (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement field)
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Transform | dict[str, Any]
        The inverse; where it is written to `output`, how exact it is.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def compose(
    transform: TransformLike | Sequence[TransformLike],
    *,
    output: PathLike | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> Transform | dict[str, Any]:
    r"""Combine several transforms into one.

    Parameters
    ----------
    transform : TransformLike | Sequence[TransformLike]
        A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes through the first `transform`, then the next
    output : PathLike | None
        File for the result; its extension sets the format: .tfm or .txt (ITK text), .mat (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement field)
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    Transform | dict[str, Any]
        The composition; where it is written to `output`, whether it is one matrix.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def compare(
    fixed: ImageLike | None = None,
    warped: ImageLike | None = None,
    *,
    labels: bool = False,
    mask: ImageLike | None = None,
    bins: int | None = None,
    min_voxels: int | None = None,
    smallest_label: Value | None = None,
    label_names: PathLike | None = None,
    points: PathLike | Sequence[Any] | None = None,
    meshes: PathLike | Sequence[Any] | None = None,
    point_convention: Literal["ras", "lps"] | None = None,
    points_of: PathLike | None = None,
    transforms: TransformLike | Sequence[TransformLike] | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    r"""Score how well two images, label maps or point lists agree.

    Parameters
    ----------
    fixed : ImageLike | None
        The fixed image or label map
    warped : ImageLike | None
        The other image or label map, on the same grid
    labels : bool
        FIXED and WARPED are label maps [default: False]
    mask : ImageLike | None
        Compare only where this image is above 0
    bins : int | None
        Number of bins along each axis of the joint histogram [default: 64]
    min_voxels : int | None
        In the mean Dice, leave out labels with fewer voxels in one of the maps; with 0, a label that one map lacks counts as 0 [default: 0]
    smallest_label : Value | None
        In the mean Dice, leave out labels below this
    label_names : PathLike | None
        Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    points : PathLike | Sequence[Any] | None
        Two lists of corresponding points: CSV with world coordinates in mm, or lists of 3D Slicer, elastix, ANTs or MNI
    meshes : PathLike | Sequence[Any] | None
        Two surfaces, or curves, or streamlines
    point_convention : Literal["ras", "lps"] | None
        World coordinates of points and meshes whose files do not state them [default: ras; of ANTs' CSV lps]
    points_of : PathLike | None
        The image that the points or the mesh belong to: elastix' lists of voxel indices need it, and other points are checked to lie on it
    transforms : TransformLike | Sequence[TransformLike] | None
        Two transforms, each FILE or inverse:FILE
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    dict[str, Any]
        The scores, of each kind that was compared.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def info(
    files: PathLike | Sequence[Any],
    *,
    header_only: bool = False,
    point_convention: Literal["ras", "lps"] | None = None,
    points_of: PathLike | None = None,
    volume: int | None = None,
    series: Value | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> list[dict[str, Any]]:
    r"""Show the contents of a file, and anything unusual about it.

    Parameters
    ----------
    files : PathLike | Sequence[Any]
        Images, also in blocks (OME-Zarr, TIFF, SVS, JPEG), transforms, lists of points, meshes, X-ray images (PNG, TIFF) and files of their views (TOML); a folder that is no OME-Zarr is read as a DICOM series
    header_only : bool
        Read the header only, not the voxels [default: False]
    point_convention : Literal["ras", "lps"] | None
        World coordinates of points and meshes whose files do not state them [default: ras; of ANTs' CSV lps]
    points_of : PathLike | None
        The image that the points or the mesh belong to: elastix' lists of voxel indices need it, and other points are checked to lie on it
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    list[dict[str, Any]]
        What each file holds, and what is unusual about it as `odd`.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """

def convert(
    inputs: PathLike | Sequence[Any],
    output: PathLike,
    *,
    image: PathLike | Sequence[Any] | None = None,
    data_type: Value | None = None,
    replace_nan: Value | None = None,
    even: bool = False,
    bids: bool = True,
    from_convention: Literal["ras", "lps"] | None = None,
    to_convention: Literal["ras", "lps"] | None = None,
    to_format: Literal["csv", "ants", "markups", "fcsv", "point", "index", "tag"] | None = None,
    points_of: PathLike | None = None,
    volume: int | None = None,
    series: Value | None = None,
    fixed_geometry: PathLike | None = None,
    moving_geometry: PathLike | None = None,
    threads: int | None = None,
    progress: bool | Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    r"""Convert an image, a label map, a transform or a point list to another format.

    Parameters
    ----------
    inputs : PathLike | Sequence[Any]
        The file to convert; several files of views become one table
    output : PathLike
        The file to write
    image : PathLike | Sequence[Any] | None
        X-ray image of a view, for the table; once per view, in order
    data_type : Value | None
        Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; where an integer type cannot hold them, values are rounded and clamped, and their number is reported [default: that of the input, or f32 where it is scaled]
    replace_nan : Value | None
        Value for voxels that are NaN or infinite
    even : bool
        Resample unevenly spaced DICOM slices to even spacing, by linear interpolation [default: False]
    bids : bool
        False: from DICOM, write only the image, without .json, .bval and .bvec beside it [default: True]
    from_convention : Literal["ras", "lps"] | None
        World coordinates of points and meshes that are read, if the file does not state them [default: ras; of ANTs' CSV lps]
    to_convention : Literal["ras", "lps"] | None
        World coordinates of points and meshes that are written, in formats that can have both [default: ras; for 3D Slicer's points lps]
    to_format : Literal["csv", "ants", "markups", "fcsv", "point", "index", "tag"] | None
        Format of the list of points [default: that of the name]
    points_of : PathLike | None
        The image that the points belong to: elastix' lists of voxel indices need it
    volume : int | None
        Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    series : Value | None
        Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER` shows
    fixed_geometry : PathLike | None
        The fixed (reference) image of the transform: FSL matrices need it, and displacement fields are written on its grid
    moving_geometry : PathLike | None
        The moving (input) image of the transform: FSL matrices need it
    threads : int | None
        Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default: all]
    progress : bool or callable
        True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, `step`, `end`, `frame` or `line`

    Returns
    -------
    dict[str, Any]
        What was written.

    Raises
    ------
    OptionError
        A keyword argument that is unknown, out of its range, or would be ignored.
    InputError
        An image, a file or another input that cannot be used.
    VoxalignError
        What else goes wrong, such as memory that runs out.
    """
