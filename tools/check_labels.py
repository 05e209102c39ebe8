#!/usr/bin/env python3
"""Has other programs' libraries read label maps with names and colours, and animations, and reads what these write.

    tools/check_labels.py [--labels target/debug/examples/label_files] [--animation target/debug/examples/animation]

Needs numpy, nibabel, SimpleITK, pynrrd, slicerio (3D Slicer's own reader of segmentations for Python) and Pillow, and the examples:
`cargo build -p voxalign-io --example label_files` and `cargo build -p voxalign-report --example animation`. Ends with 1 where
something differs: values, names, label values, and colours to 8 bits; world positions of voxels by more than rounding, which in
NIfTI is that of 32 bits.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import nibabel as nib
import numpy as np
import nrrd
import SimpleITK as sitk
import slicerio
from PIL import Image

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
TABLE = [(1, (221, 130, 101), "liver"), (2, (0, 255, 1), "kidney, left | a:=b ~^&"), (7, (12, 34, 56), "Tumour #1 'x'"),
         (300, (255, 255, 255), "Niere \u00e9 \u809d")]
# ITK-SNAP's own layout of a label description file.
SNAP = "".join(f"{v:5d}   {r:3d}  {g:3d}  {b:3d}  {1.0:7.2g}  1  1    \"{n}\"\n" for v, (r, g, b), n in TABLE)
SNAP = "################################################\n# ITK-SnAP Label Description File\n" \
       "# File format: \n    0     0    0    0        0  0  0    \"Clear Label\"\n" + SNAP


def rotation(x, y, z):
    rx = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
    ry = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
    rz = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
    return rz @ ry @ rx


def grid(angles, spacing, origin):
    affine = np.eye(4)
    affine[:3, :3] = rotation(*angles) @ np.diag(spacing)
    affine[:3, 3] = origin
    return affine


# Name, sizes, affine, largest label.
GRIDS = [
    ("plain", (7, 6, 5), grid((0, 0, 0), (1, 1, 1), (0, 0, 0)), 7),
    ("flipped", (7, 6, 5), grid((0, 0, 0), (-1, 1, 1), (90, -126, -72)), 300),
    ("LPS", (7, 6, 5), grid((0, 0, 0), (-1, -1, 1), (90, 126, -72)), 7),
    ("anisotropic", (9, 4, 3), grid((0, 0, 0), (0.45, 0.5, 6), (-20, 30, 1000)), 300),
    ("oblique", (7, 6, 5), grid((0.3, -0.2, 1.1), (1, 1, 1), (-4.5, 12, 33.25)), 300),
    ("all of it", (7, 6, 5), grid((0.1, 0.7, -2.3), (0.5, -0.75, 4), (3, -70, 9)), 300),
    ("slice", (8, 6, 1), grid((0, 0, 0), (0.25, 0.25, 1), (1, 2, 3)), 7),
    ("oblique slice", (8, 6, 1), grid((0.4, 0.1, 0), (0.25, -0.3, 5), (7, 8, 9)), 300),
    ("image of 2 dimensions", (8, 6), grid((0, 0, 0), (0.25, 0.5, 1), (0, 0, 0)), 7),
]


class Check:
    def __init__(self):
        self.failed = self.done = 0

    def __call__(self, what, good, detail=""):
        self.done += 1
        self.failed += not good
        if not good:
            print(f"    {what}: {detail}  <-- BAD")

    def near(self, what, found, expected, allowed):
        found, expected = np.asarray(found, float), np.asarray(expected, float)
        same = found.shape == expected.shape
        worst = float(np.abs(found - expected).max()) if same else float("nan")
        self(what, same and worst <= allowed, f"{worst} of {allowed} allowed")
        return worst


def corners(shape):
    return np.array(np.meshgrid(*[[0, n - 1] for n in shape], indexing="ij")).reshape(3, -1).T


def of_ascii(name):
    """What pynrrd leaves of a name."""
    return name.encode("ascii", "ignore").decode().strip()


def positions(affine, index):
    return index @ affine[:3, :3].T + affine[:3, 3]


def by_sitk(image, index):
    """World positions in RAS, also of an image of two dimensions."""
    flip = np.array([-1.0, -1.0, 1.0])[:image.GetDimension()]
    points = [image.TransformIndexToPhysicalPoint([int(i) for i in p[:image.GetDimension()]]) for p in index]
    points = np.array(points) * flip
    return np.hstack([points, np.zeros((len(points), 3 - points.shape[1]))])


def descriptions(path):
    """A label description file as ITK-SNAP parses it: seven numbers, then what is between quotes."""
    found = []
    for line in open(path, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        words = line.split(maxsplit=7)
        value, r, g, b = map(int, words[:4])
        alpha, shown, mesh = float(words[4]), int(words[5]), int(words[6])
        name = re.match(r'[^"]*"([^"]*)"', line).group(1)
        if value == 0:
            assert (alpha, shown, mesh) == (0, 0, 0)
            continue
        assert (alpha, shown, mesh) == (1, 1, 1), line
        found.append((value, (r, g, b), name))
    return found


def segmentation(check, path, data, affine, table):
    """A `.seg.nrrd` of ours, by slicerio, pynrrd and SimpleITK."""
    cube = data.reshape(data.shape + (1,) * (3 - data.ndim))
    index = corners(cube.shape)
    expected = positions(affine, index)
    read = slicerio.read_segmentation(path)
    check("slicerio: values", np.array_equal(read["voxels"], cube))
    worst = check.near("slicerio: world", positions(LPS @ read["ijkToLPS"], index), expected, 1e-9)
    check("slicerio: representation", read["masterRepresentation"] == "Binary labelmap")
    check("slicerio: representations", read["containedRepresentationNames"] == ["Binary labelmap"])
    check("slicerio: offset", read["referenceImageExtentOffset"] == [0, 0, 0])
    geometry = [float(v) for v in read["conversionParameters"][0]["value"].split(";")[:-1]]
    check.near("reference geometry", np.reshape(geometry[:16], (4, 4)), affine, 1e-9)
    extent = [v for n in cube.shape for v in (0, n - 1)]
    check("reference extent", geometry[16:] == extent)
    found = []
    for segment in read["segments"]:
        check("slicerio: extent", segment["extent"] == extent, segment["extent"])
        check("slicerio: layer", segment["layer"] == 0)
        check("slicerio: not made up", not segment["nameAutoGenerated"] and not segment["colorAutoGenerated"])
        check("slicerio: terminology", segment["terminology"]["type"] == ["SCT", "85756007", "Tissue"])
        check("slicerio: ID", segment["id"] == f"Segment_{segment['labelValue']}")
        found.append((segment["labelValue"], tuple(round(c * 255) for c in segment["color"]), segment["name"]))
    check("slicerio: segments", found == [(v, c, of_ascii(n)) for v, c, n in table], found)
    values, header = nrrd.read(path)
    check("pynrrd: values", np.array_equal(values, cube))
    check("pynrrd: fields", header["space"] == "left-posterior-superior" and header["encoding"] == "gzip")
    image = sitk.ReadImage(path)
    check("SimpleITK: values", np.array_equal(sitk.GetArrayFromImage(image).transpose(2, 1, 0), cube))
    check.near("SimpleITK: world", by_sitk(image, index), expected, 1e-6)
    names = [image.GetMetaData(f"Segment{i}_Name") for i in range(len(table))]
    # SimpleITK hands texts over as they stand in the file, also where they are not ASCII.
    check("SimpleITK: names", names == [n for _, _, n in table], names)
    check("SimpleITK: no more", not image.HasMetaDataKey(f"Segment{len(table)}_ID"))
    return worst


def nifti(check, path, data, affine, table):
    """A NIfTI file of ours, by nibabel and SimpleITK, with the file beside it."""
    image = nib.load(path)
    check("nibabel: values", np.array_equal(np.asarray(image.dataobj), data))
    check("nibabel: sizes", image.shape == data.shape, image.shape)
    check("nibabel: intent", image.header.get_intent()[0] == "label", image.header.get_intent())
    kind = "uint8" if max(v for v, _, _ in table) < 256 else "int16"
    check("nibabel: type", image.get_data_dtype() == np.dtype(kind), image.get_data_dtype())
    index = corners(data.shape + (1,) * (3 - data.ndim))
    expected = positions(affine, index)
    worst = check.near("nibabel: sform", positions(image.get_sform(), index), expected, 1e-4)
    check.near("nibabel: qform", positions(image.get_qform(), index), expected, 1e-4)
    other = sitk.ReadImage(path)
    check("SimpleITK: values", np.array_equal(sitk.GetArrayFromImage(other).T, data))
    check.near("SimpleITK: world", by_sitk(other, index), expected, 1e-4)
    found = descriptions(re.sub(r"\.nii(\.gz)?$", "_labels.txt", path))
    check("label descriptions", found == table, found)
    return worst


def labels(check, run):
    print(f"  {'grid':<24} {'.seg.nrrd, mm':<15} NIfTI, mm")
    for name, shape, affine, largest in GRIDS:
        table = [row for row in TABLE if row[0] <= largest]
        with tempfile.TemporaryDirectory() as folder:
            # Not all labels need to be there.
            values = np.array([0, 1, 2, largest, 0, 1, 1])
            data = values[(np.indices(shape).T @ [3, 5, 1][:len(shape)]).T % 7].astype("i4")
            source = f"{folder}/source.nii"
            image = nib.Nifti1Image(data, affine)
            image.set_sform(affine, 1)
            image.set_qform(affine, 1)
            nib.save(image, source)
            # As it is in the file, whose numbers have 32 bits.
            affine = nib.load(source).get_sform()
            text = f"{folder}/given.txt"
            lines = [l for l in SNAP.splitlines() if l.startswith("#") or int(l.split()[0]) <= largest]
            open(text, "w", encoding="utf-8").write("\n".join(lines) + "\n")
            run(source, text, f"{folder}/a.seg.nrrd")
            one = segmentation(check, f"{folder}/a.seg.nrrd", data, affine, table)
            two = []
            for end in ["nii", "nii.gz"]:
                run(source, text, f"{folder}/b.{end}")
                two.append(nifti(check, f"{folder}/b.{end}", data, affine, table))
            # Ours are read here as they are there: the segmentation with its own names.
            run(f"{folder}/a.seg.nrrd", f"{folder}/a.seg.nrrd", f"{folder}/c.nii.gz")
            cube = data.reshape(data.shape + (1,) * (3 - data.ndim))
            nifti(check, f"{folder}/c.nii.gz", cube, affine, table)
            theirs(check, run, folder, cube, affine, table)
        print(f"  {name:<24} {one:<15.3g} {max(two):.3g}")


def theirs(check, run, folder, data, affine, table):
    """A segmentation that slicerio writes."""
    segments = [{"id": f"id{v}", "labelValue": v, "layer": 0, "name": of_ascii(n), "color": [c / 255 for c in rgb],
                 "extent": [v for n in data.shape for v in (0, n - 1)],
                 "terminology": {"contextName": "any", "category": ["SCT", "1", "a"], "type": ["SCT", "2", "b"]}}
                for v, rgb, n in table]
    path = f"{folder}/theirs.seg.nrrd"
    slicerio.write_segmentation(path, {
        "voxels": data.astype("i2"), "ijkToLPS": LPS @ affine, "encoding": "gzip", "segments": segments,
        "masterRepresentation": "Binary labelmap", "containedRepresentationNames": ["Binary labelmap"],
        "referenceImageExtentOffset": [0, 0, 0]})
    run(path, path, f"{folder}/back.nii.gz")
    nifti(check, f"{folder}/back.nii.gz", data, affine, [(v, c, of_ascii(n)) for v, c, n in table])


COLOURS = {"grey": [(40,) * 3, (250,) * 3], "palette": [(10, 20, 30), (230, 25, 75)], "rgb": [(10, 20, 30), (0, 200, 255)]}


def animations(check, program):
    print(f"  {'animation':<24} {'frames':<7} times, ms")
    for colours, (dark, bright) in COLOURS.items():
        for frames, width, height in [(1, 20, 12), (2, 9, 7), (30, 120, 80), (100, 33, 1)]:
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/a.png"
                subprocess.run([program, path, colours, str(frames), str(width), str(height)], check=True)
                image = Image.open(path)
                check("Pillow: frames", getattr(image, "n_frames", 1) == frames, getattr(image, "n_frames", 1))
                check("Pillow: animated", getattr(image, "is_animated", False) == (frames > 1))
                check("Pillow: size", image.size == (width, height))
                times = []
                for n in range(frames):
                    image.seek(n)
                    x, y = np.meshgrid(np.arange(width), np.arange(height))
                    disc = (x - n * width // frames) ** 2 + (y - height // 2) ** 2 <= (height // 4) ** 2
                    expected = np.where(disc[..., None], bright, dark).astype("u1")
                    found = np.asarray(image.convert("RGB"))
                    check(f"Pillow: frame {n}", np.array_equal(found, expected))
                    times.append(image.info.get("duration"))
                if frames > 1:
                    check("Pillow: times", times == [50.0] * (frames - 1) + [1200.0], times)
                    check("Pillow: loop", image.info.get("loop") == 0, image.info.get("loop"))
                shown = sorted(set(times), key=str)
            print(f"  {f'{colours}, {width}x{height}':<24} {frames:<7} {shown}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="target/debug/examples/label_files")
    parser.add_argument("--animation", default="target/debug/examples/animation")
    options = parser.parse_args()
    check = Check()
    for program in [options.labels, options.animation]:
        if not os.path.exists(program):
            sys.exit(f"{program} is not there; build it as the first lines of this file say")
    labels(check, lambda *words: subprocess.run([options.labels, *words], check=True))
    animations(check, options.animation)
    print(f"all of {check.done} agree" if check.failed == 0 else f"{check.failed} of {check.done} DIFFER")
    return int(check.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
