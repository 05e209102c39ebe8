"""Tasks of pydra (0.25): a class for each command of the program, such as `Deform` and `Apply`.

Inputs have the names of the options, words joined by `_`; outputs those of the record. The program `voxalign` has to be on the
path. Results go to the folder `results` in that of the task unless `output` says otherwise, and `verdict` is true
where they can be used. A bad verdict ends a task with an error, unless `accept_bad` is set.

>>> from voxalign.interfaces.pydra import Deform  # doctest: +SKIP
>>> Deform(fixed="template.nii.gz", moving="scan.nii.gz")(plugin="serial").output.warp  # doctest: +SKIP
"""

from __future__ import annotations

import json
import shlex
import typing as ty
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    import attr
    from fileformats.generic import Directory, File
    from pydra import ShellCommandTask
    from pydra.engine.environments import Native
    from pydra.engine.helpers import execute
    from pydra.engine.specs import ShellOutSpec, ShellSpec, SpecInfo
except ImportError as e:
    raise ImportError("voxalign.interfaces.pydra needs pydra 0.25; install voxalign[pydra]") from e

from . import _commands
from ._commands import Command, Input, Output

#: What a bad verdict does.
_ACCEPT = "Go on where the verdict is bad (exit code 1); `verdict` is false then"


class _Judged(Native):
    """Where a bad verdict is no error."""

    def execute(self, task: Any) -> dict[str, Any]:
        words = task.command_args()
        code, stdout, stderr = execute(words, strip=task.strip)
        if code not in (0, 1):
            raise RuntimeError(f"Error running '{task.name}' task with {words}:\n\n{stderr}\n{stdout}")
        return {"return_code": code, "stdout": stdout, "stderr": stderr}


class _Program(ShellCommandTask):
    """A command of the program."""

    _command: Command

    def _run_task(self, environment: Any = None) -> None:
        environment = environment or self.environment
        if self.inputs.accept_bad and type(environment) is Native:
            environment = _Judged()
        super()._run_task(environment)


def _type(one: Input) -> Any:
    of: Any
    if one.kind == "Flag":
        return bool
    if one.kind == "File":
        # DICOM series and OME-Zarr are folders.
        of = ty.Union[File, Directory]
    elif one.kind == "Number":
        of = int if one.is_whole else float
    else:
        of = str
    # One value may stand for a list of it, as what comes from another task does.
    return ty.Union[of, ty.List[of]] if one.is_list else of


def _input(one: Input, command: Command) -> tuple[Any, ...]:
    def formatter(field: Any, inputs: dict[str, Any]) -> str:
        if field is None and one.name == "output":
            field = command.named(inputs)
        if field is None or field is attr.NOTHING:
            return ""
        if one.may_be_inverted and inputs["invert"]:
            field = _commands.inverted(field if isinstance(field, list) else [field], inputs["invert"])
        return " ".join(map(shlex.quote, one.words(field)))

    about = {"help_string": one.about, "formatter": formatter}
    if one.flag is None:
        about["position"] = [i.name for i in command.inputs if i.flag is None].index(one.name)
    if one.choices and not one.is_list:
        about["allowed_values"] = list(one.choices)
    if one.name == "json":
        return (one.name, bool, command.prints, about)
    if one.required and not (one.name == "output" and command.has_name):
        about["mandatory"] = True
    return (one.name, _type(one), about)


def _written(inputs: Any, output_dir: Any, command: Command) -> Any:
    given = inputs.output
    output = command.named(attr.asdict(inputs, recurse=False)) if given in (None, attr.NOTHING) else given
    return output_dir / str(output)


def _output(one: Output, command: Command) -> tuple[Any, ...]:
    def find(output_dir: Any, inputs: Any) -> Any:
        found = one.find(_written(inputs, output_dir, command))
        return attr.NOTHING if found is None else found

    return (one.name, list if one.is_list else ty.Union[File, Directory], {"help_string": one.about, "callable": find})


def _extra(command: Command) -> list[tuple[Any, ...]]:
    """What is an output and no file."""

    def verdict(output_dir: Any, inputs: Any) -> Any:
        good = command.verdict(_written(inputs, output_dir, command))
        return attr.NOTHING if good is None else good

    def found(stdout: str) -> Any:
        whole = json.loads(stdout)
        return whole if isinstance(whole, list) else [whole]

    if command.prints:
        return [("found", list, {"help_string": "What was found: a dict for each thing", "callable": found})]
    if any(one.name in _commands.RECORDS for one in command.outputs):
        return [("verdict", bool, {"help_string": "Whether the result can be used", "callable": verdict})]
    return []


def _class(command: Command) -> Any:
    inputs = [_input(one, command) for one in command.inputs]
    inputs.append(("accept_bad", bool, False, {"help_string": _ACCEPT}))
    if any(one.may_be_inverted for one in command.inputs):
        about = {"help_string": "For each transform, whether its inverse is meant"}
        inputs.append(("invert", ty.List[bool], about))
    outputs = [*(_output(one, command) for one in command.outputs), *_extra(command)]
    body = {
        "_command": command,
        "executable": ["voxalign", command.name],
        "input_spec": SpecInfo(name="Input", fields=inputs, bases=(ShellSpec,)),
        "output_spec": SpecInfo(name="Output", fields=outputs, bases=(ShellOutSpec,)),
        "__doc__": command.documentation(),
        "__module__": __name__,
    }
    return type(command.title, (_Program,), body)


_commands_of = {command.title: _class(command) for command in _commands.commands()}
__all__ = list(_commands_of)
globals().update(_commands_of)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
