"""The Python code of the page for people who come from other tools runs."""

from __future__ import annotations

import re
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE, blobs

import voxalign as vx

PAGE = Path(__file__).parents[2] / "docs/migration.md"


def test_the_code_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOXALIGN_DEVICE", "cpu")
    # Right angles, as SimpleITK's images have.
    affine = np.diag([2.0, 2.0, 2.5, 1.0])
    affine[:3, 3] = OBLIQUE[:3, 3]
    for name, shift in (("fixed", 0.0), ("moving", 1.0)):
        nibabel.save(nibabel.Nifti1Image(blobs((30, 28, 24), shift), affine), f"{name}.nii.gz")
    labels = (blobs((30, 28, 24), 1.0) // 40).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(labels, affine), "labels.nii.gz")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    points = np.array([[10.0, -4.0, 22.0], [12.0, 3.0, 18.0]])
    back, forward = names["back"], names["forward"]
    assert isinstance(back, vx.Transform) and isinstance(forward, vx.Transform)
    np.testing.assert_allclose(back(forward(points)), points, atol=0.1)
    # What is said of the direction holds: SimpleITK resamples by the same transform, and its points are LPS.
    transform, moved = names["transform"], names["moved"]
    lps = np.array([-1.0, -1.0, 1.0])
    np.testing.assert_allclose(lps * transform.TransformPoint(tuple(lps * points[0])), moved, atol=1e-9)
    import SimpleITK

    same = SimpleITK.GetArrayFromImage(names["warped"]) - SimpleITK.GetArrayFromImage(names["again"])
    assert np.abs(same)[2:-2, 2:-2, 2:-2].max() < 0.05
