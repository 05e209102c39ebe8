"""The mean of images on one grid, in bounded memory: `python examples/stack.py OUT.nii.gz IMAGES...`"""

import sys
from collections.abc import Sequence

import voxalign as vx


def mean(images: Sequence[str], out: str) -> float:
    """Writes the mean of images, and gives the seconds that it took."""
    seconds: float = vx.stack("mean", images, output=out).record["timings"]["total"]
    return seconds


if __name__ == "__main__":
    print(f"{mean(sys.argv[2:], sys.argv[1]):.2f} s")
