"""Results are those of the program, to the bit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, blobs

import voxalign as vx

#: What differs from run to run, and who runs it.
OF_A_RUN = ("program", "command", "date", "host", "timings", "peak_memory_bytes", "outputs", "inputs")

QUICK = {"dof": 6, "search": "local", "device": "cpu", "threads": 2}
BODY = {"schedule": "4x3", "device": "cpu", "threads": 2}
FAST = {"schedule": "2x10,1x5", "device": "cpu", "threads": 2}

OPTIONS = {"affine": QUICK, "deform": FAST, "elastic": BODY}


def typed(options: dict[str, object]) -> list[str]:
    """Keyword arguments at the command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def untimed(value: object) -> object:
    """The same without times, and with the words of neither."""
    if isinstance(value, dict):
        return {name: untimed(v) for name, v in value.items() if "seconds" not in name}
    if isinstance(value, str):
        # Each says options in its words.
        return re.sub(r"--([a-z-]+)", lambda option: option[1].replace("-", "_"), value).replace("`", "")
    return [untimed(v) for v in value] if isinstance(value, list) else value


def record(folder: Path) -> dict[str, object]:
    whole = json.loads((folder / "result.json").read_text())
    # What is odd about a file is not known of an image that another package has read.
    remarks = whole["verdict"].get("remarks", [])
    whole["verdict"]["remarks"] = [r for r in remarks if not r.startswith("the file of the")]
    return {name: untimed(value) for name, value in whole.items() if name not in OF_A_RUN}


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix not in (".json", ".html")}


