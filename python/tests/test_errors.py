"""Bad input of every kind raises the right exception, in words of keyword arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs

import voxalign as vx

IMAGE = vx.Image(blobs((12, 11, 10)), OBLIQUE)


@pytest.mark.parametrize("error", [vx.InputError, vx.OptionError, vx.DeviceError, vx.InternalError])
def test_all_are_of_one_family(error: type[Exception]) -> None:
    assert issubclass(error, vx.VoxalignError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"doff": 6}, "no argument `doff`; did you mean `dof`"),
        ({"zzz": 1}, "no argument `zzz`; help"),
        ({"dof": "six"}, "`dof` is"),
        ({"dof": 6.5}, "`dof` is"),
        ({"dof": 5}, "`dof` is 5"),
        ({"dof": -1}, "`dof` is"),
        ({"dof": {"a": 1}}, "`dof` is of the type"),
        ({"dof": object()}, "`dof` is of the type"),
        ({"dof": 10**30}, "`dof` is a number of too many digits"),
        ({"cost": "x"}, "not one of"),
        ({"cost": "ncc", "bins": 9}, "`bins` is for `cost='"),
        ({"bins": 1}, "`bins` is 1"),
        ({"search": "local", "search_angles": 30}, "`search_angles` is for"),
        ({"levels": []}, "levels"),
        ({"levels": [8, float("nan")]}, "levels"),
        ({"outside": "far"}, "`outside` is"),
        ({"interpolation": "label"}, "interpolation"),
        ({"report": 3}, "`report` is 3"),
        ({"outputs": "warp"}, "outputs"),
        ({"init": "nowhere.tfm"}, "`init` is"),
        ({"threads": 0}, "`threads`"),
        ({"threads": 10**6}, "`threads`"),
        ({"threads": "many"}, "`threads` is"),
        ({"device": "tpu"}, "`device` is"),
        ({"similarity": "nmi", "cost": "nmi"}, "given twice"),
        ({"fixed_volume": 1}, "`fixed_volume` is for"),
        ({"fixed": IMAGE}, "`fixed` is given twice"),
        ({"levels": [[[[[[[[[[1]]]]]]]]]]}, "too deep"),
    ],
)
def test_options(options: dict[str, object], said: str) -> None:
    with pytest.raises(vx.OptionError) as raised:
        vx.affine(IMAGE, IMAGE, **options)
    assert said in str(raised.value) and "--" not in str(raised.value)


def test_lists_that_hold_themselves() -> None:
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(vx.OptionError):
        vx.affine(IMAGE, IMAGE, levels=ring)


def test_arguments_by_their_places() -> None:
    with pytest.raises(vx.OptionError, match="`moving` is missing: the moving image"):
        vx.affine(IMAGE)
    with pytest.raises(vx.OptionError, match="3 are given"):
        vx.affine(IMAGE, IMAGE, "out")
    with pytest.raises(vx.OptionError, match="`output` is missing"):
        vx.stack("mean", ["a.nii"])
    with pytest.raises(vx.OptionError, match="`input` is missing"):
        vx.apply(reference=IMAGE)
    with pytest.raises(vx.OptionError, match="`reference` is missing"):
        vx.apply(IMAGE)


def test_options_of_one_model_alone() -> None:
    with pytest.raises(vx.OptionError, match="is for `model='"):
        vx.deform(IMAGE, IMAGE, model="greedy", time_steps=8)


def test_devices() -> None:
    with pytest.raises(vx.DeviceError, match="`device="):
        vx.affine(IMAGE, IMAGE, device="cuda:63")


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        ("nowhere.nii.gz", "nowhere.nii.gz"),
        (Path("nowhere.nii.gz"), "nowhere.nii.gz"),
        ("", ""),
        (b"bytes", "`fixed`"),
        (3, "`fixed`"),
        (np.zeros((4, 4, 4)), "`fixed`.*geometry"),
        ("\ud800.nii", ""),
        ("a\0b.nii", ""),
    ],
)
def test_inputs(fixed: object, said: str) -> None:
    with pytest.raises(vx.VoxalignError, match=said):
        vx.affine(fixed, IMAGE)


def test_images_by_which_nothing_can_be_found() -> None:
    flat = vx.Image(np.zeros((12, 11, 10)), np.eye(4))
    with pytest.raises(vx.InputError):
        vx.affine(flat, IMAGE)
    with pytest.raises(vx.InputError):
        vx.affine(IMAGE, vx.Image(np.full((12, 11, 10), np.nan), np.eye(4)))
    other = vx.Image(np.ones((5, 5, 5)), np.eye(4))
    with pytest.raises(vx.InputError, match="mask|grid"):
        vx.affine(IMAGE, IMAGE, fixed_mask=other)
    with pytest.raises(vx.InputError, match="whole numbers"):
        vx.affine(IMAGE, IMAGE, fixed_labels=IMAGE, moving_labels=IMAGE)
    with pytest.raises(vx.OptionError, match="go together"):
        vx.affine(IMAGE, IMAGE, fixed_labels=IMAGE)


def test_transforms(tmp_path: Path) -> None:
    shift = vx.Transform(np.eye(4))
    for wrong in (np.eye(3), np.zeros(4), "x", np.full((4, 4), np.inf), np.ones((4, 4))):
        with pytest.raises(vx.InputError):
            vx.Transform(wrong)
    for wrong in ([1, 2], [[1, 2]], "abc", [[[1, 2, 3]]], None):
        with pytest.raises(vx.InputError):
            shift(wrong)
    with pytest.raises(vx.InputError):
        shift @ 3
    with pytest.raises(vx.InputError, match="singular|inverse"):
        vx.Transform(np.diag([1.0, 1.0, 0.0, 1.0])).inverse()
    with pytest.raises(vx.InputError):
        shift.save(tmp_path / "a.xyz")
    with pytest.raises(vx.InputError):
        shift.save(tmp_path / "none/a.tfm")
    with pytest.raises(vx.InputError):
        vx.read_transform(tmp_path / "nowhere.tfm")
    with pytest.raises(vx.OptionError, match="`transform`"):
        vx.invert(3)
    with pytest.raises(vx.OptionError, match="`output`"):
        vx.invert(shift, output=tmp_path / "a.tfm")
    with pytest.raises(vx.OptionError, match="`transform` is missing"):
        vx.compose([])
    with pytest.raises(vx.OptionError, match="`threads`"):
        shift.inverse(threads=0)


def test_what_is_in_memory_has_no_options_of_files(tmp_path: Path) -> None:
    with pytest.raises(vx.OptionError, match="`data_type` is for"):
        vx.apply(IMAGE, reference=IMAGE, data_type="u8")
    with pytest.raises(vx.OptionError, match="`output`"):
        vx.apply(IMAGE, reference=IMAGE, output=tmp_path / "a.nii")
    with pytest.raises(vx.InputError, match="whole numbers"):
        vx.apply(IMAGE, reference=IMAGE, interpolation="label")
    with pytest.raises(vx.OptionError):
        vx.compare(IMAGE, IMAGE, points=["a.csv", "b.csv"])
    with pytest.raises(vx.OptionError, match="`warped`"):
        vx.compare(IMAGE)
    with pytest.raises(vx.InputError, match="grid"):
        vx.compare(IMAGE, vx.Image(np.ones((3, 3, 3)), np.eye(4)))
    with pytest.raises(vx.OptionError, match="data_type"):
        IMAGE.save(tmp_path / "a.nii", data_type="x")
    with pytest.raises(vx.InputError):
        IMAGE.save(tmp_path / "a.xyz")


def test_a_panic_is_an_exception() -> None:
    from voxalign import _native

    if not hasattr(_native, "_panic"):
        pytest.skip("only a module with assertions panics when asked to")
    with pytest.raises(vx.InternalError, match="internal error: the sky fell; please report this"):
        _native._panic()
