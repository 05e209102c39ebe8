"""Registers two images in memory, and brings the second one onto the first: `python examples/memory.py FIXED MOVING`"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import voxalign as vx


def align(fixed: Any, moving: Any) -> tuple[npt.NDArray[np.float64], vx.Image]:
    """The map from the fixed to the moving image, and the moving image on the grid of the fixed one. Images may be those of
    nibabel, SimpleITK, ITK or ANTs, or `vx.image(array, affine=...)`."""
    result = vx.affine(fixed, moving)
    print("verdict:", result.verdict)
    affine = result.transform.affine
    assert affine is not None
    return affine, result.warped


if __name__ == "__main__":
    affine, warped = align(*map(vx.read, sys.argv[1:]))
    print(affine, warped.shape)
