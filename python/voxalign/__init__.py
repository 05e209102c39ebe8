"""Medical image registration: exact geometry, the same bits every time, a verdict on every result.

Each job of the program is a function, with a keyword argument for every option; images come from files, from the
images of other packages, or from arrays with their affine, and go back to them. World space is RAS+ millimetres, and a
transform maps points of the fixed image to points of the moving one.

>>> import voxalign as vx
>>> result = vx.affine("fixed.nii.gz", "moving.nii.gz", dof=6)  # doctest: +SKIP
>>> bool(result.verdict), result.transform.affine  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from ._native import (
    DeviceError,
    Image,
    InputError,
    InternalError,
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
    bids,
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
    transfers,
)

if TYPE_CHECKING:
    from ._foreign import image

__all__ = [
    "DeviceError",
    "Image",
    "InputError",
    "InternalError",
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
    "transfers",
]


def __getattr__(name: str) -> Any:
    # With it comes numpy, which takes longer than all else; the program does without.
    if name == "image":
        from ._foreign import image

        return globals().setdefault(name, image)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
