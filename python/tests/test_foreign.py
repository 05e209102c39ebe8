"""Images, tensors and transforms of ITK, SimpleITK, ANTs, nibabel, torch and jax themselves; what is not installed is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import SimpleITK
from conftest import OBLIQUE, blobs

import voxalign as vx


def needed(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed, whose objects are tested here")


def geometry(kind: str) -> tuple[tuple[int, ...], np.ndarray]:
    """A shape and an affine with orthogonal axes."""
    if kind == "plane":
        affine = np.diag([0.5, 2.0, 1.0, 1.0])
        affine[:2, 3] = (3.0, -4.0)
        return (6, 5), affine
    if kind == "turned plane":
        affine = np.eye(4)
        affine[:2, :2] = np.array([[0.8, 0.6], [-0.6, 0.8]]) * [0.5, 2.0]
        return (6, 5), affine
    affine = np.eye(4)
    affine[:3, 3] = (12.5, -3.25, 88.0)
    if kind == "oblique":
        affine[:3, :3] = np.linalg.qr(OBLIQUE[:3, :3])[0] * [0.9, 1.4, 3.0]
    else:
        affine[:3, :3] = np.diag([-1.0, 1.5, -2.0])
    return (7, 6, 5), affine


KINDS = ["oblique", "flipped", "plane", "turned plane"]


@pytest.fixture(params=KINDS)
def image(request: pytest.FixtureRequest) -> vx.Image:
    shape, affine = geometry(request.param)
    return vx.image(blobs(shape), affine=affine)


def agree(back: vx.Image, image: vx.Image) -> None:
    assert back.shape == image.shape
    np.testing.assert_array_equal(back.numpy(), image.numpy())
    np.testing.assert_allclose(back.affine, image.affine, atol=1e-6)


def world(image: vx.Image, at: tuple[int, ...]) -> np.ndarray:
    """The place of a voxel, LPS mm."""
    place = image.affine @ [*at, *[0] * (3 - len(at)), 1]
    return place[: len(at)] * np.array([-1, -1, 1])[: len(at)]


def test_itk(image: vx.Image, tmp_path: Path) -> None:
    itk = needed("itk")
    theirs = image.to_itk()
    at = (2, 1, 3)[: image.ndim]
    np.testing.assert_allclose(theirs.TransformIndexToPhysicalPoint(at), world(image, at), atol=1e-9)
    assert theirs.GetPixel(at) == image.numpy()[at]
    agree(vx.image(theirs), image)
    # Through a file of each.
    itk.imwrite(theirs, str(tmp_path / "theirs.mha"))
    agree(vx.read(tmp_path / "theirs.mha"), image)
    # Of two dimensions where the format is NIfTI.
    mine = tmp_path / ("mine.nii" if image.ndim == 2 else "mine.mha")
    image.save(mine)
    agree(vx.image(itk.imread(str(mine), itk.F)), image)


@pytest.mark.parametrize("pixel", ["UC", "SS", "D"])
def test_pixels_of_itk(pixel: str) -> None:
    itk = needed("itk")
    values = np.arange(60).reshape(3, 4, 5)
    theirs = itk.image_from_array(values.astype({"UC": "u1", "SS": "i2", "D": "f8"}[pixel]))
    np.testing.assert_array_equal(vx.image(theirs).numpy(), values.T)
    colours = itk.Image[itk.RGBPixel[itk.UC], 2].New()
    colours.SetRegions([4, 4])
    colours.Allocate()
    vectors = itk.image_from_array(np.zeros((4, 4, 3), dtype="f4"), is_vector=True)
    for wrong in (colours, vectors):
        with pytest.raises(vx.InputError, match="vectors or colours"):
            vx.image(wrong)


def test_ants(image: vx.Image, tmp_path: Path) -> None:
    ants = needed("ants")
    theirs = image.to_ants()
    at = (2, 1, 3)[: image.ndim]
    np.testing.assert_allclose(ants.transform_index_to_physical_point(theirs, at), world(image, at), atol=1e-6)
    agree(vx.image(theirs), image)
    ants.image_write(theirs, str(tmp_path / "theirs.mha"))
    agree(vx.read(tmp_path / "theirs.mha"), image)
    # Of two dimensions where the format is NIfTI.
    mine = tmp_path / ("mine.nii" if image.ndim == 2 else "mine.mha")
    image.save(mine)
    agree(vx.image(ants.image_read(str(mine))), image)
    if image.ndim == 2:
        with pytest.raises(vx.InputError, match="vectors or colours"):
            vx.image(ants.merge_channels([theirs, theirs]))


@pytest.mark.parametrize("kind", ["oblique", "flipped"])
def test_nibabel(kind: str, tmp_path: Path) -> None:
    shape, affine = geometry(kind)
    image = vx.image(blobs(shape), affine=affine)
    theirs = image.to_nibabel()
    agree(vx.image(theirs), image)
    nibabel.save(theirs, tmp_path / "theirs.nii")
    agree(vx.read(tmp_path / "theirs.nii"), image)
    image.save(tmp_path / "mine.nii")
    agree(vx.image(nibabel.load(tmp_path / "mine.nii")), image)


def test_torch() -> None:
    torch = needed("torch")
    values = blobs((6, 5, 4))
    tensor = torch.tensor(values)
    for given in (
        tensor,
        tensor.double(),
        tensor.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        tensor.clone().requires_grad_(),
        torch.nn.Parameter(tensor.clone()),
        tensor[None, None][0, 0],
        torch.stack([tensor, tensor], dim=-1)[..., 0],
    ):
        np.testing.assert_array_equal(vx.image(given, affine=OBLIQUE).numpy(), values)
    np.testing.assert_array_equal(vx.image(tensor.bfloat16().float(), affine=OBLIQUE).numpy(), tensor.bfloat16().float())
    np.testing.assert_array_equal(vx.image(tensor.to(torch.int16), affine=OBLIQUE).numpy(), values.astype("i2"))
    image = vx.image(tensor, affine=OBLIQUE)
    back = torch.from_dlpack(image)
    assert back.dtype == torch.float32 and torch.equal(back, tensor)
    back.zero_()
    np.testing.assert_array_equal(image.numpy(), values)
    tensor.zero_()
    np.testing.assert_array_equal(image.numpy(), values)
    for wrong in (tensor.to(torch.complex64), tensor.to_sparse(), tensor.bfloat16(), tensor.to("meta"), tensor[None].expand(3, -1, -1, -1)):
        with pytest.raises(vx.InputError):
            vx.image(wrong, affine=OBLIQUE)
    with pytest.raises(vx.InputError, match="geometry"):
        vx.image(tensor)


def test_jax() -> None:
    jax = needed("jax")
    values = blobs((6, 5, 4))
    array = jax.numpy.asarray(values)
    for given in (array, array.T.T, jax.numpy.flip(jax.numpy.flip(array, 0), 0)):
        np.testing.assert_array_equal(vx.image(given, affine=OBLIQUE).numpy(), values)
    image = vx.image(array, affine=OBLIQUE)
    np.testing.assert_array_equal(jax.numpy.from_dlpack(image), values)
    np.testing.assert_array_equal(jax.numpy.asarray(image.numpy()), values)
    with pytest.raises(vx.InputError, match="geometry"):
        vx.image(array)
    with pytest.raises(vx.InputError):
        vx.image(array.astype("bfloat16"), affine=OBLIQUE)


# What was found, in memory and through files.


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[vx.Image, vx.Image, vx.Result, Path]:
    """An oblique pair, orthogonal as images of ITK are, and a deformation."""
    folder = tmp_path_factory.mktemp("found")
    affine = np.eye(4)
    affine[:3, :3] = np.linalg.qr(OBLIQUE[:3, :3])[0] * [2.0, 2.2, 2.6]
    affine[:3, 3] = (30, -20, 12)
    pair = [vx.image(blobs((26, 24, 20), shift), affine=affine) for shift in (0.0, 2.0)]
    for image, name in zip(pair, ("fixed", "moving")):
        image.save(folder / f"{name}.nii.gz")
    result = vx.deform(*pair, output=folder / "out", schedule="2x20,1x5", device="cpu", report=False)
    return pair[0], pair[1], result, folder / "out"


def inside(image: vx.Image, count: int = 200) -> np.ndarray:
    """Points within an image, RAS mm."""
    at = np.random.default_rng(1).uniform(0.25, 0.75, (count, 3)) * (np.array(image.shape) - 1)
    return at @ image.affine[:3, :3].T + image.affine[:3, 3]


def carried_by_sitk(transform: Any, points: np.ndarray) -> np.ndarray:
    flip = np.array([-1.0, -1.0, 1.0])
    return np.array([transform.TransformPoint((p * flip).tolist()) for p in points]) * flip


def test_transforms_in_memory_and_in_files(found: tuple[vx.Image, vx.Image, vx.Result, Path], tmp_path: Path) -> None:
    fixed, _, result, out = found
    points = inside(fixed)
    whole = result.transform
    affine = vx.read_transform(out / "affine.tfm")
    for transform, name in ((affine, "a.tfm"), (affine, "a.mat"), (affine, "a.h5"), (whole, "w.h5")):
        transform.save(tmp_path / name)
        read = carried_by_sitk(SimpleITK.ReadTransform(str(tmp_path / name)), points)
        held = carried_by_sitk(transform.to_sitk(), points)
        np.testing.assert_allclose(held, read, atol=1e-6)
        np.testing.assert_allclose(held, transform(points), atol=1e-6)
    assert np.abs(whole(points) - affine(points)).max() > 0.3


def test_warped_images_in_memory_and_in_files(found: tuple[vx.Image, vx.Image, vx.Result, Path]) -> None:
    _, _, result, out = found
    path = str(out / "warped.nii.gz")
    held, read = result.warped.to_sitk(), SimpleITK.ReadImage(path)
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(held), SimpleITK.GetArrayFromImage(read))
    np.testing.assert_allclose(held.GetDirection(), read.GetDirection(), atol=1e-6)
    np.testing.assert_allclose(held.GetOrigin(), read.GetOrigin(), atol=1e-5)
    of_nibabel, file = result.warped.to_nibabel(), nibabel.load(path)
    np.testing.assert_array_equal(np.asarray(of_nibabel.dataobj), np.asarray(file.dataobj))
    np.testing.assert_allclose(of_nibabel.affine, file.affine, atol=1e-6)


def test_simpleitk_resamples_to_the_same(found: tuple[vx.Image, vx.Image, vx.Result, Path]) -> None:
    fixed, moving, result, _ = found
    theirs = SimpleITK.Resample(moving.to_sitk(), fixed.to_sitk(), result.transform.to_sitk(), SimpleITK.sitkLinear, 0.0)
    mine = vx.apply(moving, reference=fixed, transform=result.transform).numpy()
    np.testing.assert_allclose(SimpleITK.GetArrayFromImage(theirs).T, mine, atol=1e-6 * mine.max())


def test_ants_resamples_to_the_same(found: tuple[vx.Image, vx.Image, vx.Result, Path]) -> None:
    ants = needed("ants")
    fixed, moving, result, out = found
    np.testing.assert_array_equal(result.warped.to_ants().numpy(), ants.image_read(str(out / "warped.nii.gz")).numpy())
    files = [str(out / "warp.nii.gz"), str(out / "affine.tfm")]
    theirs = ants.apply_transforms(fixed.to_ants(), moving.to_ants(), files, interpolator="linear").numpy()
    mine = vx.apply(moving, reference=fixed, transform=result.transform).numpy()
    np.testing.assert_allclose(theirs, mine, atol=1e-6 * mine.max())
    # Points, the same way round as images of the fixed grid, of which ANTs has 32-bit floats.
    points = inside(fixed, 20)
    pandas = needed("pandas")
    table = pandas.DataFrame(points * [-1, -1, 1], columns=["x", "y", "z"])
    there = ants.apply_transforms_to_points(3, table, files, whichtoinvert=[False, False])
    np.testing.assert_allclose(there[["x", "y", "z"]].to_numpy() * [-1, -1, 1], result.transform(points), atol=1e-4)


@pytest.mark.parametrize("holder", ["itk", "ants", "torch", "jax"])
def test_registering_what_others_hold(holder: str, found: tuple[vx.Image, vx.Image, vx.Result, Path]) -> None:
    package = needed(holder)
    fixed, moving, _, _ = found
    quick = {"search": "local", "dof": 6, "device": "cpu", "report": False}
    expected = vx.affine(fixed, moving, **quick).transform.affine
    if holder == "itk":
        pair = [fixed.to_itk(), moving.to_itk()]
    elif holder == "ants":
        pair = [fixed.to_ants(), moving.to_ants()]
    else:
        take = package.from_dlpack if holder == "torch" else package.numpy.from_dlpack
        pair = [vx.image(take(image), affine=image.affine) for image in (fixed, moving)]
    np.testing.assert_allclose(vx.affine(*pair, **quick).transform.affine, expected, atol=1e-6)


def test_transforms_and_images_of_the_plane(tmp_path: Path) -> None:
    _, affine = geometry("turned plane")
    fixed, moving = (vx.image(blobs((40, 36), shift), affine=affine) for shift in (0.0, 1.5))
    result = vx.deform(fixed, moving, output=tmp_path / "out", dof=3, schedule="2x10", device="cpu", report=False)
    held, read = result.warped.to_sitk(), SimpleITK.ReadImage(str(tmp_path / "out/warped.nii.gz"))
    assert held.GetDimension() == read.GetDimension() == 2
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(held), SimpleITK.GetArrayFromImage(read))
    np.testing.assert_allclose(held.GetDirection(), read.GetDirection(), atol=1e-6)
    # The deformation, and its affine part, in memory and in files.
    mine = vx.apply(moving, reference=fixed, transform=result.transform).numpy()
    theirs = SimpleITK.Resample(moving.to_sitk(), fixed.to_sitk(), result.transform.to_sitk(), SimpleITK.sitkLinear, 0.0)
    np.testing.assert_allclose(SimpleITK.GetArrayFromImage(theirs).T, mine, atol=1e-6 * mine.max())
    part = vx.read_transform(tmp_path / "out/affine.tfm")
    of_file = SimpleITK.ReadTransform(str(tmp_path / "out/affine.tfm"))
    for at in ((0.0, 0.0), (5.0, -3.0)):
        np.testing.assert_allclose(part.to_sitk(dimensions=2).TransformPoint(at), of_file.TransformPoint(at), atol=1e-9)
        np.testing.assert_allclose(part([-at[0], -at[1], 0.0])[:2], -np.array(of_file.TransformPoint(at)), atol=1e-9)
    for wrong in (1, 4, "two", True, 2.5):
        with pytest.raises(vx.OptionError, match="`dimensions` is"):
            part.to_sitk(dimensions=wrong)
    with pytest.raises(vx.InputError, match="2 dimensions"):
        result.transform.to_sitk(dimensions=3)
    leaning = np.eye(4)
    leaning[0, 2] = 0.1
    with pytest.raises(vx.InputError, match="leaves the plane"):
        vx.Transform(leaning).to_sitk(dimensions=2)
