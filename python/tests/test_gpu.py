"""Arrays on a GPU stay there and give what the same arrays on the host give there; without a GPU, what is wrong with them is told."""

from __future__ import annotations

import ctypes
import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import OBLIQUE, blobs, refused

import voxalign as vx

EYE = np.eye(4)

#: Options by which a registration takes a moment.
QUICK: dict[str, Any] = {"search": "local", "report": False}


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("place", Place),
        ("dimensions", ctypes.c_int32),
        ("data_type", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Forged:
    """What says that it is a tensor on a GPU."""

    def __init__(
        self,
        shape: tuple[int, ...] = (3, 4, 5),
        data_type: tuple[int, int, int] = (2, 32, 1),
        *,
        steps: tuple[int, ...] | None = None,
        place: tuple[int, int] = (2, 0),
        version: int | None = None,
        name: bytes | None = None,
        error: Exception | None = None,
    ) -> None:
        self.deleted = 0
        self.error = error
        self.memory = (ctypes.c_float * 64)()
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.steps = None if steps is None else (ctypes.c_int64 * len(steps))(*steps)
        self.deleter = _DELETER(self.delete)
        tensor = Tensor(
            ctypes.addressof(self.memory),
            Place(*place),
            len(shape),
            DataType(*data_type),
            ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)),
            ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64)) if self.steps else None,
            0,
        )
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.managed: Plain | Versioned
        if version is None:
            self.managed, usual = Plain(tensor, None, deleter), b"dltensor"
        else:
            self.managed, usual = Versioned(version, 0, None, deleter, 0, tensor), b"dltensor_versioned"
        self.name = ctypes.create_string_buffer(name or usual)

    def delete(self, _: object) -> None:
        self.deleted += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **how: object) -> object:
        if self.error is not None:
            raise self.error
        assert how["stream"] == 1, "the default stream is what is waited for"
        return _new_capsule(ctypes.addressof(self.managed), ctypes.cast(self.name, ctypes.c_char_p), None)

    def cpu(self) -> np.ndarray:
        return np.arange(60, dtype="f4").reshape(3, 4, 5)


FORGED: dict[str, tuple[Callable[[], Forged], str]] = {
    "complex": (lambda: Forged(data_type=(5, 64, 1)), "complex64"),
    "bfloat": (lambda: Forged(data_type=(4, 16, 1)), "bfloat16"),
    "eight bits of a float": (lambda: Forged(data_type=(8, 8, 1)), "float8"),
    "less than a byte": (lambda: Forged(data_type=(1, 4, 1)), "uint4"),
    "several in one": (lambda: Forged(data_type=(2, 32, 4)), "float32x4"),
    "too long": (lambda: Forged(data_type=(0, 128, 1)), "int128"),
    "handles": (lambda: Forged(data_type=(3, 64, 1)), "opaque64"),
    "bits": (lambda: Forged(data_type=(6, 1, 1)), "bool1"),
    "no voxel": (lambda: Forged((3, 0, 5)), "without a voxel"),
    "no dimension": (lambda: Forged(()), "1 to 3 dimensions"),
    "four dimensions": (lambda: Forged((2, 2, 2, 2)), "1 to 3 dimensions"),
    "sizes below 0": (lambda: Forged((3, -1, 5)), "below 0"),
    "too many": (lambda: Forged((2**31, 2**31, 2**31)), ""),
    "far steps": (lambda: Forged(steps=(2**62, 2**62, 2**62)), "steps"),
    "steps before the memory": (lambda: Forged(steps=(-(2**61), 1, 1)), "steps"),
    "the host": (lambda: Forged(place=(1, 0)), "no GPU"),
    "shared memory": (lambda: Forged(place=(13, 0)), "no GPU"),
    "no number": (lambda: Forged(place=(2, -1)), "no GPU"),
    "another version": (lambda: Forged(version=2), "DLPack 2.0"),
    "another name": (lambda: Forged(name=b"tensor"), "capsule"),
    "used before": (lambda: Forged(name=b"used_dltensor"), "capsule"),
    "a wrong name for its version": (lambda: Forged(version=1, name=b"used_dltensor_versioned"), "capsule"),
    "released": (lambda: Forged(error=RuntimeError("the storage was released")), "the storage was released"),
    "other streams": (lambda: Forged(error=BufferError("no such stream")), "no such stream"),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_no_image(case: str) -> None:
    make, said = FORGED[case]
    forged = make()
    for call in (lambda: vx.Image(forged, EYE), lambda: vx.image(forged, affine=EYE)):
        with refused(vx.InputError, said):
            call()
    gc.collect()
    # It was not taken, so that its maker still has it.
    assert forged.deleted == 0


@pytest.mark.parametrize("affine", [np.zeros((4, 4)), np.full((4, 4), np.nan), np.eye(3), "affine", None])
def test_affines_are_looked_at(affine: object) -> None:
    forged = Forged()
    with refused(vx.InputError, "affine" if affine is not None else ""):
        vx.Image(forged, affine)
    assert forged.deleted == 0


def test_arrays_on_a_gpu_need_an_affine() -> None:
    with refused(vx.InputError, "voxalign.image(array, affine=...)"):
        vx.affine(Forged(), Forged())


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a GPU")
@pytest.mark.parametrize("version", [None, 1])
def test_a_gpu_that_cannot_be_used(version: int | None) -> None:
    forged = Forged(version=version)
    with pytest.warns(vx.VoxalignWarning, match="cuda:0 are copied to the host"):
        image = vx.Image(forged, OBLIQUE)
    assert image.device == "cpu" and forged.deleted == 0
    np.testing.assert_array_equal(image.numpy(), forged.cpu())


def test_images_on_the_host() -> None:
    before = vx.transfers()
    assert list(before) == ["to_device", "to_host", "within_device", "images_to_host"]
    image = vx.image(blobs((6, 5, 4)), affine=EYE)
    assert image.device == "cpu" and image.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(image), image.numpy())
    assert vx.transfers() == before
    with pytest.raises(BufferError):
        image.__dlpack__(copy=False)


