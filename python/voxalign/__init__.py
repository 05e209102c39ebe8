"""Medical image registration: exact geometry, the same bits every time, a verdict on every result.

Each job of the program is a function, with a keyword argument for every option; images come from files, from the
images of other packages, or from arrays with their affine, and go back to them. World space is RAS+ millimetres, and a
transform maps points of the fixed image to points of the moving one.

>>> import voxalign as vx
>>> result = vx.affine("fixed.nii.gz", "moving.nii.gz", dof=6)  # doctest: +SKIP
>>> bool(result.verdict), result.transform.affine  # doctest: +SKIP
"""

from ._bids import bids
from ._foreign import image
from ._native import (
    DeviceError,
    Image,
    InputError,
    OptionError,
    Result,
    Transform,
    Verdict,
    VoxalignError,
    VoxalignWarning,
    __version__,
    affine,
    anatomy,
    apply,
    atlas,
    compare,
    compose,
    convert,
    deform,
    drr,
    elastic,
    info,
    invert,
    pose,
    read,
    read_transform,
    segment,
    stack,
    surface,
)

__all__ = [
    "DeviceError",
    "Image",
    "InputError",
    "OptionError",
    "Result",
    "Transform",
    "Verdict",
    "VoxalignError",
    "VoxalignWarning",
    "__version__",
    "affine",
    "anatomy",
    "apply",
    "atlas",
    "bids",
    "compare",
    "compose",
    "convert",
    "deform",
    "drr",
    "elastic",
    "image",
    "info",
    "invert",
    "pose",
    "read",
    "read_transform",
    "segment",
    "stack",
    "surface",
]
