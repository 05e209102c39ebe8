"""Descriptors for styx, the compiler of NiWrap: `python -m voxalign.interfaces.styx FOLDER` writes one for each command.

They are those of Boutiques, with what styx has beside that format: an option that is given again for further values is a list of
sub-commands.
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any


def descriptors() -> dict[str, dict[str, Any]]:
    """The descriptors by the names of the commands."""
    folder = files("voxalign") / "descriptors"
    found = {path.name.removesuffix(".json"): json.loads(path.read_text("utf-8")) for path in folder.iterdir() if path.name.endswith(".json")}
    for descriptor in found.values():
        repeated = descriptor["custom"]["repeated"]
        descriptor["inputs"] = [_again(one) if one["id"] in repeated else one for one in descriptor["inputs"]]
    return dict(sorted(found.items()))


def _again(option: dict[str, Any]) -> dict[str, Any]:
    """An option that may be given again, as a list of sub-commands."""
    least = option.get("min-list-entries")
    values = {"id": "value" if least is None else "values", "value-key": "[VALUES]", "type": option["type"], "optional": False}
    values |= {"name": values["id"], "description": option["description"]}
    if least is not None:
        # How many, its wrappers cannot check within sub-commands.
        values["list"] = True
    each = {
        "id": option["id"],
        "name": option["name"],
        "description": option["description"],
        "command-line": f"{option['command-line-flag']} [VALUES]",
        "inputs": [values],
    }
    kept = {key: option[key] for key in ("id", "name", "description", "value-key", "optional")}
    return {**kept, "type": each, "list": True}


def main(arguments: list[str]) -> int:
    """Writes them into a folder."""
    if len(arguments) != 1:
        print("python -m voxalign.interfaces.styx FOLDER: give the folder for the descriptors", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, descriptor in descriptors().items():
        (folder / f"{name}.json").write_text(json.dumps(descriptor, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
