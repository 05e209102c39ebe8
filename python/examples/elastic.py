"""Registers two files by an elastic body, and says how far its tissue was strained: `python examples/elastic.py FIXED MOVING OUT`"""

import sys
from typing import Any

import voxalign as vx


def register(fixed: str, moving: str, out: str, **more: Any) -> bool:
    """Registers by a body of one tissue, and says whether the result can be used; `more` are further options."""
    result = vx.elastic(fixed, moving, output=out, young=2000, **more)
    body = result.record["elastic"]
    print(f"strain up to {body['largest_strain']:.3f}, at rest: {body['at_rest']}")
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    register(*sys.argv[1:])
