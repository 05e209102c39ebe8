"""The notebooks of docs/ do what they say, on the images that come with voxalign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import voxalign as vx

FOLDER = Path(__file__).parent.parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_five() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "1_first_registration", "2_labels_and_points", "3_population", "4_reading_a_verdict", "5_gpu_tensors",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_a_run_is_stored(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for needed in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(needed, reason=f"{needed} is not installed, which runs notebooks")
    import nbclient
    import nbformat

    # Of the kernel, which starts in another folder and leaves nothing at home.
    monkeypatch.setenv("PYTHONPATH", str(Path(vx.__file__).parent.parent))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs) or path.stem.startswith("5")
    assert not any(output.output_type == "error" for output in outputs)
