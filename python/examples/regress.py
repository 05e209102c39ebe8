"""Atlases at values of a covariate, and a test of how many subjects one needs: `python examples/regress.py LIST.csv OUT`. The
list has a column `path` and one of numbers, `age`."""

import sys
from typing import Any

import voxalign as vx


def run(**options: Any) -> bool:
    """Builds the atlases, and says whether they can be used."""
    result = vx.atlas(**options)
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    subjects, out = sys.argv[1:]
    run(list=subjects, output=f"{out}/ages", regress="age", at=[65, 75], bandwidth=5)
    run(list=subjects, output=f"{out}/stability", stability="2..6", cohorts=20)
