"""Every command of the program that does a job is a function, and every long option of it a keyword argument."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import pytest

import voxalign as vx

#: What is of a terminal, and of the whole program.
OF_PROGRAMS = {"demo", "bench", "devices", "completions", "man", "help"}
OF_TERMINALS = {"json", "quiet", "verbose", "help", "version"}


def shown(program: str, *words: str) -> str:
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def test_every_command_is_a_function(program: str) -> None:
    listed = shown(program).split("Commands:\n")[1].split("\n\n")[0]
    commands = set(re.findall(r"^  ([a-z]+)", listed, re.MULTILINE)) - OF_PROGRAMS
    assert commands <= set(vx.__all__) and len(commands) == 16


@pytest.mark.parametrize(
    "name",
    [
        "affine", "anatomy", "apply", "atlas", "compare", "compose", "convert", "deform",
        "drr", "elastic", "info", "invert", "pose", "segment", "stack", "surface",
    ],
)
def test_every_option_is_a_keyword_argument(name: str, program: str) -> None:
    of_program = shown(program, name).split("\nExamples:")[0]
    options = re.findall(r"^ {2,6}(?:-\w, )?--([a-z0-9-]+)", of_program, re.MULTILINE)
    options = {option.replace("-", "_") for option in options} - OF_TERMINALS
    known = set(inspect.signature(getattr(vx, name)).parameters)
    missing = {
        option
        for option in options - known
        if option.removeprefix("no_") not in known
    }
    assert not missing
    # What the program has only by its place, how many threads serve, and who is told.
    places = {word.lower() for word in re.findall(r"<([A-Z_]+)>|\[([A-Z_]+)\]", of_program) for word in word}
    assert known - options - {"progress", "threads"} <= places | {
        "fixed", "moving", "warped", "image", "images", "inputs", "output", "files", "ct", "xrays", "operation",
        "transform",
    } | {option.removeprefix("no_") for option in options}


def test_what_help_hides_is_refused_in_words_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "a.toml"
    table.write_text("")
    for name in ("similarity", "radius", "bins", "channel"):
        assert name not in inspect.signature(vx.anatomy).parameters
    with pytest.raises(vx.OptionError) as refused:
        vx.anatomy(table, table, similarity="cc")
    assert "similarity" in str(refused.value) and "has no argument" not in str(refused.value)
    with pytest.raises(vx.OptionError, match="has no argument `similarit`; (?!did you mean `similarity`)"):
        vx.anatomy(table, table, similarit="cc")


def test_a_switch_says_what_it_does_as_it_is_called() -> None:
    on = 0
    for name in vx.__all__:
        function = getattr(vx, name)
        if not inspect.isbuiltin(function):
            continue
        for parameter in inspect.signature(function).parameters.values():
            if not isinstance(parameter.default, bool):
                continue
            found = re.search(rf"^{parameter.name} : bool\n +(.*)$", function.__doc__ or "", re.MULTILINE)
            assert found, f"{name}: {parameter.name}"
            assert found[1].startswith("False: ") is parameter.default, found[1]
            assert f"[default: {parameter.default}]" in found[1]
            on += parameter.default
    assert on > 10
