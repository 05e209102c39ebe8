"""Whatever is called with whatever raises an exception of voxalign, or works: 200 calls, and 10,000 where
`VOXALIGN_TEST_THOROUGH` is set."""

from __future__ import annotations

import ast
import inspect
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE, blobs
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import voxalign as vx

THOROUGH = os.environ.get("VOXALIGN_TEST_THOROUGH") == "1"


def calls(few: int, many: int) -> Any:
    return settings(
        max_examples=many if THOROUGH else few,
        deadline=None,
        derandomize=not THOROUGH,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


class Enough(Exception):
    """What a callback raises so that no work goes on for long."""


def enough(message: dict[str, object]) -> None:
    raise Enough


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a few small files, which calls work in."""
    folder = tmp_path_factory.mktemp("files")
    before = Path.cwd()
    os.chdir(folder)
    nibabel.save(nibabel.Nifti1Image(blobs((7, 6, 5)), OBLIQUE), "a.nii")
    nibabel.save(nibabel.Nifti1Image((blobs((7, 6, 5)) > 30).astype("u1"), OBLIQUE), "labels.nii")
    vx.Transform(np.eye(4)).save("a.tfm")
    Path("a.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    Path("empty.nii").write_bytes(b"")
    yield folder
    os.chdir(before)


STUBS = ast.parse((Path(vx.__file__).parent / "_native.pyi").read_text())
#: What options take, by function and name.
HINTS = {
    node.name: {a.arg: ast.unparse(a.annotation) for a in [*node.args.args, *node.args.kwonlyargs] if a.annotation}
    for node in STUBS.body
    if isinstance(node, ast.FunctionDef)
}


def literals(hint: str) -> list[str]:
    return re.findall(r"'([^']*)'", hint) if "Literal" in hint else []


#: Names that options have.
NAMES = sorted({name for hints in HINTS.values() for hint in hints.values() for name in literals(hint)})
FILES = ["a.nii", "labels.nii", "a.tfm", "a.csv", "empty.nii", "nowhere.nii", ".", "inverse:a.tfm", "", "\0"]
IMAGES = [vx.Image(blobs((7, 6, 5), shift), OBLIQUE) for shift in (0.0, 1.0)]
PLANES = [vx.Image(blobs((9, 8)), np.eye(4)), vx.Image(np.ones((4, 4, 4)), np.eye(4)), vx.Image(np.full((3, 3, 3), np.nan), np.eye(4))]

SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(),
    st.floats(0, 20),
    st.floats(),
    st.sampled_from(NAMES),
    st.sampled_from(FILES),
    st.text(max_size=6),
)
THINGS = st.one_of(
    st.sampled_from([*IMAGES, *PLANES]),
    st.sampled_from([vx.Transform(np.eye(4)), vx.Transform(np.diag([1.0, 1.0, 0.0, 1.0]))]),
    st.sampled_from([b"a.nii", Path("a.nii"), len, object(), np.ones((3, 3, 3)), np.float32(2), np.int64(3), nibabel.Nifti1Image]),
    st.builds(lambda: nibabel.load("a.nii")),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
VALUES = st.one_of(SIMPLE, SIMPLE, THINGS, st.lists(st.one_of(SIMPLE, THINGS), max_size=4), st.tuples(SIMPLE, SIMPLE))



def fitting(function: str, option: str) -> st.SearchStrategy[Any]:
    """Values of the type of an option, most of which it takes."""
    hint = HINTS[function].get(option, "")
    if names := literals(hint):
        return st.sampled_from(names)
    if hint.startswith("int"):
        return st.integers(0, 20)
    if hint.startswith("bool"):
        return st.booleans()
    if hint.startswith("ImageLike"):
        return st.sampled_from([*IMAGES, *PLANES, "a.nii", "labels.nii"])
    if hint.startswith("TransformLike"):
        return st.sampled_from(["a.tfm", "inverse:a.tfm", vx.Transform(np.eye(4)), [vx.Transform(np.eye(4)), "a.tfm"]])
    if hint.startswith("PathLike"):
        return st.sampled_from(FILES)
    numbers = st.one_of(st.integers(0, 20), st.floats(0, 20), st.floats(0, 1))
    return st.one_of(numbers, numbers, st.lists(numbers, min_size=1, max_size=3), st.sampled_from(["4x2", "4x2,2x1", "auto", "none", "cpu", "ap"]))


FUNCTIONS = [
    "affine", "deform", "elastic", "anatomy", "atlas", "drr", "pose", "segment", "stack", "surface", "apply", "invert",
    "compose", "compare", "info", "convert", "read", "read_transform",
]
#: What sets a call going, so that more than the first argument is looked at.
GOOD: dict[str, dict[str, Any]] = {
    "affine": {"fixed": IMAGES[0], "moving": IMAGES[1]},
    "deform": {"fixed": IMAGES[0], "moving": IMAGES[1]},
    "elastic": {"fixed": IMAGES[0], "moving": IMAGES[1]},
    "atlas": {"images": ["a.nii", "a.nii"]},
    "drr": {"ct": "a.nii", "size": "8,8", "pixel": 20},
    "segment": {"image": "a.nii"},
    "stack": {"operation": "mean", "images": ["a.nii", "a.nii"]},
    "surface": {"image": "labels.nii", "label": 1},
    "apply": {"input": IMAGES[0], "reference": IMAGES[1]},
    "invert": {"transform": "a.tfm"},
    "compose": {"transform": ["a.tfm"]},
    "compare": {"fixed": IMAGES[0], "warped": IMAGES[1]},
    "info": {"files": "a.nii"},
    "convert": {"inputs": "a.nii"},
    "read": {"path": "a.nii"},
    "read_transform": {"path": "a.tfm"},
}


def attempt(call: Any, *arguments: Any, **named: Any) -> Any:
    """Calls; what it raises is of voxalign, says something, and is no defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vx.VoxalignWarning)
            found = call(*arguments, **named)
        event("worked")
        return found
    except vx.VoxalignError as e:
        event(type(e).__name__)
        assert str(e) and "internal error" not in str(e), str(e)
    except (TypeError, Enough) as e:
        event(type(e).__name__)
    return None


