"""Names and sidecars of BIDS derivatives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
    written = put(tmp_path / "elsewhere", tmp_path / "d", subject="1", session="b", suffix="T2w", entities={"acq": "low"})
    assert written["transform"].name == "sub-1_ses-b_acq-low_from-T2w_to-MNI152Lin_mode-image_xfm.txt"
    there, back = (vx.read_transform(written[name]) for name in ("transform", "inverse_transform"))
    np.testing.assert_allclose(back(there(POINTS)), POINTS, atol=1e-6)
    # Once more, into the same data set.
    assert put(tmp_path / "elsewhere", tmp_path / "d", subject="2", suffix="bold")["report"].parent.name == "func"


def test_the_validator_accepts_it(deformed: vx.Result, tmp_path: Path) -> None:
    validator = Path(sys.executable).with_name("bids-validator-deno")
    if not validator.exists():
        pytest.skip("skipped: the package bids-validator-deno is not there")
    put(deformed, tmp_path / "d")

    def errors() -> list[str]:
        command = [validator, "--json", tmp_path / "d"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        issues = json.loads(done.stdout)["issues"]["issues"]
        return [issue["code"] for issue in issues if issue.get("severity") == "error"]

    assert errors() == []
    (tmp_path / "d/.bidsignore").unlink()
    assert set(errors()) == {"NOT_INCLUDED"}


def test_what_is_refused(scan: tuple[Path, Path], deformed: vx.Result, tmp_path: Path) -> None:
    with pytest.raises(vx.OptionError, match="letters and digits only"):
        put(deformed, tmp_path / "d", space="MNI_152")
    with pytest.raises(vx.OptionError, match="`skull_stripped` is missing"):
        put(deformed, tmp_path / "d", skull_stripped=None)
    with pytest.raises(vx.OptionError, match="`entities` has 'colour'"):
        put(deformed, tmp_path / "d", entities={"colour": "red"})
    with pytest.raises(vx.InputError, match="give the folder of a registration"):
        put(tmp_path, tmp_path / "d")
    segmented = vx.segment(scan[0], report=False)
    with pytest.raises(vx.InputError, match="no result of a registration"):
        put(segmented, tmp_path / "d")
    assert not (tmp_path / "d").exists()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/dataset_description.json").write_text('{"DatasetType": "raw"}')
    with pytest.raises(vx.InputError, match="no data set of derivatives"):
        put(deformed, tmp_path / "raw")
    assert len(list((tmp_path / "raw").iterdir())) == 1


def test_a_bad_result(scan: tuple[Path, Path], tmp_path: Path) -> None:
    result = vx.affine(scan[0], scan[1], search="none", init="identity", device="cpu", threads=2)
    assert not result.verdict
    with pytest.raises(vx.VoxalignError, match="`accept_bad=True`"):
        put(result, tmp_path / "d", accept_bad=False)
    written = put(result, tmp_path / "d")
    sidecar = written["transform"].with_suffix(".json")
    assert json.loads(sidecar.read_text())["Verdict"]["Good"] is False
