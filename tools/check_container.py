#!/usr/bin/env python3
"""Whether the container recipes, tools/container/Dockerfile and voxalign.def, have the same steps; and whether these work.

    tools/check_container.py                runs them where no container engine is: each stage in a bare Debian of debootstrap
    tools/check_container.py --only-compare

Running takes root, debootstrap, Rust and half an hour: the image of the first stage is a Debian with this machine's Rust. At last
the program is run as the containers run it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
RECIPES = SOURCE / "tools/container"


@dataclass
class Stage:
    """A stage of a recipe: its image, what is copied (from an earlier stage, if named), and commands."""

    image: str
    name: str = ""
    copies: list[tuple[str, str, str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


def of_dockerfile(text: str) -> tuple[list[Stage], str]:
    """The stages, and what a container runs."""
    stages: list[Stage] = []
    runs = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image, name))
        elif word == "COPY":
            origin = re.match(r"--from=(\S+) ", rest)
            source, target = rest.split()[-2:]
            stages[-1].copies.append((origin[1] if origin else "", source, target))
        elif word == "RUN":
            stages[-1].commands.append(rest)
        elif word == "ENTRYPOINT":
            runs = rest.strip('[]"')
        else:
            raise SystemExit(f"Dockerfile: the step {word} is unknown here")
    return stages, runs


def of_definition(text: str) -> tuple[list[Stage], str]:
    """The same of a definition of Apptainer."""
    stages: list[Stage] = []
    runs, section = "", ""
    for line in map(str.strip, text.splitlines()):
        key, _, rest = line.partition(": ")
        if not line or line.startswith("#") or key == "Bootstrap":
            continue
        if key == "From":
            stages.append(Stage(rest))
        elif key == "Stage":
            stages[-1].name = rest
        elif line.startswith("%"):
            section = line
        elif section.startswith("%files"):
            source, target = line.split()
            stages[-1].copies.append((section.removeprefix("%files").removeprefix(" from "), source, target))
        elif section == "%post":
            stages[-1].commands.append(line)
        elif section == "%runscript":
            runs = line.removeprefix("exec ").removesuffix(' "$@"')
        else:
            raise SystemExit(f"voxalign.def: the line '{line}' is unknown here")
    return stages, runs


def steps() -> tuple[list[Stage], str]:
    """The steps of both recipes, which have to be the same."""
    stages, runs = of_dockerfile((RECIPES / "Dockerfile").read_text())
    others, also = of_definition((RECIPES / "voxalign.def").read_text())
    # The last stage needs no name where nothing is copied from it.
    stages[-1].name = others[-1].name
    if (stages, runs) != (others, also):
        raise SystemExit(f"the recipes differ:\n{stages} {runs}\n{others} {also}")
    return stages, runs


def sysroot() -> str:
    """The folder of this machine's Rust."""
    done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True, cwd=SOURCE)
    return done.stdout.strip()


def within(root: Path, command: str, **variables: str) -> None:
    """Runs a command in the root of a stage, with this machine's Rust where that is an image with Rust."""
    mounts = [("/proc", "proc")]
    if (root / "rust").exists():
        # What has been fetched is not fetched again.
        fetched = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry"
        mounts += [(sysroot(), "rust"), (str(fetched), "root/.cargo/registry")]
    lines = [f"mkdir -p '{root / target}' && mount --rbind '{source}' '{root / target}'" for source, target in mounts]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"} | variables
    names = " ".join(f"{name}='{value}'" for name, value in environment.items())
    script = " && ".join([*lines, f"exec chroot '{root}' env -i {names} sh -ec '{command}'"])
    print(f"{root.name}: {command}", flush=True)
    subprocess.run(["unshare", "--mount", "sh", "-ec", script], check=True)


def copy(source: Path, target: Path) -> None:
    """As both engines do it: what is in a folder goes into the other."""
    ignored = shutil.ignore_patterns(*(RECIPES / "Dockerfile.dockerignore").read_text().split())
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignored if source == SOURCE else None)


def run(stages: list[Stage], runs: str, folder: Path) -> None:
    roots: dict[str, Path] = {}
    for stage in stages:
        root = roots[stage.name] = folder / stage.name
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root)], check=True, stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        if stage.image.startswith("rust:"):
            (root / "rust").mkdir()
            path = f"/rust/bin:{path}"
        for origin, source, target in stage.copies:
            copy(roots[origin] / source.lstrip("/") if origin else SOURCE / source, root / target.lstrip("/"))
        for command in stage.commands:
            within(root, command, PATH=path)
    within(root, f"cd /tmp && {runs} demo -o out && test -s out/result.json && {runs} devices")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-compare", action="store_true")
    arguments = parser.parse_args()
    stages, runs = steps()
    print(f"the recipes have the same {sum(len(s.copies) + len(s.commands) for s in stages)} steps")
    if arguments.only_compare:
        return
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("running the steps takes root and debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        run(stages, runs, Path(folder))


if __name__ == "__main__":
    main()
