"""Builds the unbiased mean of images: `python examples/atlas.py OUT IMAGES...`"""

import sys
from collections.abc import Sequence

import voxalign as vx


def build(images: Sequence[str], out: str, spacing: float, schedule: str | None = None) -> bool:
    """Builds it with voxels of `spacing` mm, and says whether it can be used."""
    result = vx.atlas(images, output=out, spacing=spacing, schedule=schedule)
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    build(sys.argv[2:], sys.argv[1], 2.0)
