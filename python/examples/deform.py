"""Registers two files by a deformation, telling how far it is: `python examples/deform.py FIXED MOVING OUT`"""

import sys
from typing import Any

import voxalign as vx


def printed(message: dict[str, Any]) -> None:
    """Prints each stage; an exception would stop the work."""
    if message["kind"] == "end":
        print(f"{message['name']}: {message['best']:.5f} after {message['seconds']:.1f} s")


def register(fixed: str, moving: str, out: str, **more: Any) -> bool:
    """Registers by a symmetric model, and says whether the result can be used; `more` are further options."""
    result = vx.deform(fixed, moving, output=out, model="symmetric", progress=printed, **more)
    print("verdict:", result.verdict)
    return bool(result.verdict)


if __name__ == "__main__":
    register(*sys.argv[1:])
