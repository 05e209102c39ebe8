#!/usr/bin/env python3
"""Makes the images of this folder from the files of two packages; README.md says what each is.

    python3 -m venv VENV && VENV/bin/pip install numpy scipy nibabel nilearn==0.14.1
    apt-get install mricron-data                                 # 1.2.20211006+dfsg-4
    VENV/bin/python data/make.py [--nilearn DIR] [--mricron DIR] [--out DIR] [--check]

--nilearn  folder of nilearn's package data (default: found in the Python that runs this)
--mricron  folder of mricron-data's templates (default: /usr/share/mricron/templates)
--out      where to write (default: the folder of this script)
--check    write nothing; compare the voxels and headers with the files in --out, exit 1 on a difference

The output does not depend on the day or the machine's name: the gzip headers carry neither time nor name.
"""
import argparse
import gzip
import importlib.util
import pathlib
import sys

import nibabel as nib
import numpy as np
from scipy import ndimage

SPACING = 2.0  # mm, of every image made here
SIGMA = 0.85  # mm, the Gaussian before resampling: brings 1 mm voxels to about the resolution of 2 mm ones
ICBM = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


def load(path):
    """The voxels as float32 and the affine from voxel index to world (RAS+ mm)."""
    image = nib.load(path)
    affine = image.affine
    if np.any(affine[:3, :3] != np.diag(np.diag(affine[:3, :3]))) or np.any(np.diag(affine)[:3] <= 0):
        sys.exit(f"{path}: the axes are not plain right, anterior, superior; this script expects that")
    return np.asarray(image.dataobj, dtype=np.float32), affine


def grid(shape, affine):
    """The grid of SPACING whose first voxel centre is the first voxel centre of the given grid."""
    spacing = np.diag(affine)[:3]
    size = [int(np.floor((n - 1) * s / SPACING + 1e-6)) + 1 for n, s in zip(shape, spacing)]
    coarse = np.diag([SPACING, SPACING, SPACING, 1.0])
    coarse[:3, 3] = affine[:3, 3]
    return tuple(size), coarse


def resample(voxels, affine, size, coarse, order=1):
    """voxels at the voxel centres of the coarse grid; 0 outside."""
    step = np.linalg.inv(affine) @ coarse
    return ndimage.affine_transform(voxels, step[:3, :3], step[:3, 3], size, order=order, mode="constant")


def smooth(voxels, affine):
    return ndimage.gaussian_filter(voxels, SIGMA / np.diag(affine)[:3], mode="constant", truncate=4.0)


def shrink(voxels, affine):
    """Smoothed and resampled linearly to SPACING."""
    size, coarse = grid(voxels.shape, affine)
    return resample(smooth(voxels, affine), affine, size, coarse), coarse


def shrink_brain(voxels, affine):
    """Like shrink for an image whose background is 0, without a dark rim: the smoothing is normalised by the smoothed
    mask (the mean of the brain voxels alone), and what is less than half brain becomes background."""
    share, coarse = shrink((voxels > 0).astype(np.float32), affine)
    value, _ = shrink(voxels, affine)
    inside = share >= 0.5
    return np.where(inside, np.maximum(value / np.where(inside, share, 1), 1), 0), coarse


def three_classes(values):
    """1, 2, 3 for dark, middle, bright: one-dimensional 3-means, from the 5th, 50th and 95th percentile to convergence."""
    centre = np.percentile(values, [5, 50, 95])
    for _ in range(1000):
        group = np.digitize(values, (centre[:-1] + centre[1:]) / 2)
        new = np.array([values[group == k].mean() for k in range(3)])
        if np.abs(new - centre).max() < 1e-6:
            break
        centre = new
    return group + 1, centre


