"""The pose of a CT by X-ray images: `python examples/pose.py CT VIEWS.toml OUT XRAY...`"""

import sys
from collections.abc import Sequence

import voxalign as vx


def find(ct: str, views: str, xrays: Sequence[str], out: str) -> bool:
    """Finds the pose, and gives whether its verdict is good."""
    result = vx.pose(ct, xrays, geometry=views, output=out)
    print(result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    find(sys.argv[1], sys.argv[2], sys.argv[4:], sys.argv[3])
