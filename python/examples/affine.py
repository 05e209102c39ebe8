"""Registers two files by an affine transform: `python examples/affine.py FIXED MOVING OUT`"""

import sys

import voxalign as vx


def register(fixed: str, moving: str, out: str) -> bool:
    """Registers, writes to a folder, and says whether the result can be used."""
    result = vx.affine(fixed, moving, output=out)
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    register(*sys.argv[1:])