def to_bytes(voxels, affine, description, slope, intent):
    """A NIfTI-1 file, uint8, sform and qform alike (code 4: MNI 152 space)."""
    data = np.clip(np.rint(voxels), 0, 255).astype(np.uint8)
    header = nib.Nifti1Header()
    header.set_data_shape(data.shape)
    header.set_data_dtype(np.uint8)
    header.set_qform(affine, code=4)
    header.set_sform(affine, code=4)
    header.set_xyzt_units("mm")
    header.set_intent(intent)
    header["scl_slope"], header["scl_inter"] = slope, 0
    header["cal_max"] = data.max() * slope
    header["descrip"] = description.encode()
    header["magic"] = b"n+1"
    header["vox_offset"] = 352
    raw = header.binaryblock + bytes(4) + data.tobytes(order="F")
    return gzip.compress(raw, compresslevel=9, mtime=0)


def make(nilearn, mricron):
    """Yields name, file contents."""
    gm_1mm, affine = load(nilearn / ICBM.format("gm"))
    wm_1mm, _ = load(nilearn / ICBM.format("wm"))
    t1_1mm, t1_affine = load(nilearn / ICBM.format("t1"))
    assert np.array_equal(affine, t1_affine)
    t1, coarse = shrink_brain(t1_1mm, affine)
    gm, _ = shrink(gm_1mm, affine)
    wm, _ = shrink(wm_1mm, affine)
    yield "icbm152_t1", to_bytes(t1, coarse, "ICBM 152 2009a sym T1, brain, 2 mm", 1, "none")
    yield "icbm152_gm", to_bytes(gm, coarse, "ICBM 152 2009a sym grey matter, 2 mm", 1 / 255, "none")
    yield "icbm152_wm", to_bytes(wm, coarse, "ICBM 152 2009a sym white matter, 2 mm", 1 / 255, "none")
    tissues = np.where(gm + wm >= 127.5, np.where(wm > gm, 3, 2), 0)
    yield "icbm152_tissues", to_bytes(tissues, coarse, "derived: 2 = GM, 3 = WM", 1, "label")

    head, affine = load(mricron / "ch2.nii.gz")
    bet, bet_affine = load(mricron / "ch2bet.nii.gz")
    assert np.array_equal(affine, bet_affine)
    t1, coarse = shrink(head, affine)
    brain, _ = shrink_brain(bet, affine)
    yield "colin27_t1", to_bytes(t1, coarse, "Colin 27 (mricron ch2) T1, head, 2 mm", 1, "none")
    yield "colin27_brain", to_bytes(brain, coarse, "Colin 27 (mricron ch2bet) T1, brain, 2 mm", 1, "none")
    tissues = np.zeros(brain.shape)
    tissues[brain > 0], centre = three_classes(brain[brain > 0])
    print(f"colin27_tissues: class centres {np.round(centre, 1)}", file=sys.stderr)
    yield "colin27_tissues", to_bytes(tissues, coarse, "derived, 3-means: 1 = CSF, 2 = GM, 3 = WM", 1, "label")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nilearn", type=pathlib.Path)
    parser.add_argument("--mricron", type=pathlib.Path, default=pathlib.Path("/usr/share/mricron/templates"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.nilearn is None:
        spec = importlib.util.find_spec("nilearn")
        if spec is None:
            sys.exit("nilearn is not installed in this Python: pip install nilearn==0.14.1, or name its data with --nilearn")
        args.nilearn = pathlib.Path(spec.origin).parent / "datasets" / "data"
    for folder, file, remedy in [
        (args.nilearn, ICBM.format("t1"), "pip install nilearn==0.14.1, or --nilearn DIR"),
        (args.mricron, "ch2.nii.gz", "apt-get install mricron-data, or --mricron DIR"),
    ]:
        if not (folder / file).is_file():
            sys.exit(f"{folder / file}: no such file; {remedy}")
    different = 0
    for name, contents in make(args.nilearn, args.mricron):
        path = args.out / f"{name}.nii.gz"
        if args.check:
            same = path.is_file() and gzip.decompress(path.read_bytes()) == gzip.decompress(contents)
            different += not same
            print(f"{path}: {'same' if same else 'DIFFERENT'}")
        else:
            part = path.with_name(path.name + ".tmp")
            part.write_bytes(contents)
            part.replace(path)
            print(f"{path}: {len(contents)} bytes")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