# From here on with a GPU.

try:
    import torch

    has_gpu = torch.cuda.is_available()
except ImportError:
    has_gpu = False

gpu = pytest.mark.skipif(not has_gpu, reason="torch and a GPU are not there")


def moved(before: dict[str, int]) -> dict[str, int]:
    """What was copied since."""
    return {name: bytes - before[name] for name, bytes in vx.transfers().items()}


def pairs() -> tuple[list[vx.Image], list[vx.Image], list[Any]]:
    """Two images on the host, the same on the GPU, and the tensors that these are of."""
    arrays = [blobs((60, 56, 52), shift) for shift in (0.0, 2.0)]
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    return [vx.image(a, affine=OBLIQUE) for a in arrays], [vx.image(t, affine=OBLIQUE) for t in tensors], tensors


@gpu
@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_types_and_orders(kind: str) -> None:
    values = torch.from_numpy(blobs((7, 6, 5)) * 3 - 40).to(getattr(torch, kind)).cuda()
    vx.image(values, affine=OBLIQUE)  # opens the GPU, of which some numbers come to the host
    for tensor in (values, values.permute(2, 0, 1), values[::2, 1:, 3:], values.flip(0), values[..., None], values[2], values[1, 1]):
        before = vx.transfers()
        image = vx.image(tensor, affine=OBLIQUE)
        assert image.device == "cuda:0" and moved(before)["images_to_host"] == moved(before)["to_host"] == 0
        expected = vx.image(tensor.cpu().numpy(), affine=OBLIQUE)
        assert image.shape == expected.shape
        np.testing.assert_array_equal(image.numpy(), expected.numpy())
        assert moved(before)["images_to_host"] == 4 * tensor.numel()


@gpu
def test_results_are_those_of_arrays_and_images_stay(tmp_path: Path) -> None:
    here, there, tensors = pairs()
    for job, options in ((vx.affine, QUICK), (vx.deform, {"report": False, "schedule": "4x4,2x2"}), (vx.deform, {"report": False, "model": "greedy"})):
        before = vx.transfers()
        found = job(*there, **options)
        copied = moved(before)
        expected = job(*here, device="cuda", **options)
        assert found.record["host"]["device"].startswith("cuda:0")
        assert found.transform == expected.transform or np.array_equal(
            found.transform([[1.0, 2.0, 3.0]]), expected.transform([[1.0, 2.0, 3.0]])
        )
        assert found.record["verdict"] == expected.record["verdict"] and found.scores == expected.scores
        # Of the images that were given none; the one that was made is written to a file.
        assert copied["images_to_host"] == 4 * tensors[0].numel(), copied
        before = vx.transfers()
        warped = torch.from_dlpack(found.warped)
        assert warped.device.type == "cuda" and moved(before)["to_host"] == 0
        np.testing.assert_array_equal(warped.cpu().numpy(), expected.warped.numpy())
    found = vx.affine(*there, **QUICK, outputs="affine", output=tmp_path / "affine")
    before = vx.transfers()
    image = vx.apply(there[1], reference=there[0], transform=found.transform)
    assert image.device == "cuda:0" and moved(before)["images_to_host"] == 0
    expected = vx.apply(here[1], reference=here[0], transform=found.transform, device="cuda")
    np.testing.assert_array_equal(image.numpy(), expected.numpy())


