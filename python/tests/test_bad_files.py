"""Files that cannot be used are refused with their name, and nothing is written."""

from __future__ import annotations

import gzip
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import OBLIQUE, blobs, refused

import voxalign as vx

pytestmark = pytest.mark.usefixtures("nothing_left")

IMAGE = vx.Image(blobs((12, 11, 10)), OBLIQUE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files, and ones that were damaged, named for what is wrong."""
    folder = tmp_path_factory.mktemp("files")
    IMAGE.save(folder / "good.nii")
    IMAGE.save(folder / "good.mha")
    IMAGE.save(folder / "good.nrrd")
    IMAGE.save(folder / "good.hdr")
    vx.Transform(np.eye(4)).save(folder / "good.tfm")
    whole = (folder / "good.nii").read_bytes()

    def damaged(at: int, new: bytes) -> bytes:
        return whole[:at] + new + whole[at + len(new):]

    written = {
        "cut.nii": whole[:-9],
        "head.nii": whole[:100],
        "header.nii": whole[:352],
        "empty.nii": b"",
        "noise.nii": b"x" * 500,
        "zeros.nii": bytes(500),
        "cut.nii.gz": gzip.compress(whole)[:-20],
        "noise.nii.gz": b"\x1f\x8b" + b"x" * 200,
        "plain.nii.gz": whole[:360],
        "dimensions.nii": damaged(40, b"\xff\xff"),
        "no_voxels.nii": damaged(42, b"\0\0"),
        "negative.nii": damaged(42, b"\xff\xff"),
        "huge.nii": damaged(40, b"\x03\0" + b"\xff\x7f" * 3),
        "type.nii": damaged(70, b"\x07\0"),
        "colours.nii": damaged(70, b"\x80\0\x18\0"),
        "complex.nii": damaged(70, b"\x20\0\x40\0"),
        "cut.mha": (folder / "good.mha").read_bytes()[:-9],
        "header.mha": b"NDims = 3\nDimSize = 3 3 3\n",
        "cut.nrrd": (folder / "good.nrrd").read_bytes()[:-9],
        "noise.nrrd": b"NRRD0004\nsizes: a b c\n\n",
        "text.txt": b"nothing of interest\n",
        "noise.h5": b"\x89HDF\r\n\x1a\n" + b"x" * 100,
        "noise.png": b"\x89PNG\r\n\x1a\n" + b"x" * 100,
        "noise.dcm": bytes(128) + b"DICM" + b"x" * 100,
        "unknown.xyz": b"x",
        "noise.tfm": b"#Insight Transform File V1.0\nTransform: Something_double_9_9\n",
        "singular.tfm": b"#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
        b"Parameters: 0 0 0 0 0 0 0 0 0 0 0 0\nFixedParameters: 0 0 0\n",
        "nan.tfm": b"#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
        b"Parameters: nan 0 0 0 1 0 0 0 1 0 0 0\nFixedParameters: 0 0 0\n",
        "short.tfm": b"#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
        b"Parameters: 1 0 0\nFixedParameters: 0 0 0\n",
        "names.csv": b"a,b\n1,2\n",
        "points.csv": b"x,y,z\n1,2\n",
        "words.csv": b"x,y,z\n1,2,three\n",
    }
    for name, content in written.items():
        (folder / name).write_bytes(content)
    (folder / "folder.nii").mkdir()
    (folder / "dicom").mkdir()
    (folder / "lone.hdr").write_bytes((folder / "good.hdr").read_bytes())
    (folder / "gone.nii").symlink_to(folder / "nowhere.nii")
    (folder / "loop.nii").symlink_to(folder / "loop.nii")
    return folder


IMAGES = [
    "nowhere.nii", "cut.nii", "head.nii", "header.nii", "empty.nii", "noise.nii", "zeros.nii", "cut.nii.gz", "noise.nii.gz",
    "plain.nii.gz", "dimensions.nii", "no_voxels.nii", "negative.nii", "huge.nii", "type.nii", "colours.nii", "complex.nii",
    "cut.mha", "header.mha", "cut.nrrd", "noise.nrrd", "text.txt", "noise.h5", "noise.png", "noise.dcm", "unknown.xyz",
    "good.tfm", "folder.nii", "dicom", "lone.hdr", "gone.nii", "loop.nii", "points.csv", "good.nii/inside.nii",
]


@pytest.mark.parametrize("name", IMAGES)
def test_reading(name: str, files: Path) -> None:
    with refused(vx.InputError, Path(name).name):
        vx.read(files / name)
    with refused(vx.InputError, Path(name).name):
        vx.image(str(files / name))


@pytest.mark.parametrize("name", IMAGES)
def test_registering(name: str, files: Path) -> None:
    with refused(vx.InputError, Path(name).name):
        vx.affine(files / name, IMAGE, device="cpu")
    with refused(vx.InputError, Path(name).name):
        vx.deform(files / "good.nii", files / name, device="cpu", output="out")


TRANSFORMS = [
    "nowhere.tfm", "noise.tfm", "singular.tfm", "nan.tfm", "short.tfm", "noise.h5", "good.nii", "text.txt", "empty.nii",
    "folder.nii", "gone.nii", "points.csv", "unknown.xyz",
]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, files: Path) -> None:
    said = name if name != "singular.tfm" else "singular"
    with refused(vx.InputError, said):
        vx.read_transform(files / name).inverse()
    with refused(vx.InputError, said):
        vx.invert(files / name)
    if name != "singular.tfm":
        with refused(vx.InputError, said):
            vx.apply(IMAGE, reference=IMAGE, transform=[vx.Transform(np.eye(4)), f"inverse:{files / name}"])
        with refused(vx.InputError, said):
            vx.compose([files / "good.tfm", files / name])


PATHS: dict[str, object] = {
    "none": None,
    "bytes": b"a.nii",
    "a number": 3,
    "a list": ["a.nii"],
    "a handle": io.BytesIO(b"x"),
    "an array": np.zeros(3),
    "a path of bytes": type("OfBytes", (), {"__fspath__": lambda self: b"a.nii"})(),
    "a path of numbers": type("OfNumbers", (), {"__fspath__": lambda self: 3})(),
    "a path that fails": type("Failing", (), {"__fspath__": lambda self: 1 / 0})(),
    "not unicode": "\ud800.nii",
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_of_wrong_types(name: str) -> None:
    with refused(vx.InputError, "the path is"):
        vx.read(PATHS[name])
    with refused(vx.InputError, "the path is"):
        vx.read_transform(PATHS[name])
    with refused(vx.InputError, "the path is"):
        IMAGE.save(PATHS[name])


@pytest.mark.parametrize("text", ["", " ", "\0", "a\0b.nii", "x" * 5000, "a/" * 3000, "\n", "~/nowhere.nii", "http://a/b.nii"], ids=ascii)
def test_paths_that_name_nothing(text: str) -> None:
    with refused(vx.InputError):
        vx.read(text)
    with refused(vx.InputError):
        vx.affine(text, IMAGE)
    with refused(vx.InputError):
        vx.read_transform(text)


def test_closed_and_deleted_files(files: Path) -> None:
    with (files / "good.nii").open("rb") as handle:
        pass
    for stream in (handle, handle.name.encode()):
        with refused(vx.InputError, "`fixed`"):
            vx.affine(stream, IMAGE)
    with tempfile.NamedTemporaryFile(suffix=".nii", dir=files) as temporary:
        IMAGE.save(temporary.name)
        vx.read(temporary.name)
    with refused(vx.InputError, Path(temporary.name).name, "check the path"):
        vx.read(temporary.name)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"volume": -1}, vx.OptionError, "`volume` is -1"),
        ({"volume": 1.5}, vx.OptionError, "`volume` is 1.5"),
        ({"volume": True}, vx.OptionError, "`volume` is True"),
        ({"volume": "first"}, vx.OptionError, "`volume` is 'first'"),
        ({"volume": 2**70}, vx.OptionError, "`volume`"),
        ({"volume": [0]}, vx.OptionError, "`volume`"),
        ({"volume": 7}, vx.InputError, "good.nii"),
        ({"series": 3}, vx.OptionError, "`series` is 3; give a text"),
        ({"series": b"1.2"}, vx.OptionError, "`series`"),
        ({"series": "1.2.3"}, vx.InputError, "good.nii"),
        ({"volumes": 1}, TypeError, "volumes"),
    ],
    ids=repr,
)
def test_options_of_reading(options: dict[str, object], error: type[Exception], said: str, files: Path) -> None:
    with refused(error, said):
        vx.read(files / "good.nii", **options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: vx.info([]), "`files`"),
        (lambda f: vx.info([f / "nowhere.nii"]), "nowhere.nii"),
        (lambda f: vx.info(f / "noise.nii"), "noise.nii"),
        (lambda f: vx.convert(f / "nowhere.nii", "a.nii"), "nowhere.nii"),
        (lambda f: vx.convert(f / "cut.nii", "a.nii"), "cut.nii"),
        (lambda f: vx.convert(f / "good.nii", "a.xyz"), "a.xyz"),
        (lambda f: vx.convert(f / "good.nii", "a.tfm"), "a.tfm"),
        (lambda f: vx.stack("mean", [f / "good.nii", f / "cut.nii"], output="a.nii"), "cut.nii"),
        (lambda f: vx.stack("mean", [], output="a.nii"), "images"),
        (lambda f: vx.surface(f / "cut.nii", output="a.gii", label=1), "cut.nii"),
        (lambda f: vx.segment(f / "cut.nii", output="a"), "cut.nii"),
        (lambda f: vx.drr(f / "cut.nii", output="a", view="ap"), "cut.nii"),
        (lambda f: vx.pose(f / "good.nii", [f / "noise.png"], geometry="views.toml"), "views.toml"),
        (lambda f: vx.anatomy(f / "nowhere.toml", f / "nowhere.toml"), "nowhere.toml"),
        (lambda f: vx.anatomy(f / "good.nii", f / "good.nii"), "good.nii"),
        (lambda f: vx.atlas([f / "good.nii", f / "cut.nii"], output="a"), "cut.nii"),
        (lambda f: vx.atlas([f / "good.nii"], output="a"), "two"),
        (lambda f: vx.apply(f / "points.csv", transform=f / "good.tfm", output="a.csv"), "points.csv"),
        (lambda f: vx.apply(f / "words.csv", transform=f / "good.tfm", output="a.csv"), "words.csv"),
        (lambda f: vx.apply(f / "names.csv", transform=f / "good.tfm", output="a.csv"), "names.csv"),
        (lambda f: vx.apply(f / "cut.nii", reference=IMAGE), "cut.nii"),
        (lambda f: vx.apply(IMAGE, reference=f / "cut.nii.gz"), "cut.nii.gz"),
        (lambda f: vx.compare(f / "good.nii", f / "cut.nii"), "cut.nii"),
        (lambda f: vx.compare(points=[f / "points.csv", f / "words.csv"]), "points.csv"),
    ],
)
def test_files_of_other_functions(call: object, said: str, files: Path) -> None:
    with pytest.raises((vx.InputError, vx.OptionError)) as raised:
        call(files)
    assert said in str(raised.value), raised.value


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be read by root")
def test_files_that_may_not_be_read(files: Path) -> None:
    closed = files / "closed.nii"
    IMAGE.save(closed)
    closed.chmod(0)
    with refused(vx.InputError, "closed.nii"):
        vx.read(closed)
