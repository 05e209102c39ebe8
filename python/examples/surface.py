"""The surface of labels: `python examples/surface.py LABELS LABEL MESH`"""

import sys

import voxalign as vx


def make(labels: str, label: int, mesh: str) -> bool:
    """Writes the surface of a label with at most 2000 triangles; gives whether the verdict is good."""
    return bool(vx.surface(labels, output=mesh, label=label, triangles=2000).verdict)


if __name__ == "__main__":
    labels, label, mesh = sys.argv[1:]
    print(make(labels, int(label), mesh))