@gpu
def test_nothing_of_the_images_comes_to_the_host() -> None:
    _, there, tensors = pairs()
    before = vx.transfers()
    vx.affine(*there, **QUICK, outputs="affine")
    copied, voxels = moved(before), tensors[0].numel()
    assert copied["images_to_host"] == 0 and copied["within_device"] >= 2 * 4 * voxels, copied
    # Small copies for the verdict alone: these images are hardly larger than what it looks at.
    large = [vx.image(tensor.repeat_interleave(3, 0).repeat_interleave(3, 1).repeat_interleave(3, 2), affine=OBLIQUE) for tensor in tensors]
    before = vx.transfers()
    found = vx.affine(*large, **QUICK, outputs="affine")
    copied = moved(before)
    assert copied["images_to_host"] == 0 and copied["to_host"] < 27 * voxels, copied
    # What was made stays as well, without a file.
    before = vx.transfers()
    assert torch.from_dlpack(found.warped).device.type == "cuda" and moved(before)["to_host"] == 0


@gpu
def test_what_is_lent_waits_for_those_who_read_it() -> None:
    image = vx.image(torch.full((64, 64, 64), 3.0, device="cuda"), affine=EYE)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        lent = torch.from_dlpack(image)
        torch.cuda._sleep(300_000_000)
        copy = lent.clone()
    del lent
    # Takes the memory that has just been given back.
    others = [vx.image(torch.zeros((64, 64, 64), device="cuda"), affine=EYE) for _ in range(4)]
    side.synchronize()
    assert (copy == 3).all().item() and len(others) == 4


@gpu
def test_signs_that_are_still_to_be_applied() -> None:
    values = torch.full((3, 4, 5), 1 + 2j, device="cuda").conj().imag
    assert values.is_neg() and (vx.image(values, affine=EYE).numpy() == -2).all()


@gpu
def test_the_current_gpu_stays() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    there = vx.image(torch.ones((30, 30, 30), device="cuda:1"), affine=EYE)
    assert there.device == "cuda:1" and torch.cuda.current_device() == 0
    there.numpy()
    lent = torch.from_dlpack(there)
    del there, lent
    gc.collect()
    assert torch.cuda.current_device() == 0 and torch.zeros(3, device="cuda").device.index == 0


@gpu
def test_tensors_may_change_and_go() -> None:
    tensor = torch.ones((40, 30, 20), device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        # Asked for in another stream, and not done yet.
        torch.cuda._sleep(100_000_000)
        for _ in range(50):
            tensor = tensor * 1.0 + 1.0
        image = vx.image(tensor, affine=EYE)
    tensor[:] = -1
    del tensor
    torch.cuda.empty_cache()
    assert (image.numpy() == 51).all()
    lent = torch.from_dlpack(image)
    lent[:] = 7
    assert (image.numpy() == 51).all()
    del image
    gc.collect()
    assert (lent == 7).all().item()


@gpu
def test_lending() -> None:
    image = vx.image(torch.ones((4, 3, 2), device="cuda"), affine=EYE)
    assert image.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(np.asarray(image), 1)
    host = image.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert "dltensor" in repr(host)
    for wrong in ({"copy": False}, {"dl_device": (2, 63)}, {"dl_device": (10, 0)}):
        with pytest.raises(BufferError):
            image.__dlpack__(**wrong)
    image = vx.image(torch.ones((256, 256, 64), device="cuda"), affine=EYE)
    used = lambda: torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]
    before = used()
    for _ in range(400):
        # Capsules that nobody takes, of 16 MiB each.
        image.__dlpack__(max_version=(1, 0))
        image.__dlpack__(stream=None)
    assert used() - before < 2**30


@gpu
def test_other_devices() -> None:
    here, there, _ = pairs()
    before = vx.transfers()
    found = vx.affine(*there, **QUICK, device="cpu")
    assert moved(before)["images_to_host"] > 0
    assert found.transform.affine.tolist() == vx.affine(*here, **QUICK, device="cpu").transform.affine.tolist()
    labels = vx.image(torch.ones((60, 56, 52), dtype=torch.int16, device="cuda"), affine=OBLIQUE)
    again = vx.affine(*there, **QUICK, fixed_mask=labels)
    assert again.record["host"]["device"].startswith("cuda:0")


@gpu
def test_what_cannot_be_registered() -> None:
    constant = vx.image(torch.ones((20, 20, 20), device="cuda"), affine=EYE)
    bad = vx.image(torch.full((20, 20, 20), float("nan"), device="cuda"), affine=EYE)
    good = vx.image(torch.from_numpy(blobs((20, 20, 20))).cuda(), affine=EYE)
    for job in (vx.affine, vx.deform):
        with refused(vx.InputError, "constant"):
            job(good, constant, report=False)
        with refused(vx.InputError, "NaN"):
            job(bad, good, report=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for wrong in (torch.ones((3, 3, 3), dtype=torch.complex64), torch.ones((3, 3, 3), dtype=torch.bfloat16), torch.zeros((0, 3, 3))):
            with refused(vx.InputError, "values"):
                vx.image(wrong.cuda(), affine=EYE)
        with refused(vx.InputError, "values"):
            vx.image(torch.ones((3, 3, 3), device="cuda").to_sparse(), affine=EYE)
