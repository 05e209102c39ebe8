"""Registers two anatomies, each a file that lists tissue probabilities, images, surfaces, curves and points:
`python examples/anatomy.py FIXED.toml MOVING.toml OUT`"""

import sys
from typing import Any

import voxalign as vx


def register(fixed: str, moving: str, out: str, **more: Any) -> bool:
    """Registers, tells how far surfaces are apart, and says whether the result can be used; `more` are further options."""
    result = vx.anatomy(fixed, moving, output=out, **more)
    for shape in result.record["anatomy"]["shapes"]:
        before, after = shape["before"]["mean"], shape["after"]["mean"]
        print(f"{shape['name']}: {before:.2f} mm apart before, {after:.2f} mm after")
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    register(*sys.argv[1:])
