"""What a job would do, and on how many devices."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import blobs

import voxalign as vx


def test_a_dry_run_is_that_of_the_program(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    for name, options in (("affine", {"report": False}), ("deform", {"outputs": "warp,affine"}), ("elastic", {})):
        words = [word for key, value in options.items() if key != "report" for word in (f"--{key}", value)]
        words += ["--no-report"] if "report" in options else []
        theirs = json.loads(run(name, *pair, "-o", tmp_path / "out", "--dry-run", "--json", *words).stdout)
        mine = getattr(vx, name)(*pair, output=tmp_path / "out", dry_run=True, **options)
        # What is free changes.
        assert {**mine, "free_bytes": 0} == {**theirs, "free_bytes": 0}
        assert mine["memory_bytes"] > 0 and not (tmp_path / "out").exists()
    plan = vx.segment(pair[0], output=tmp_path / "out", dry_run=True)
    assert str(tmp_path / "out/labels.nii.gz") in plan["writes"]


def test_a_dry_run_checks(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(vx.OptionError, match="`dry_run` is for inputs that are files"):
        vx.affine(vx.read(pair[0]), vx.read(pair[1]), output=tmp_path / "out", dry_run=True)
    with pytest.raises(vx.OptionError, match="`bins` is for"):
        vx.affine(*pair, output=tmp_path / "out", cost="ncc", bins=8, dry_run=True)
    with pytest.raises(vx.VoxalignError, match="missing"):
        vx.affine(*pair, dry_run=True)
    with pytest.raises(vx.InputError, match="no.nii"):
        vx.affine(tmp_path / "no.nii", pair[1], output=tmp_path / "out", dry_run=True)


def test_an_atlas_on_all_devices(tmp_path: Path, run) -> None:
    paths = [tmp_path / f"s{i}.nii.gz" for i in range(3)]
    for i, path in enumerate(paths):
        nibabel.save(nibabel.Nifti1Image(blobs((20, 18, 16), i / 2), np.diag([2.0, 2, 2, 1])), path)
    run("atlas", *paths, "-o", tmp_path / "program", "--device", "cpu", "--threads", 2, "--rounds", 1, "--schedule", "2x4")
    options = {"device": "cpu", "threads": 2, "rounds": 1, "schedule": "2x4"}
    result = vx.atlas(paths, output=tmp_path / "python", **options)
    theirs = (tmp_path / "program/atlas.nii.gz").read_bytes()
    assert (tmp_path / "python/atlas.nii.gz").read_bytes() == theirs
    assert result.record["program"] == "voxalign.atlas"
    with pytest.raises(vx.DeviceError, match="`gpus` is for GPUs"):
        vx.atlas(paths, output=tmp_path / "more", gpus=2, **options)
    assert not (tmp_path / "more").exists()


def test_a_registration_of_spread_images(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(vx.DeviceError, match="`gpus` is for GPUs"):
        vx.affine(*pair, output=tmp_path / "out", distributed="auto", gpus=2, device="cpu")
    with pytest.raises(vx.OptionError, match="`gpus` is for"):
        vx.affine(*pair, output=tmp_path / "out", gpus=2, device="cpu")


def test_options_of_a_file(pair: tuple[Path, Path], tmp_path: Path, run) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        f"fixed = '{pair[0]}'\nmoving = '{pair[1]}'\ndof = 6\nsearch = 'local'\nreport = false\n"
        "device = 'cpu'\nthreads = 2\nquiet = true\nlevels = [8, 4]\n"
    )
    run("affine", "--config", file, "-o", tmp_path / "program", "--dof", "12")
    result = vx.affine(config=file, output=tmp_path / "python", dof=12)
    for name in ("affine.tfm", "warped.nii.gz"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
    roles = [one["role"] for one in result.record["inputs"]]
    theirs = json.loads((tmp_path / "program/result.json").read_text())
    assert roles == [one["role"] for one in theirs["inputs"]] and "config" in roles
    assert result.record["parameters"]["dof"] == 12 and "report" not in result.outputs
    # What is in memory takes precedence as well.
    held = vx.affine(vx.read(pair[0]), vx.read(pair[1]), config=file, dof=12)
    np.testing.assert_array_equal(held.transform.affine, result.transform.affine)


def test_a_bad_file_of_options(pair: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "job.toml"

    def refused(text: str, **options: object) -> str:
        file.write_text(text)
        with pytest.raises(vx.OptionError) as said:
            vx.affine(*pair, output=tmp_path / "out", config=file, **options)
        return str(said.value)

    assert "job.toml" in refused("doff = 6\n") and "did you mean `dof`?" in refused("doff = 6\n")
    assert "line 2" in refused("dof = 6\ndof = \n")
    assert "given twice" in refused("fixed_mask = 'a'\nfixed-mask = 'b'\n")
    assert "`dof`" in refused("dof = 'six'\n")
    with pytest.raises(vx.InputError, match="no.toml"):
        vx.affine(*pair, output=tmp_path / "out", config=tmp_path / "no.toml")
    assert not (tmp_path / "out").exists()
    file.write_text("landmarks = ['a.csv', 'b.csv']\n")
    with pytest.raises(vx.OptionError, match="has no argument `landmarks`"):
        vx.affine(*pair, output=tmp_path / "out", config=file)
