#!/usr/bin/env python3
"""Checks the licences of all dependencies: each expression must be met by the list in deny.toml,
and each package must come from the package registry or from this repository.

    tools/check_licences.py            # exit code 0: all are; 1: names those that are not
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def met(expression, allowed):
    """Whether an SPDX expression can be met by the allowed licences."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def any_of(at):
        value, at = all_of(at)
        while at < len(tokens) and tokens[at] == "OR":
            other, at = all_of(at + 1)
            value = value or other
        return value, at

    def all_of(at):
        value, at = one(at)
        while at < len(tokens) and tokens[at] == "AND":
            other, at = one(at + 1)
            value = value and other
        return value, at

    def one(at):
        if tokens[at] == "(":
            value, at = any_of(at + 1)
            return value, at + 1
        name, at = tokens[at], at + 1
        if at + 1 < len(tokens) and tokens[at] == "WITH":
            name, at = f"{name} WITH {tokens[at + 1]}", at + 2
        return name in allowed, at

    value, at = any_of(0)
    if at != len(tokens):
        raise ValueError(f"not an SPDX expression: {expression}")
    return value


def self_test():
    allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
    for expression, expected in {
        "MIT": True,
        "GPL-3.0": False,
        "MIT/Apache-2.0": True,
        "GPL-3.0 OR MIT": True,
        "GPL-3.0 AND MIT": False,
        "(MIT OR GPL-3.0) AND Apache-2.0": True,
        "Apache-2.0 WITH LLVM-exception": True,
        "GPL-2.0 WITH Classpath-exception-2.0": False,
    }.items():
        assert met(expression, allowed) == expected, expression


def main():
    self_test()
    with open(ROOT / "deny.toml", "rb") as file:
        allowed = set(tomllib.load(file)["licenses"]["allow"])
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    bad = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        licence = package.get("license")
        source = package.get("source")
        if source is not None and not source.startswith(("registry+", "sparse+")):
            bad.append(f"{name}: comes from {source}")
        if not licence:
            bad.append(f"{name}: names no licence")
        elif not met(licence, allowed):
            bad.append(f"{name}: {licence}")
    for line in bad:
        print(line, file=sys.stderr)
    print(f"licences: {len(metadata['packages'])} packages checked, {len(bad)} not allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
