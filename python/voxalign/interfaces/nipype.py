"""Interfaces of nipype 1: a class for each command of the program, such as `Deform` and `Apply`.

Inputs have the names of the options, words joined by `_`; outputs those of the record. The program `voxalign` has to be on the
path. Results go to the folder `results` in that of the node unless `output` says otherwise, and `verdict` is true
where they can be used. A bad verdict ends a node with an error, unless `accept_bad` is set.

>>> from voxalign.interfaces.nipype import Deform  # doctest: +SKIP
>>> Deform(fixed="template.nii.gz", moving="scan.nii.gz").run().outputs.warp  # doctest: +SKIP
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from nipype.interfaces.base import (
        CommandLine,
        CommandLineInputSpec,
        Directory,
        File,
        InputMultiObject,
        TraitedSpec,
        isdefined,
        traits,
    )
except ImportError as e:
    raise ImportError("voxalign.interfaces.nipype needs nipype; install voxalign[nipype]") from e

from . import _commands
from ._commands import OF_RUNNING, Command, Input, Output

#: What a bad verdict does.
_ACCEPT = "Go on where the verdict is bad (exit code 1); `verdict` is false then"


class _Program(CommandLine):
    """A command of the program."""

    _command: Command

    def _format_arg(self, name: str, trait_spec: Any, value: Any) -> str:
        if name == "num_threads":
            return f"--threads={value}"
        if name == "accept_bad":
            return ""
        option = self._command.option(name)
        if option.may_be_inverted and isdefined(self.inputs.invert):
            value = _commands.inverted(value, self.inputs.invert)
        return " ".join(map(shlex.quote, option.words(value)))

    def _gen_filename(self, name: str) -> str | None:
        return self._output() if name == "output" else None

    def _output(self) -> str | None:
        given = self.inputs.output
        return str(given) if isdefined(given) else self._command.named(self.inputs.get())

    def _run_interface(self, runtime: Any, correct_return_codes: tuple[int, ...] = (0,)) -> Any:
        codes = (*correct_return_codes, 1) if self.inputs.accept_bad else correct_return_codes
        runtime = super()._run_interface(runtime, correct_return_codes=codes)
        if runtime.returncode not in codes:
            self.raise_exception(runtime)
        self._good = runtime.returncode == 0
        self._printed = runtime.stdout
        return runtime

    def _list_outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = self.output_spec().get()
        outputs["verdict"] = self._good
        if self._command.prints:
            outputs["found"] = json.loads(self._printed)
            return outputs
        output = Path(self._output() or "").absolute()
        for one in self._command.outputs:
            found = one.find(output)
            if found is not None:
                outputs[one.name] = found
        return outputs


def _trait(one: Input, command: Command) -> Any:
    about: dict[str, Any] = {"desc": one.about, "argstr": "%s"}
    if one.flag is None:
        about["position"] = [i.name for i in command.inputs if i.flag is None].index(one.name)
    if one.name == "output":
        return traits.Str(**about, hash_files=False, **{"genfile" if command.has_name else "mandatory": True})
    if one.required:
        about["mandatory"] = True
    if one.name in OF_RUNNING:
        about["nohash"] = True
    if one.name == "json":
        return traits.Bool(command.prints, usedefault=command.prints, **about)
    if one.kind == "Flag":
        return traits.Bool(**about)
    if one.kind == "File":
        # DICOM series and OME-Zarr are folders.
        of = [File(exists=True), Directory(exists=True)]
    elif one.kind == "Number":
        of = [traits.Int() if one.is_whole else traits.Float()]
    else:
        of = [traits.Enum(*one.choices)] if one.choices else [traits.Str()]
    if one.is_list:
        return InputMultiObject(traits.Either(*of) if len(of) > 1 else of[0], **about)
    if len(of) > 1:
        return traits.Either(*of, **about)
    return of[0].clone(**about) if hasattr(of[0], "clone") else type(of[0])(**about)


def _output(one: Output) -> Any:
    return traits.List(File(), desc=one.about) if one.is_list else traits.Either(File(), Directory(), desc=one.about)


def _class(command: Command) -> dict[str, Any]:
    """The class of a command, with those of its inputs and outputs."""
    inputs: dict[str, Any] = {one.name: _trait(one, command) for one in command.inputs}
    if "threads" in inputs:
        inputs["num_threads"] = traits.Int(desc="Threads, as pipelines call it", argstr="%d", nohash=True, xor=["threads"])
    inputs["accept_bad"] = traits.Bool(False, usedefault=True, desc=_ACCEPT, nohash=True)
    if any(one.may_be_inverted for one in command.inputs):
        inputs["invert"] = traits.List(traits.Bool(), desc="For each transform, whether its inverse is meant")
    outputs: dict[str, Any] = {one.name: _output(one) for one in command.outputs}
    outputs["verdict"] = traits.Bool(desc="Whether the result can be used")
    if command.prints:
        outputs["found"] = traits.Any(desc="What was found: a dict, or a list of them")
    title = command.title
    of = {
        f"{title}InputSpec": type(f"{title}InputSpec", (CommandLineInputSpec,), {**inputs, "__module__": __name__}),
        f"{title}OutputSpec": type(f"{title}OutputSpec", (TraitedSpec,), {**outputs, "__module__": __name__}),
    }
    body = {
        "_cmd": f"voxalign {command.name}",
        "_command": command,
        "input_spec": of[f"{title}InputSpec"],
        "output_spec": of[f"{title}OutputSpec"],
        "__doc__": command.documentation(),
        "__module__": __name__,
    }
    if command.prints:
        body["_terminal_output"] = "allatonce"
    return {title: type(title, (_Program,), body), **of}


__all__ = [command.title for command in _commands.commands()]
for _one in _commands.commands():
    globals().update(_class(_one))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
