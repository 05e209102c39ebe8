#!/usr/bin/env python3
"""Follows the recipes of docs/extending.md to the letter, all in one copy of the tracked files, and compiles what comes of it.

    tools/check_recipes.py                  # exit code 0: all apply and compile; 1: names the recipe that does not
    tools/check_recipes.py --tests          # runs the quick tests that recipes name as well (`cargo test ... --lib ...`)
    tools/check_recipes.py --target FOLDER  # what is compiled already: the target directory of the repository by default

A recipe is a section of the document. What is followed: a code block after a line that ends with a path is that file, whole; a
row of a table that begins with `| in | after |` or `| in | in place of |` says which lines come after another one, or take its place, each
in backticks and as far to the right as that one; a code block after "in `PATH`, after `LINE`:" or "in place of" says the same. Prints the
files and lines that each recipe touches.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = "docs/extending.md"
WHOLE = re.compile(r"`([\w./-]+/[\w.-]+\.\w+)`:?$")
LINES = re.compile(r"in `([^`]+)`, (after|in place of) `([^`]+)`:$")
SPAN = re.compile(r"`` (.*?) ``|`([^`]+)`")


class Fault(Exception):
    """A recipe that does not apply."""


class Change(typing.NamedTuple):
    """Lines that come after a line of a file, or take its place."""

    path: str
    at: str
    lines: list[str]
    replaces: bool


class Recipe(typing.NamedTuple):
    """What a section of the document says to do, and the tests that it names."""

    name: str
    files: dict[str, str]
    changes: list[Change]
    tests: list[str]


def recipes(text: str) -> list[Recipe]:
    """The recipes of the document, in its order."""
    found: list[Recipe] = []
    paragraph = ""
    block: tuple[str, list[str]] | None = None
    replaces: bool | None = None
    for line in text.splitlines():
        if block is not None:
            kind, lines = block
            if line != "```":
                lines.append(line)
                continue
            block = None
            whole, some = WHOLE.search(paragraph), LINES.search(paragraph)
            if kind == "sh" and found:
                found[-1].tests.extend(t.split("#")[0].strip() for t in lines if re.match(r"cargo test .*--lib", t))
            elif some and found:
                found[-1].changes.append(Change(some.group(1), some.group(3), lines, some.group(2) != "after"))
            elif whole and found:
                if whole.group(1) in found[-1].files:
                    raise Fault(f"{found[-1].name}: {whole.group(1)} is given twice")
                found[-1].files[whole.group(1)] = "\n".join(lines) + "\n"
            paragraph = ""
        elif line.startswith("```"):
            block = (line[3:], [])
        elif line.startswith("## "):
            found.append(Recipe(line[3:], {}, [], []))
            paragraph = ""
        elif header := re.match(r"\| in \| (after|in place of) \|", line):
            replaces = header.group(1) == "in place of"
        elif replaces is not None and line.startswith("|"):
            spans = [a or b for a, b in SPAN.findall(line)]
            if len(spans) > 2:
                found[-1].changes.append(Change(spans[0], spans[1], spans[2:], replaces))
        else:
            replaces = None
            paragraph = line if line else paragraph
    return [r for r in found if r.files or r.changes]


def follow(recipe: Recipe, folder: pathlib.Path) -> None:
    """Does what a recipe says to the files of a folder."""
    for path, text in recipe.files.items():
        file = folder / path
        if file.exists():
            raise Fault(f"{recipe.name}: {path} is there already")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for change in recipe.changes:
        file = folder / change.path
        if not file.is_file():
            raise Fault(f"{recipe.name}: there is no file {change.path}")
        lines = file.read_text().splitlines()
        at = [i for i, line in enumerate(lines) if line.strip() == change.at] or [
            i for i, line in enumerate(lines) if change.at in line
        ]
        if len(at) != 1:
            raise Fault(f"{recipe.name}: {change.path} has {len(at)} lines `{change.at}`, and not one")
        line = lines[at[0]]
        indent = line[: len(line) - len(line.lstrip())]
        lines[at[0] : at[0] + 1] = ([] if change.replaces else [line]) + [indent + new for new in change.lines]
        file.write_text("\n".join(lines) + "\n")


def copied(folder: pathlib.Path) -> None:
    """Copies the tracked files as they are now, with their times."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def cargo(folder: pathlib.Path, target: pathlib.Path, *arguments: str) -> tuple[int, str]:
    """Runs cargo: its exit code and what it said."""
    command = ["cargo", *arguments, "--target-dir", str(target)]
    print("+", " ".join(command), flush=True)
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def blamed(said: str, all_recipes: list[Recipe]) -> str:
    """The recipes whose files a compiler complains about."""
    names = [r.name for r in all_recipes if any(p in said for p in [*r.files, *(c.path for c in r.changes)])]
    return ", ".join(names) or "one of the recipes"


def table(all_recipes: list[Recipe]) -> str:
    """What each recipe touches outside of the files that recipes make."""
    made = {path for r in all_recipes for path in r.files}
    rows = [("recipe", "new files", "other files", "lines there")]
    for r in all_recipes:
        others = [c for c in r.changes if c.path not in made]
        rows.append((r.name, str(len(r.files)), str(len({c.path for c in others})), str(sum(len(c.lines) for c in others))))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def main() -> int:
    """Follows and compiles all recipes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target", help="target directory of cargo")
    parser.add_argument("--tests", action="store_true", help="run the quick tests that recipes name as well")
    arguments = parser.parse_args()
    target = arguments.target.resolve()
    all_recipes = recipes((ROOT / DOCUMENT).read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copied(folder)
        for recipe in all_recipes:
            follow(recipe, folder)
        print(table(all_recipes), flush=True)
        code, said = cargo(folder, target, "check", "--workspace", "--all-targets", "--locked", "--quiet")
        if code or re.search(r"^warning", said, re.M):
            print(said)
            raise Fault(f"{blamed(said, all_recipes)}: it does not compile, or not without warnings")
        for recipe in all_recipes if arguments.tests else []:
            for test in recipe.tests:
                code, said = cargo(folder, target, *test.split()[1:], "--locked", "--quiet")
                if code:
                    print(said)
                    raise Fault(f"{recipe.name}: {test} fails")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        print(f"{DOCUMENT}: {fault}", file=sys.stderr)
        sys.exit(1)
