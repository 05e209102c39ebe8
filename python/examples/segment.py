"""Regions of an image: `python examples/segment.py IMAGE DIR`"""

import sys

import voxalign as vx


def file(image: str, folder: str) -> tuple[bool, float]:
    """Segments the two brightest of four classes, without small parts; gives whether the verdict is good, and the volume, ml."""
    result = vx.segment(
        image, output=folder, force="geodesic-regions", classes=4, object_classes=[3, 4], smallest_island=100
    )
    return bool(result.verdict), result.record["regions"][1]["volume_ml"]


if __name__ == "__main__":
    print(file(*sys.argv[1:]))
