"""The examples are those of Rust, one a job, and have the bits of the program."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE, blobs

import voxalign as vx

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = Path(__file__).parent.parent / "examples"

#: What Rust has in memory and Python through files alone.
OF_RUST = {"memory_mesh", "memory_pose"}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # One device for both: the environment names it for jobs that name none.
    monkeypatch.setenv("VOXALIGN_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Label maps of the pair."""
    folder = tmp_path_factory.mktemp("labels")
    paths = [folder / "a.nii.gz", folder / "b.nii.gz"]
    for path, shift in zip(paths, (0.0, 2.0)):
        values = (blobs((26, 24, 20), shift) > 40).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(values, OBLIQUE), path)
    return paths


def same(a: Path, b: Path, good: bool | None = None) -> None:
    """The same files with the same bytes but for times, and the verdict that was told."""
    names = sorted(str(p.relative_to(a)) for p in a.rglob("*"))
    assert names and names == sorted(str(p.relative_to(b)) for p in b.rglob("*"))
    for name in names:
        if (a / name).is_file() and not name.endswith(("result.json", ".html")):
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
    records = [json.loads((folder / "result.json").read_text()) for folder in (a, b)]
    for part in ("figures", "curves", "stable_from"):
        assert records[0].get(part) == records[1].get(part)
    assert records[0]["verdict"]["good"] is records[1]["verdict"]["good"]
    assert good is None or records[0]["verdict"]["good"] is good


def test_there_is_one_for_each_of_rust() -> None:
    of_rust = {p.stem for p in (ROOT / "crates/voxalign/examples").glob("*.rs")}
    assert {p.stem for p in EXAMPLES.glob("*.py")} == of_rust - OF_RUST and of_rust >= OF_RUST


def test_the_page_of_three_languages_has_them_all() -> None:
    page = (ROOT / "docs/languages.md").read_text()
    linked = set(re.findall(r"\]\(\.\./((?:python|crates)/[^)]+)\)", page))
    files = [*EXAMPLES.glob("*.py"), *(ROOT / "crates/voxalign/examples").glob("*.rs")]
    assert linked == {str(p.relative_to(ROOT)) for p in files}


@pytest.mark.parametrize("name", ["affine", "deform", "elastic"])
def test_pairs(name: str, pair: tuple[Path, Path], run: Any) -> None:
    more: dict[str, dict[str, Any]] = {
        "affine": {},
        "deform": {"schedule": "2x6", "solver": "fft", "report": False},
        "elastic": {"schedule": "2x6", "mesh_spacing": 30, "report": False},
    }
    own = {"deform": ["--model", "symmetric"], "elastic": ["--young", "2000"]}.get(name, [])
    options = [f"--{k.replace('_', '-')}={v}" for k, v in more[name].items() if k != "report"]
    switches = ["--no-report"] if "report" in more[name] else []
    good = example(name).register(*map(str, pair), "python", **more[name])
    run(name, *pair, "-o", "program", *own, *options, *switches)
    same(Path("python"), Path("program"), good)


def test_memory(pair: tuple[Path, Path], run: Any) -> None:
    run("affine", *pair, "-o", "program")
    affine, warped = example("memory").align(*map(nibabel.load, pair))
    np.testing.assert_array_equal(affine, vx.read_transform("program/affine.tfm").affine)
    np.testing.assert_array_equal(warped.numpy(), vx.read("program/warped.nii.gz").numpy())


def test_anatomies(labels: list[Path], run: Any) -> None:
    for side, path in zip("ab", labels):
        run("surface", path, "--label", "1", "-o", f"{side}.gii")
        Path(f"{side}.toml").write_text(
            f"[[probability]]\nname = 'part'\nlabels = '{path}'\nlabel = 1\nsigma = 3\n"
            f"[[surface]]\nname = 'hull'\nmesh = '{side}.gii'\nwidth = 8\nweight = 0.01\n"
        )
    good = example("anatomy").register("a.toml", "b.toml", "python", schedule="4x6", solver="fft", report=False)
    run("anatomy", "a.toml", "b.toml", "-o", "program", "--schedule", "4x6", "--solver", "fft", "--no-report")
    same(Path("python"), Path("program"), good)