@pytest.mark.parametrize("name", OPTIONS)
def test_from_files(name: str, pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    options = OPTIONS[name]
    run(name, *pair, "-o", tmp_path / "program", *typed(options))
    result = getattr(vx, name)(*pair, output=tmp_path / "python", **options)
    assert result.folder == tmp_path / "python"
    assert record(tmp_path / "python") == record(tmp_path / "program")
    assert files(tmp_path / "python") == files(tmp_path / "program")
    assert result.record == json.loads((tmp_path / "python/result.json").read_text())
    assert bool(result.verdict) is result.record["verdict"]["good"]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("held", ["voxalign", "nibabel", "mixed"])
def test_from_memory(name: str, held: str, pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    options = OPTIONS[name]
    run(name, *pair, "-o", tmp_path / "program", *typed(options))
    read = {"voxalign": vx.read, "nibabel": nibabel.load, "mixed": vx.read}[held]
    images = [read(pair[0]), pair[1] if held == "mixed" else read(pair[1])]
    result = getattr(vx, name)(*images, output=tmp_path / "python", **options)
    assert files(tmp_path / "python") == files(tmp_path / "program")
    mine, theirs = record(tmp_path / "python"), record(tmp_path / "program")
    # Images in memory have no paths.
    mine["parameters"].pop("channels", None)
    theirs["parameters"].pop("channels", None)
    assert mine == theirs
    assert result.outputs["transform"] == tmp_path / "python/affine.tfm"


def test_of_the_plane(plane: tuple[Path, Path], tmp_path: Path, run) -> None:
    options = {"dof": 3, "device": "cpu"}
    run("affine", *plane, "-o", tmp_path / "program", *typed(options))
    images = [SimpleITK.ReadImage(str(path)) for path in plane]
    result = vx.affine(*images, output=tmp_path / "python", **options)
    assert files(tmp_path / "python") == files(tmp_path / "program")
    assert result.warped.ndim == 2


def test_masks_and_labels_in_memory(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    mask = nibabel.Nifti1Image((blobs((26, 24, 20)) > 2).astype(np.uint8), OBLIQUE)
    labels = [
        nibabel.Nifti1Image((blobs((26, 24, 20), shift) // 40).astype(np.int16), OBLIQUE) for shift in (0.0, 2.0)
    ]
    names = {"fixed_mask": mask, "fixed_labels": labels[0], "moving_labels": labels[1]}
    paths = {}
    for name, image in names.items():
        paths[name] = tmp_path / f"{name}.nii"
        nibabel.save(image, paths[name])
    run("affine", *pair, "-o", tmp_path / "program", *typed(QUICK), *typed(paths))
    result = vx.affine(*map(vx.read, pair), output=tmp_path / "python", **QUICK, **names)
    assert files(tmp_path / "python") == files(tmp_path / "program")
    assert record(tmp_path / "python") == record(tmp_path / "program")
    assert "label_overlap_after" in result.scores


def test_apply(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    found = vx.affine(*pair, **QUICK)
    transform = tmp_path / "a.tfm"
    found.transform.save(transform)
    out = tmp_path / "program.nii.gz"
    run("apply", "-i", pair[1], "-r", pair[0], "-t", transform, "-o", out, "--interpolation", "cubic")
    theirs = vx.read(out).numpy()
    fixed, moving = map(vx.read, pair)
    held = vx.apply(moving, reference=fixed, transform=found.transform, interpolation="cubic")
    np.testing.assert_array_equal(held.numpy(), theirs)
    of_files = vx.apply(pair[1], reference=pair[0], transform=[transform], interpolation="cubic")
    np.testing.assert_array_equal(of_files.numpy(), theirs)
    done = vx.apply(
        pair[1], reference=pair[0], transform=transform, interpolation="cubic", output=tmp_path / "python.nii.gz"
    )
    assert done["met"] and (tmp_path / "python.nii.gz").read_bytes() == out.read_bytes()


def test_invert_and_compose(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    found = vx.deform(*pair, output=tmp_path / "out", **FAST)
    warp, affine = tmp_path / "out/warp.nii.gz", tmp_path / "out/affine.tfm"
    run("invert", "-t", warp, "-o", tmp_path / "i.nii.gz")
    vx.invert(warp).save(tmp_path / "j.nii.gz")
    assert (tmp_path / "i.nii.gz").read_bytes() == (tmp_path / "j.nii.gz").read_bytes()
    exact = vx.invert(warp, output=tmp_path / "k.nii.gz")
    assert exact["fields"][0]["good"]
    run("compose", "-t", warp, "-t", affine, "-o", tmp_path / "c.nii.gz")
    vx.compose([warp, affine]).save(tmp_path / "d.nii.gz")
    assert (tmp_path / "c.nii.gz").read_bytes() == (tmp_path / "d.nii.gz").read_bytes()
    held = vx.compose([vx.read_transform(warp), affine])
    points = [[1.0, 2.0, 3.0], [-5.0, 0.0, 20.0]]
    np.testing.assert_array_equal(held(points), found.transform(points))
    turned = vx.read_transform(affine) @ vx.read_transform(warp)
    np.testing.assert_array_equal(turned(points), found.transform(points))


def test_compare_and_info(pair: tuple[Path, Path], run) -> None:
    theirs = json.loads(run("compare", *pair, "--json").stdout)
    assert vx.compare(*pair) == theirs
    assert vx.compare(*map(nibabel.load, pair)) == theirs
    theirs = json.loads(run("info", pair[0], "--json").stdout)
    assert vx.info([pair[0]]) == [theirs] and vx.info(pair[0]) == [theirs]


def test_convert(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    run("convert", pair[0], tmp_path / "a.mha", "--data-type", "i16")
    with pytest.warns(vx.VoxalignWarning, match="rounded"):
        done = vx.convert(pair[0], tmp_path / "b.mha", data_type="i16")
    assert done["rounded"] > 0
    assert (tmp_path / "a.mha").read_bytes() == (tmp_path / "b.mha").read_bytes()


def test_jobs_of_files(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    run("segment", pair[0], "-o", tmp_path / "program", "--no-report")
    result = vx.segment(pair[0], output=tmp_path / "python", report=False)
    assert files(tmp_path / "python").keys() == files(tmp_path / "program").keys()
    assert (tmp_path / "python/labels.nii.gz").read_bytes() == (tmp_path / "program/labels.nii.gz").read_bytes()
    assert "labels" in result.outputs and "report" not in result.outputs
    run("stack", "mean", *pair, "-o", tmp_path / "a.nii.gz")
    vx.stack("mean", pair, output=tmp_path / "b.nii.gz")
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()
