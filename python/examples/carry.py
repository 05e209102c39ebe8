"""A mesh or a list of points of the moving image on the fixed one: `python examples/carry.py INPUT OUTPUT TRANSFORMS...`"""

import sys
from collections.abc import Sequence

import voxalign as vx


def to_fixed(source: str, out: str, transforms: Sequence[str]) -> int:
    """Carries a file by the inverses of a chain of transforms; gives how many points went."""
    done = vx.apply(source, transform=transforms, output=out)
    assert isinstance(done, dict)
    return int(done["count"])


if __name__ == "__main__":
    print(to_fixed(sys.argv[1], sys.argv[2], sys.argv[3:]), "points")