def test_x_rays(run: Any) -> None:
    values = np.where(blobs((40, 36, 30)) > 15, 300.0, -1000.0).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([4.0, 4.0, 4.0, 1.0])), "ct.nii.gz")
    most = example("drr").simulate("ct.nii.gz", "python")
    assert len(most) == 2 and min(most) > 1
    run("drr", "ct.nii.gz", "--view", "ap,lateral", "-o", "program")
    same(Path("python"), Path("program"))
    images = ["python/ap.png", "python/lateral.png"]
    good = example("pose").find("ct.nii.gz", "python/views.toml", images, "pose")
    run("pose", "ct.nii.gz", *images, "--geometry", "python/views.toml", "-o", "of_program")
    same(Path("pose"), Path("of_program"), good)


def test_many_images(pair: tuple[Path, Path], run: Any) -> None:
    good = example("atlas").build(list(map(str, pair)), "python", 8.0, "2x3")
    run("atlas", *pair, "--spacing", "8", "--schedule", "2x3", "-o", "program")
    same(Path("python"), Path("program"), good)
    assert example("stack").mean([str(pair[0])] * 2, "a.nii.gz") >= 0
    run("stack", "mean", pair[0], pair[0], "-o", "b.nii.gz")
    assert Path("a.nii.gz").read_bytes() == Path("b.nii.gz").read_bytes()


def test_along_a_covariate(pair: tuple[Path, Path], run: Any) -> None:
    Path("list.csv").write_text(f"path,age\n{pair[0]},60\n{pair[1]},70\n")
    how = {"list": "list.csv", "align": "none", "spacing": 8, "schedule": "2x2"}
    typed = [word for name, value in how.items() for word in (f"--{name}", value)]
    good = example("regress").run(**how, output="a", regress="age", at=[62, 68], bandwidth=5)
    run("atlas", *typed, "-o", "a2", "--regress", "age", "--at", "62,68", "--bandwidth", "5")
    same(Path("a"), Path("a2"), good)
    good = example("regress").run(**how, output="s", stability="2", cohorts=1)
    run("atlas", *typed, "-o", "s2", "--stability", "2", "--cohorts", "1")
    same(Path("s"), Path("s2"), good)


def test_surfaces_and_regions(labels: list[Path], pair: tuple[Path, Path], run: Any) -> None:
    good = example("surface").make(str(labels[0]), 1, "a.gii")
    run("surface", labels[0], "--label", "1", "--triangles", "2000", "-o", "b.gii")
    assert Path("a.gii").read_bytes() == Path("b.gii").read_bytes() and good in (True, False)
    good, volume = example("segment").file(str(pair[0]), "python")
    typed = "--force geodesic-regions --classes 4 --object-classes 3,4 --smallest-island 100"
    run("segment", pair[0], *typed.split(), "-o", "program")
    same(Path("python"), Path("program"), good)
    assert volume > 0


def test_points_and_meshes(labels: list[Path], pair: tuple[Path, Path], run: Any) -> None:
    run("deform", *pair, "-o", "found", "--schedule", "4x4", "--no-report")
    chain = ["found/warp.nii.gz", "found/affine.tfm"]
    run("surface", labels[1], "--label", "1", "-o", "hull.gii")
    Path("p.csv").write_text("x,y,z,name\n1,2,3,a\n")
    for name, suffix in (("hull.gii", "ply"), ("p.csv", "csv")):
        count = example("carry").to_fixed(name, f"a.{suffix}", chain)
        assert count > 100 or suffix == "csv" and count == 1
        run("apply", "-i", name, "-t", chain[0], "-t", chain[1], "-o", f"b.{suffix}")
        assert Path(f"a.{suffix}").read_bytes() == Path(f"b.{suffix}").read_bytes()


def test_they_have_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # Each alone, as scripts are.
    for path in sorted(EXAMPLES.glob("*.py")):
        assert '__name__ == "__main__"' in path.read_text()
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--scripts-are-modules"]
    done = subprocess.run(
        [*command, *map(str, sorted(EXAMPLES.glob("*.py")))], cwd=EXAMPLES.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
