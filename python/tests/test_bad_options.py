"""Every option of every function refuses values of a wrong type, or outside its range, before anything is read or written."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs, refused

import voxalign as vx

pytestmark = pytest.mark.usefixtures("nothing_left")

IMAGE = vx.Image(blobs((12, 11, 10)), OBLIQUE)
LABELS = vx.Image(np.ones((12, 11, 10)), OBLIQUE)

#: What each function cannot be called without.
NEEDED: dict[str, dict[str, object]] = {
    "affine": {"fixed": IMAGE, "moving": IMAGE},
    "deform": {"fixed": IMAGE, "moving": IMAGE},
    "elastic": {"fixed": IMAGE, "moving": IMAGE},
    "anatomy": {"fixed": "nowhere.toml", "moving": "nowhere.toml"},
    "atlas": {"images": ["nowhere.nii", "neither.nii"]},
    "drr": {"ct": "nowhere.nii"},
    "pose": {"ct": "nowhere.nii", "xrays": ["nowhere.png"], "geometry": "nowhere.toml"},
    "segment": {"image": "nowhere.nii"},
    "stack": {"operation": "mean", "images": ["nowhere.nii"], "output": "out.nii"},
    "surface": {"image": "nowhere.nii", "output": "out.gii", "label": 1},
    "apply": {"input": "nowhere.nii", "reference": "neither.nii"},
    "invert": {"transform": "nowhere.tfm"},
    "compose": {"transform": "nowhere.tfm"},
    "compare": {"fixed": "nowhere.nii", "warped": "neither.nii"},
    "info": {"files": "nowhere.nii"},
    "convert": {"inputs": "nowhere.nii", "output": "out.nii"},
}


def types() -> dict[tuple[str, str], str]:
    """The types of all options in the stubs, by function and name."""
    tree = ast.parse((Path(vx.__file__).parent / "_native.pyi").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in NEEDED]
    hints = {(f.name, a.arg): ast.unparse(a.annotation) for f in functions for a in f.args.kwonlyargs if a.annotation}
    # A switch on which depends what comes back.
    return {of: "bool" if hint == "Literal[False]" else hint for of, hint in hints.items()}


TYPES = types()


def of_type(begin: str) -> list[tuple[str, str]]:
    return [option for option, hint in TYPES.items() if hint.startswith(begin)]


def refuse(function: str, option: str, value: object, *said: str) -> None:
    with refused(vx.OptionError, f"`{option}", *said):
        getattr(vx, function)(**NEEDED[function] | {option: value})


def test_all_functions_are_looked_at() -> None:
    assert {function for function, _ in TYPES} == set(NEEDED) and len(TYPES) > 400


@pytest.mark.parametrize(("function", "option"), TYPES)
def test_objects_are_no_values(function: str, option: str) -> None:
    if option == "progress":
        refuse(function, option, object(), "neither true nor a function")
    elif TYPES[function, option].startswith("ImageLike"):
        with refused(vx.InputError, f"`{option}`"):
            getattr(vx, function)(**NEEDED[function] | {option: object()})
    else:
        refuse(function, option, object())
        refuse(function, option, {"a": 1})


@pytest.mark.parametrize(("function", "option"), of_type("Literal"))
def test_names(function: str, option: str) -> None:
    for wrong in ("no such name", 3, True, [], ["no such name"]):
        refuse(function, option, wrong)


@pytest.mark.parametrize(("function", "option"), of_type("int"))
def test_whole_numbers(function: str, option: str) -> None:
    for wrong in (-1, 1.5, float("nan"), float("inf"), True, "six", "", [3], np.array([1, 2]), 10**30, b"3"):
        refuse(function, option, wrong, "give a ")


@pytest.mark.parametrize(("function", "option"), [o for o in of_type("bool") if o[1] != "progress"])
def test_switches(function: str, option: str) -> None:
    for wrong in ("yes", "", 0, 1, 2.0, [], np.array([True])):
        refuse(function, option, wrong, "give True or False")


@pytest.mark.parametrize(("function", "option"), of_type("PathLike"))
def test_paths(function: str, option: str) -> None:
    for wrong in (3, 1.5, True, b"a.nii", [3]):
        refuse(function, option, wrong)


#: Values that are out of the range of options of their name, wherever that is one.
RANGES: dict[str, list[object]] = {
    "bins": [0, 1, 10**9],
    "levels": [0, -1, [], [0], [8, -1], [8, float("nan")], "8,,4", "a"],
    "apodise": [-1, float("nan"), float("inf"), "wide", [1, 2]],
    "schedule": ["", "x", "4", "0x3", "4x", "4x-1", "4x3,", "4x3x2", 3, [3], "1e9x1", "4x99999999999999999999"],
    "outside": ["far", [1, 2], "", True],
    "spacing": [0, -2, "small", float("inf"), [1, 2, 3, 4]],
    "search_angles": [-1, 400, "a", [1, 2], "30:20", [1, 2, 3, 4]],
    "search_steps": [0, -5, [1, 2, 3], "a", [0, 1]],
    "outputs": ["x", [], ["x"], 3, True, "affine,x"],
    "device": ["tpu", "cuda:", "cuda:-1", "cuda:x", "cpu:1", "", 3, True, [], "cuda:99999999999999999999"],
    "threads": [0, -1, 1025, 10**6, 2**64, "many", "0", "-1", "1.5", 1.5, True, []],
    "young": [0, -1, "soft", float("inf")],
    "poisson": [-1, 0.5, 0.6, "x"],
    "sigma": [-1, "x", float("nan")],
    "data_type": ["f16", "float", 3],
    "weight": [-1, "x", float("nan")],
    "outline": ["x"],
}


@pytest.mark.parametrize(
    ("function", "option", "value"),
    [(f, o, v) for f, o in TYPES for v in RANGES.get(o, [])],
    ids=lambda part: part if isinstance(part, str) else repr(part),
)
def test_ranges(function: str, option: str, value: object) -> None:
    refuse(function, option, value)


SPELLINGS = {
    "doff": "dof", "costs": "cost", "Bins": "bins", "search_angle": "search_angles", "thread": "threads", "devices": "device",
    "outptu": "output", "fixed_msk": "fixed_mask", "moving-mask": "moving_mask", "no_report": "report", "callback": None,
    "seed": None, "n_jobs": None, "": None, "\ud800": None,
}


@pytest.mark.parametrize("wrong", SPELLINGS)
def test_unknown_options(wrong: str) -> None:
    meant = SPELLINGS[wrong]
    said = f"did you mean `{meant}`?" if meant else "affine() has no argument"
    with refused(vx.OptionError, said):
        vx.affine(IMAGE, IMAGE, **{wrong: 1})


@pytest.mark.parametrize("function", NEEDED)
def test_arguments_by_their_places(function: str) -> None:
    call, needed = getattr(vx, function), NEEDED[function]
    with refused(vx.OptionError, "by their places"):
        call(*[IMAGE] * 30)
    with refused(vx.OptionError, "no argument `zzzz`"):
        call(**needed, zzzz=1)
    first = next(iter(needed))
    with refused(vx.OptionError, f"`{first}` is given twice"):
        call(needed[first], **needed)
    # Others can be given in place of these.
    if function not in ("atlas", "compare"):
        with refused(vx.OptionError, f"`{first}` is missing"):
            call()
        with refused(vx.OptionError, f"`{first}` is missing"):
            call(**{first: None})


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        ("affine", {"cost": "ncc", "bins": 9}, "`bins` is for `cost='"),
        ("affine", {"search": "local", "search_angles": 30}, "`search_angles` is for"),
        ("affine", {"search": "none", "search_steps": "60,18"}, "`search_steps` is for"),
        ("affine", {"optimiser": "powell", "wolfe": 0.5}, "`wolfe` is for"),
        ("affine", {"optimiser": "bfgs", "population": 9}, "`population` is for"),
        ("affine", {"similarity": "nmi", "cost": "nmi"}, "given twice"),
        ("affine", {"fixed_volume": 1}, "`fixed_volume` is for"),
        ("affine", {"moving_volume": 1}, "`moving_volume` is for"),
        ("affine", {"halo": 3}, "`halo`"),
        ("affine", {"label_names": "names.txt"}, "`label_names`"),
        ("affine", {"report": False, "outputs": "report"}, "outputs"),
        ("deform", {"model": "greedy", "time_steps": 8}, "`time_steps` is for `model='"),
        ("deform", {"similarity": "ssd", "bins": 40}, "`bins` is for"),
        ("deform", {"affine": "none", "dof": 6}, "`dof`"),
        ("elastic", {"model": "greedy"}, "no argument `model`"),
        ("apply", {"output": "a.nii", "transform": vx.Transform(np.eye(4))}, "`output` is for"),
        ("apply", {"data_type": "u8", "input": IMAGE}, "`data_type` is for"),
        ("apply", {"input": LABELS, "interpolation": "label", "outside": 1.5}, "`outside`"),
        ("compare", {"fixed": IMAGE, "bins": 40, "labels": True}, "`bins`"),
        ("compare", {"fixed": IMAGE, "min_voxels": 3}, "`min_voxels`"),
        ("compare", {"fixed": IMAGE, "points": ["a.csv", "b.csv"]}, "`points`"),
        ("invert", {"transform": [vx.Transform(np.eye(4))] * 2}, "compose()"),
        ("invert", {"transform": vx.Transform(np.eye(4)), "output": "a.tfm"}, "`output`"),
        ("compose", {"transform": []}, "`transform` is missing"),
        ("compose", {"transform": [3]}, "`transform` is of the type int"),
        ("compose", {"transform": [[vx.Transform(np.eye(4))]]}, "`transform` is of the type list"),
        ("stack", {"operation": "medain"}, "operation"),
        ("surface", {"level": 3}, "`level`"),
        ("segment", {"preset": "bone", "seeds": "1,2,3"}, "`seeds`"),
    ],
)
def test_what_would_be_ignored(function: str, options: dict[str, object], said: str) -> None:
    with refused(vx.OptionError, said):
        getattr(vx, function)(**NEEDED[function] | options)


def test_lists_within_lists() -> None:
    ring: list[object] = []
    ring.append(ring)
    deep: object = 1
    for _ in range(20_000):
        deep = [deep]
    for wrong in (ring, deep, [[[[[[[[[[1]]]]]]]]]]):
        with refused(vx.OptionError, "`levels`", "too deep"):
            vx.affine(IMAGE, IMAGE, levels=wrong)


def test_numbers_are_taken_however_they_are_held() -> None:
    for dof in (6, 6.0, "6", np.int8(6), np.float32(6), np.array(6)):
        found = vx.affine(
            IMAGE, IMAGE, dof=dof, levels=np.array([8, 4]), outputs=["affine"], search="local", device="cpu", report=False
        )
        assert found.record["parameters"]["dof"] == 6 and "resampled" not in found.outputs
    del found
