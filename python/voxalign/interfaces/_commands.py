"""The commands of the program as their descriptors have them, for the interfaces of pipelines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from importlib.resources import files
from pathlib import Path
from typing import Any

#: The commands that leave one file, whose name is made from that of an input: the input, and what is put behind its name.
NAMED = {"apply": ("input", "_applied"), "invert": ("transform", "_inverse")}
#: The commands whose result is what they print.
PRINTING = ("compare", "info")
#: What has no influence on results.
OF_RUNNING = ("threads", "quiet", "verbose")
#: The files that have a verdict.
RECORDS = ("record", "stream_file")
#: The folder of the results where none is given.
FOLDER = "results"
#: Endings of two parts.
ENDINGS = (".nii.gz", ".surf.gii", ".fsl.mat", ".mrk.json", ".ome.zarr", ".seg.nrrd")


@dataclass(frozen=True)
class Input:
    """An option, or what stands by its place.

    Parameters
    ----------
    name, about : str
        The name, words joined by `_`, and what it is.
    kind : str
        `File`, `String`, `Number` or `Flag`.
    flag : str or None
        The option as it is typed; none for what stands by its place.
    required, is_list, is_whole : bool
        Whether it has to be given; whether it takes several values; whether its numbers are whole.
    group : int or None
        How many values follow the option where it is given again for further ones.
    separator : str or None
        What stands between values in one word.
    choices : tuple of str
        The values, where there are few.
    """

    name: str
    about: str
    kind: str
    flag: str | None
    required: bool
    is_list: bool
    is_whole: bool
    group: int | None
    separator: str | None
    choices: tuple[str, ...]

    @property
    def may_be_inverted(self) -> bool:
        """Whether the inverse of each of its files may be meant."""
        return self.is_list and "inverse:FILE" in self.about

    def words(self, value: Any) -> list[str]:
        """A value as the words of a command line."""
        flag = [] if self.flag is None else [self.flag]
        if self.kind == "Flag":
            return flag if value else []
        several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Path))
        values = [_text(v) for v in value] if several else [_text(value)]
        if not values:
            return []
        if self.group is not None:
            groups = [values[i : i + self.group] for i in range(0, len(values), self.group)]
            return [word for group in groups for word in (*flag, *group)]
        if self.separator is not None:
            values = [self.separator.join(values)]
        # A value may begin with a hyphen.
        if flag and len(values) == 1:
            return [f"{flag[0]}={values[0]}"]
        return [*flag, *values]


@dataclass(frozen=True)
class Output:
    """A file that a command leaves: what it is, what follows the path that is given as `output`, and whether there may be several."""

    name: str
    about: str
    after: str
    is_list: bool

    def find(self, output: str | Path) -> Any:
        """What is there: a path, a list of paths where there may be several, or none."""
        if self.is_list:
            return sorted(glob(f"{output}{self.after}")) or None
        path = f"{output}{self.after}"
        return path if Path(path).exists() else None


@dataclass(frozen=True)
class Command:
    """A command of the program."""

    name: str
    about: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]

    @property
    def title(self) -> str:
        """The name of its class."""
        return self.name.capitalize()

    @property
    def writes_folder(self) -> bool:
        """Whether its result is a folder."""
        return any(output.name == "record" and output.after.startswith("/") for output in self.outputs)

    @property
    def prints(self) -> bool:
        """Whether its result is what it prints."""
        return self.name in PRINTING

    @property
    def defaults(self) -> set[str]:
        """What has to be given to the program, and not to an interface."""
        return {"output"} if self.has_name else set()

    def option(self, name: str) -> Input:
        """The input of a name."""
        return next(one for one in self.inputs if one.name == name)

    @property
    def has_name(self) -> bool:
        """Whether its result has a name where none is given."""
        return self.writes_folder or self.name in NAMED

    def named(self, values: dict[str, Any]) -> str | None:
        """That name, by the values of the inputs."""
        if self.name not in NAMED:
            return FOLDER if self.writes_folder else None
        of, suffix = NAMED[self.name]
        stem, end = ending(str(values[of]))
        return f"{stem}{suffix}{end}"

    def verdict(self, output: str | Path) -> bool | None:
        """The verdict in the record of a run, where there is one."""
        found = (one.find(output) for one in self.outputs if one.name in RECORDS)
        record = next(filter(None, found), None)
        verdict = record and json.loads(Path(record).read_text("utf-8")).get("verdict")
        return bool(verdict["good"]) if isinstance(verdict, dict) else None

    def documentation(self) -> str:
        """What it does and gives, in numpy's style."""
        text = f"{self.about}.\n\nInputs\n------\n"
        for one in self.inputs:
            must = "" if one.required else ", optional"
            text += f"{one.name} : {_kind(one)}{must}\n    {one.about}\n"
        text += "\nOutputs\n-------\n"
        for out in self.outputs:
            text += f"{out.name} : {'list of files' if out.is_list else 'file'}\n    {out.about}\n"
        return text


def _kind(one: Input) -> str:
    name = {"File": "file", "Flag": "bool", "Number": "int" if one.is_whole else "float"}.get(one.kind, "str")
    return f"list of {name}" if one.is_list else name


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def ending(path: str) -> tuple[str, str]:
    """The name of a file without its ending, and the ending."""
    name = Path(path.removeprefix("inverse:")).name
    for known in ENDINGS:
        if name.endswith(known):
            return name.removesuffix(known), known
    return Path(name).stem, Path(name).suffix


def inverted(transforms: list[Any], flags: list[bool]) -> list[str]:
    """Transforms as a command line has them: the inverse of a file where that is meant."""
    if len(flags) != len(transforms):
        raise ValueError(f"invert has {len(flags)} values for {len(transforms)} transforms; give one for each")
    return [f"inverse:{path}" if flag else str(path) for path, flag in zip(transforms, flags)]


def _read(text: str) -> Command:
    whole = json.loads(text)
    repeated = whole["custom"]["repeated"]
    inputs = (
        Input(
            name=one["id"],
            about=one["description"],
            kind=one["type"],
            flag=one.get("command-line-flag"),
            required=not one["optional"],
            is_list=one.get("list", False),
            is_whole=one.get("integer", False),
            group=one.get("min-list-entries", 1) if one["id"] in repeated else None,
            separator=one.get("list-separator"),
            choices=tuple(one.get("value-choices", ())),
        )
        for one in whole["inputs"]
    )
    outputs = (
        Output(one["id"], one["description"], one["path-template"].removeprefix("[OUTPUT]"), one.get("list", False))
        for one in whole.get("output-files", ())
    )
    return Command(whole["command-line"].split()[1], whole["description"], tuple(inputs), tuple(outputs))


def commands() -> list[Command]:
    """All commands that have a descriptor, by their names."""
    folder = files("voxalign") / "descriptors"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".json")), key=lambda path: path.name)
    return [_read(path.read_text("utf-8")) for path in paths]