@calls(130, 7000)
@given(data=st.data())
def test_functions(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FUNCTIONS))
    function = getattr(vx, name)
    known = [*inspect.signature(function).parameters]
    # Most calls are good but for a thing or two.
    options: dict[str, Any] = dict(GOOD.get(name, {})) if data.draw(st.integers(0, 9)) else {}
    for option in data.draw(st.lists(st.sampled_from(known), max_size=3)):
        options[option] = data.draw(fitting(name, option) if data.draw(st.integers(0, 5)) else VALUES)
    if not data.draw(st.integers(0, 19)):
        options[data.draw(st.text(max_size=8))] = data.draw(VALUES)
    # Written where nothing else is; several devices and much memory are not for tests.
    for place in ("output", "work", "checkpoint", "scratch", "shared_scratch"):
        if isinstance(options.get(place), (str, Path)):
            options[place] = data.draw(st.sampled_from(["out", "out.nii", "out.tfm", "out.gii", "out.csv", "a.nii/out"]))
    if "progress" not in options and "progress" in known:
        options["progress"] = enough
    attempt(function, **options)


@calls(30, 1500)
@given(data=st.data())
def test_places(data: st.DataObject) -> None:
    attempt(getattr(vx, data.draw(st.sampled_from(FUNCTIONS))), *data.draw(st.lists(VALUES, max_size=3)), progress=enough)


MATRICES = st.tuples(arrays.arrays(np.float64, (3, 4), elements=st.floats(-9, 9)), st.floats(0.1, 3)).map(
    lambda both: np.vstack([both[0] + both[1] * np.eye(3, 4), [0, 0, 0, 1]])
)
AFFINES = st.one_of(
    MATRICES,
    MATRICES,
    VALUES,
    arrays.arrays(np.float64, (4, 4), elements=st.floats(-1e3, 1e3)),
    arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=4)),
    st.floats(0.1, 3).map(lambda size: np.diag([size, -size, size, 1])),
)
ARRAYS = st.one_of(
    VALUES,
    arrays.arrays(arrays.floating_dtypes(), arrays.array_shapes(max_dims=3, max_side=4)),
    arrays.arrays(arrays.integer_dtypes(), arrays.array_shapes(max_dims=3, max_side=4)),
    arrays.arrays(
        st.one_of(arrays.scalar_dtypes(), arrays.array_dtypes()), arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
    ),
)


@calls(25, 1000)
@given(values=ARRAYS, affine=AFFINES)
def test_images(values: Any, affine: Any) -> None:
    for make in (vx.image, vx.Image):
        image = attempt(make, values, affine)
        if isinstance(image, vx.Image):
            assert image.numpy().shape == image.shape and np.isfinite(image.affine).all()
            attempt(image.to_sitk)
            attempt(image.to_nibabel)


@calls(15, 500)
@given(affine=MATRICES, points=st.one_of(ARRAYS, arrays.arrays(np.float64, (5, 3))), other=VALUES, threads=VALUES)
def test_transforms(affine: Any, points: Any, other: Any, threads: Any) -> None:
    transform = attempt(vx.Transform, affine)
    assume(isinstance(transform, vx.Transform))
    attempt(transform, points)
    attempt(lambda: transform @ other)
    attempt(transform.inverse, threads=threads)
    attempt(transform.to_sitk)
    attempt(transform.save, "out.fsl.mat", fixed_geometry=other)
