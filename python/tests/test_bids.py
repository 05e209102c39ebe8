"""Names and sidecars of BIDS derivatives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import refused

import voxalign as vx

FAST = {"schedule": "2x10,1x5", "device": "cpu", "threads": 2, "outputs": "all"}
POINTS = np.array([[1.0, 2.0, 3.0], [-5.0, 0.0, 20.0]])
SCAN = "sub-07_ses-two_acq-high_T1w.nii.gz"


@pytest.fixture(scope="module")
def scan(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The pair, whose moving image has a BIDS name."""
    path = tmp_path_factory.mktemp("raw") / SCAN
    shutil.copy(pair[1], path)
    return pair[0], path


@pytest.fixture(scope="module")
def deformed(scan: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> vx.Result:
    return vx.deform(*scan, output=tmp_path_factory.mktemp("deformed") / "out", **FAST)


def put(result: object, output: Path, **options: object) -> dict[str, Path]:
    return vx.bids(result, output, **{"space": "MNI152Lin", "skull_stripped": False, "accept_bad": True, **options})


def test_names_and_contents(deformed: vx.Result, tmp_path: Path) -> None:
    written = put(deformed, tmp_path / "d")
    folder, stem = tmp_path / "d/sub-07/ses-two/anat", "sub-07_ses-two_acq-high"
    assert written == {
        "resampled": folder / f"{stem}_space-MNI152Lin_desc-preproc_T1w.nii.gz",
        "jacobian": folder / f"{stem}_space-MNI152Lin_desc-jacobian_T1w.nii.gz",
        "transform": folder / f"{stem}_from-T1w_to-MNI152Lin_mode-image_xfm.h5",
        "inverse_transform": folder / f"{stem}_from-MNI152Lin_to-T1w_mode-image_xfm.h5",
        "report": folder / f"{stem}_space-MNI152Lin_report.html",
    }
    assert written["resampled"].read_bytes() == deformed.outputs["resampled"].read_bytes()
    there, back = (vx.read_transform(written[name]) for name in ("transform", "inverse_transform"))
    np.testing.assert_allclose(there(POINTS), deformed.transform(POINTS), atol=1e-4)
    np.testing.assert_allclose(back(there(POINTS)), POINTS, atol=0.1)
    said = json.loads((folder / f"{stem}_space-MNI152Lin_desc-preproc_T1w.json").read_text())
    assert said["SpatialReference"].endswith("fixed.nii.gz") and said["RegistrationMethod"] == "voxalign.deform"
    assert said["Verdict"]["Good"] is bool(deformed.verdict) and said["SkullStripped"] is False
    # One sidecar for each image and transform, and nothing that was on its way.
    assert len(list(folder.iterdir())) == 5 + 4
    description = json.loads((tmp_path / "d/dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative" and description["GeneratedBy"][0]["Version"] == vx.__version__


def test_of_a_folder_that_has_moved(scan: tuple[Path, Path], tmp_path: Path) -> None:
    vx.affine(*scan, output=tmp_path / "out", dof=6, search="local", device="cpu", threads=2)
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    written = put(tmp_path / "elsewhere", tmp_path / "d", name="sub-07_ses-b_acq-low_T2w")
    assert written["transform"].name == "sub-07_ses-b_acq-low_from-T2w_to-MNI152Lin_mode-image_xfm.txt"
    there, back = (vx.read_transform(written[name]) for name in ("transform", "inverse_transform"))
    np.testing.assert_allclose(back(there(POINTS)), POINTS, atol=1e-6)
    # Once more, into the same data set.
    assert put(tmp_path / "elsewhere", tmp_path / "d", name="sub-07_task-rest_bold")["report"].parent.name == "func"


@pytest.fixture(scope="module")
def errors() -> Callable[[Path], list[str]]:
    """What the validator calls errors."""
    validator = Path(sys.executable).with_name("bids-validator-deno")
    if not validator.exists():
        pytest.skip("skipped: the package bids-validator-deno is not there")

    def errors(folder: Path) -> list[str]:
        command = [validator, "--json", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        issues = json.loads(done.stdout)["issues"]["issues"]
        return [issue["code"] for issue in issues if issue.get("severity") == "error"]

    return errors


def test_the_validator_accepts_it(deformed: vx.Result, errors: Callable[[Path], list[str]], tmp_path: Path) -> None:
    put(deformed, tmp_path / "d")
    assert errors(tmp_path / "d") == []
    (tmp_path / "d/.bidsignore").unlink()
    assert set(errors(tmp_path / "d")) == {"NOT_INCLUDED"}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("job", ["affine", "deform", "elastic"])
def test_the_program_puts_the_same_there(
    job: str, scan: tuple[Path, Path], errors: Callable[[Path], list[str]], run, tmp_path: Path
) -> None:
    """By the option of the program, by that of the function, and by `vx.bids` of what the program left."""
    fixed = tmp_path / "tpl-MNI152Lin_T1w.nii.gz"
    shutil.copy(scan[0], fixed)
    quick = {"affine": {"search": "local"}, "deform": {"schedule": "2x5"}, "elastic": {"schedule": "2x3", "mesh_spacing": 20}}[job]
    options = {"bids_skull_stripped": "no", "bids_accept_bad": True, "device": "cpu", "threads": 2, **quick}
    words = [
        word for name, value in options.items() for word in [f"--{name.replace('_', '-')}", str(value)] if word != "True"
    ]
    done = run(job, fixed, scan[1], "-o", tmp_path / "out", "--bids", tmp_path / "program", *words)
    assert f"files and their sidecars are in '{tmp_path / 'program'}'" in done.stdout + done.stderr
    found = everything(tmp_path / "program")
    assert "sub-07/ses-two/anat/sub-07_ses-two_acq-high_space-MNI152Lin_desc-preproc_T1w.nii.gz" in found
    assert errors(tmp_path / "program") == []
    vx.bids(tmp_path / "out", tmp_path / "after", skull_stripped=False, accept_bad=True)
    assert everything(tmp_path / "after") == found
    getattr(vx, job)(fixed, scan[1], bids=tmp_path / "function", **options)
    of_function = everything(tmp_path / "function")
    assert of_function.keys() == found.keys()
    # Sidecars say who did it; and the report, when.
    assert all(of_function[name] == found[name] for name in found if not name.endswith((".json", "report.html")))


def test_what_is_refused(scan: tuple[Path, Path], deformed: vx.Result, tmp_path: Path) -> None:
    with refused(vx.OptionError, "`space` is 'MNI_152'", "letters and digits only"):
        put(deformed, tmp_path / "d", space="MNI_152")
    with refused(vx.OptionError, "`skull_stripped` is missing"):
        put(deformed, tmp_path / "d", skull_stripped=None)
    with refused(vx.OptionError, "`skull_stripped` is 'no'; give True or False"):
        put(deformed, tmp_path / "d", skull_stripped="no")
    with refused(vx.OptionError, "`space` is missing: the file of the fixed image has no BIDS name"):
        put(deformed, tmp_path / "d", space=None)
    with refused(vx.OptionError, "`name` is 'sub-07_colour-red_T1w'", "'colour' is no entity of a scan"):
        put(deformed, tmp_path / "d", name="sub-07_colour-red_T1w")
    with refused(vx.OptionError, "`name` is of subject 08, and '", "of 07"):
        put(deformed, tmp_path / "d", name="sub-08_T1w")
    with refused(vx.InputError, "give the folder of a registration"):
        put(tmp_path, tmp_path / "d")
    segmented = vx.segment(scan[0], report=False)
    with refused(vx.InputError, "no result of a registration"):
        put(segmented, tmp_path / "d")
    assert not (tmp_path / "d").exists()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/dataset_description.json").write_text('{"DatasetType": "raw"}')
    with refused(vx.InputError, "no data set of derivatives"):
        put(deformed, tmp_path / "raw")
    assert len(list((tmp_path / "raw").iterdir())) == 1
    put(deformed, tmp_path / "d")
    before = everything(tmp_path / "d")
    with refused(vx.InputError, "is there already; give `overwrite=True`, another `space`"):
        put(deformed, tmp_path / "d")
    put(deformed, tmp_path / "d", overwrite=True)
    assert everything(tmp_path / "d") == before


def test_jobs_refuse_it_before_they_begin(scan: tuple[Path, Path], pair: tuple[Path, Path], nothing_left: Path) -> None:
    fixed, moving = scan
    options = {"device": "cpu", "bids": "d", "bids_space": "MNI", "bids_skull_stripped": "no"}
    with refused(vx.OptionError, "`bids_space` is for `bids`; leave it out"):
        vx.affine(fixed, moving, bids_space="MNI")
    with refused(vx.OptionError, "`bids_name` is missing: '", "moving.nii.gz' has no name of BIDS"):
        vx.affine(*pair, **options)
    with refused(vx.OptionError, "`bids_name` is missing: the moving image is of no file"):
        vx.affine(fixed, vx.read(moving), **options)
    with refused(vx.OptionError, "`bids_desc` is 'a-b'"):
        vx.deform(fixed, moving, bids_desc="a-b", **options)
    with refused(vx.OptionError, "`bids` is for the result of one pair of volumes"):
        vx.elastic(fixed, moving, stream=[fixed], output="out", **options)
    with refused(vx.OptionError, "`bids` is for images that are registered as wholes"):
        vx.affine(fixed, moving, distributed="auto", **options)


def test_images_in_memory(scan: tuple[Path, Path], tmp_path: Path) -> None:
    options = {"search": "local", "device": "cpu", "threads": 2, "bids_skull_stripped": "yes", "bids_space": "T2w"}
    result = vx.affine(*map(vx.read, scan), bids=tmp_path / "d", bids_name="sub-1_T1w", **options)
    assert result.verdict
    sidecar = tmp_path / "d/sub-1/anat/sub-1_space-T2w_desc-preproc_T1w.json"
    said = json.loads(sidecar.read_text())
    assert said["SpatialReference"] == "n/a" and said["Sources"] == [] and said["SkullStripped"] is True
    plan = vx.affine(*scan, bids=tmp_path / "e", dry_run=True, output=tmp_path / "out", **options)
    assert str(tmp_path / "e/sub-07/ses-two/anat/sub-07_ses-two_acq-high_space-T2w_desc-preproc_T1w.json") in plan["writes"]
    assert not (tmp_path / "e").exists()


def test_a_bad_result(scan: tuple[Path, Path], tmp_path: Path) -> None:
    result = vx.affine(scan[0], scan[1], search="none", init="identity", device="cpu", threads=2)
    assert not result.verdict
    with pytest.raises(vx.VoxalignError, match="`accept_bad=True`"):
        put(result, tmp_path / "d", accept_bad=False)
    options = {"search": "none", "init": "identity", "device": "cpu", "threads": 2}
    into = {"bids": tmp_path / "d", "bids_space": "MNI152Lin", "bids_skull_stripped": "no"}
    with pytest.warns(vx.VoxalignWarning, match="the verdict is bad, and nothing was put into"):
        vx.affine(*scan, **options, **into)
    assert not (tmp_path / "d").exists()
    written = put(result, tmp_path / "d")
    sidecar = written["transform"].with_suffix(".json")
    assert json.loads(sidecar.read_text())["Verdict"]["Good"] is False
