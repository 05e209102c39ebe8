"""X-ray images of a CT: `python examples/drr.py CT OUT`"""

import sys

import voxalign as vx


def simulate(ct: str, out: str) -> list[float]:
    """Writes images from the front and from the right, and gives the largest attenuation of each."""
    result = vx.drr(ct, output=out, view=["ap", "lateral"])
    return [image["most"] for image in result.record["images"]]


if __name__ == "__main__":
    print(simulate(*sys.argv[1:]))
