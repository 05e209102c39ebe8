"""The script of the package is the program: its exit codes, what it prints, and the bits of its files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE

#: The script without its installation.
SCRIPT = [sys.executable, "-P", "-m", "voxalign"]
FOLDER = Path(__file__).parent.parent
DATA = FOLDER.parent / "data"


def call(program: list[str], arguments: tuple[object, ...], folder: Path, **how) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    command = [*program, *map(str, arguments)]
    how = {"capture_output": True} | how
    return subprocess.run(command, cwd=folder, env=environment, timeout=300, check=False, **how)


def said(text: bytes) -> str:
    """What was printed, without times."""
    return re.sub(r"\d+(\.\d+)? (ms|s|MiB|GiB)\b|(?m: +\d+\.\d\d$)", "...", text.decode())


def left(folder: Path) -> dict[str, object]:
    """The files that a run left, without what differs from run to run."""
    found: dict[str, object] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.name == "result.json":
            record = json.loads(path.read_text())
            command = record.pop("command")
            assert Path(command[0]).name == "voxalign"
            for varies in ("date", "timings", "peak_memory_bytes"):
                record.pop(varies, None)
            # Their hashes are those of a report that has times.
            record["outputs"] = [o["path"] for o in record["outputs"]]
            found[name] = json.loads(re.sub(r'"(\w*seconds)": [\d.e-]+', r'"\1": 0', json.dumps(record))), command[1:]
        else:
            found[name] = None if path.suffix == ".html" else path.read_bytes()
    return found


@pytest.fixture(scope="module")
def inputs(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    noise = tmp_path_factory.mktemp("noise") / "noise.nii.gz"
    values = np.random.default_rng(3).normal(size=(26, 24, 20)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, OBLIQUE), noise)
    return {"fixed": pair[0], "moving": pair[1], "noise": noise}


AFFINE = ["-o", "out", "--dof", "6", "--search", "local", "--device", "cpu", "--threads", "2"]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, "--help"),
        (0, "--version"),
        (0, "deform --help"),
        (0, "completions bash"),
        (0, "info {fixed}"),
        (0, "info {fixed} --json"),
        (0, "affine {fixed} {moving} AFFINE"),
        (1, "affine {fixed} {noise} AFFINE"),
        (0, "affine {fixed} {moving} AFFINE --json --quiet"),
        (1, "segment {fixed} -o out"),
        (0, "convert {fixed} out.mha --data-type i16"),
        (2, ""),
        (2, "nothing"),
        (2, "affine {fixed}"),
        (2, "affine {fixed} {moving} -o out --dof six"),
        (2, "affine {fixed} nowhere.nii.gz -o out"),
        (2, "affine {fixed} {moving} AFFINE --bins 3 --cost cr"),
    ],
)
def test_both_are_one_program(
    code: int, arguments: str, inputs: dict[str, Path], program: str, tmp_path: Path
) -> None:
    words = [inputs.get(word.strip("{}"), word) for word in arguments.split()]
    words = [word for part in words for word in (AFFINE if part == "AFFINE" else [part])]
    ends = []
    for name, caller in (("program", [program]), ("script", SCRIPT)):
        (tmp_path / name).mkdir()
        done = call(caller, tuple(words), tmp_path / name)
        printed = said(done.stdout)
        if "--json" in words and code == 0 and "affine" in arguments:
            printed = ""
            json.loads(done.stdout)
        ends.append((done.returncode, printed, said(done.stderr), left(tmp_path / name)))
    assert ends[0][0] == code, ends[0]
    assert ends[0] == ends[1]


def test_names_that_are_no_text(inputs: dict[str, Path], tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.nii.gz"
    Path(os.fsdecode(name)).write_bytes(inputs["fixed"].read_bytes())
    done = call(SCRIPT, ("info", os.fsdecode(name)), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_standard_output_that_is_full_or_closed(inputs: dict[str, Path], program: str, tmp_path: Path) -> None:
    for caller in ([program], SCRIPT):
        with open("/dev/full", "wb") as full:
            done = call(caller, ("info", inputs["fixed"]), tmp_path, capture_output=False, stdout=full, stderr=-1)
        assert done.returncode == 4 and b"cannot write to standard output" in done.stderr
        reader, writer = os.pipe()
        os.close(reader)
        done = call(caller, ("man", "-o", "man"), tmp_path, capture_output=False, stdout=writer, stderr=-1)
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")
        words = " ".join([*caller, "convert", str(inputs["fixed"]), "a.mha", ">&-"])
        done = call(["sh", "-c", words], (), tmp_path)
        assert done.returncode == 0
    images = [path.read_bytes() for path in tmp_path.glob("a.mha")]
    assert len(images) == 1 and images[0].startswith(b"ObjectType = Image")


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it(which: signal.Signals, tmp_path: Path) -> None:
    images = DATA / "icbm152_t1.nii.gz", DATA / "colin27_t1.nii.gz"
    words = [*SCRIPT, "deform", *map(str, images), "-o", "out", "--device", "cpu", "-v"]
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(which)
        since = time.monotonic()
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130, first + rest
    assert time.monotonic() - since < 20
    assert rest.decode().splitlines()[-1] == "voxalign: error: stopped; nothing was written"
    assert list(tmp_path.iterdir()) == []
