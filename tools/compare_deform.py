#!/usr/bin/env python3
"""Registers pairs of real images by voxalign and by other tools, scores all of them alike, and prints Markdown tables.

    tools/compare_deform.py VOXALIGN DATA --cache FOLDER [--tools voxalign,ants-cc,...] [--cases 'heart*,lung*'] [--python TOOL=PYTHON]

DATA has the folders of tests (atlas3d_msd_hippocampus, heart_acdc, lung_mri, lung_ct_elastix, lung_4dct_plastimatch, brains_oasis_miccai2012
and those of tools/check_kinds.py). Every tool gets the same two NIfTI files, one thread, and begins with an affine registration of its own. Its
result is turned into one field, where each fixed voxel (of images in slices, each voxel of the labels) lies in the moving image; labels go
through it by nearest neighbour, images linearly, and its Jacobian tells what folds. Nothing of this knows which tool it was.

The cases of a group are seen or held back in turns, by their order in this file: settings are to be chosen on those that are seen, and what
is said of a tool is what it does on those held back; of the further crops of hippocampi all are held back. CPU seconds are those of the
registration (of voxalign: of the program). Each result is kept in FOLDER and made again only if the call has changed; `--tools ''` prints what
there is. Needs numpy, scipy, nibabel and SimpleITK, and for the other tools antspyx, picsl-greedy, itk-elastix or syntx; `--python` names a
Python that has them, for a tool or for all of them."""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS", "NUMEXPR_NUM_THREADS")
}
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
AIR = 1024.0  # added to CT: other tools take what is outside of an image for 0

# What depends on the images: the number of levels (ANTs, elastix), the distance of knots of splines in mm (elastix), where affine registrations
# start but from centres of mass (ANTs, elastix), and the part of voxels they look at (ANTs: few of them mislead it on small images).
PLAN = {
    "hippocampus": {"levels": 3, "knots": 5.0, "start": "GeometricalCenter"},
    "hippocampus_further": {"levels": 3, "knots": 5.0, "start": "GeometricalCenter"},
    "heart": {"levels": 2, "knots": 10.0},
    "lung_mri": {"levels": 3, "knots": 15.0},
    "lung_ct": {"levels": 4, "knots": 10.0},
    "lung_4dct": {"levels": 4, "knots": 12.0, "sampled": 0.2},
    "brains": {"levels": 4, "knots": 6.0, "sampled": 0.2},
    "slices": {"levels": 4, "knots": 6.0, "sampled": 0.2},
    "kinds": {"levels": 4, "knots": 12.0, "start": "GeometricalCenter"},
}
TITLES = {
    "hippocampus": "Crops around the hippocampus of different people: mean Dice of two labels",
    "hippocampus_further": "Crops around the hippocampus, sixteen further pairs: mean Dice of two labels",
    "heart": "One heart at both ends of a beat: Dice",
    "lung_mri": "Lungs of two people in MR: mean Dice of lobes",
    "lung_ct": "A lung in CT at two times: mean distance of landmarks, mm",
    "lung_4dct": "A chest in CT at both ends of a breath: root mean square difference within the lungs, HU",
    "brains": "Brains of different people: mean Dice of anatomical labels",
    "slices": "Brains of different people in slices (of the fixed and of the moving image): mean Dice of anatomical labels at 1 mm",
    "kinds": "Images of two kinds, a known displacement: mean error, mm",
}


# Cases


def nifti(path):
    """Values and the matrix from voxels to the world (RAS)."""
    import nibabel as nib

    image = nib.load(path)
    return np.asarray(image.dataobj).squeeze(), image.affine


def meta(path):
    """The same of an image in another format."""
    import SimpleITK as sitk

    image = sitk.ReadImage(str(path))
    to_world = np.eye(4)
    to_world[:3, :3] = np.array(image.GetDirection()).reshape(3, 3) * image.GetSpacing()
    to_world[:3, 3] = image.GetOrigin()
    return sitk.GetArrayFromImage(image).transpose(2, 1, 0), LPS @ to_world


def dice(fixed, moved, labels):
    return {int(k): 2 * float(np.sum((fixed == k) & (moved == k))) / max(1, int(np.sum(fixed == k) + np.sum(moved == k))) for k in labels}


class Case:
    """Two images, and how a field is scored: `score(field)` gives the measures, of which the first one counts. The field is wanted at the voxels
    of `grid`, (shape, matrix to the world), which is that of the fixed image if nothing is said; `inside` is of that grid."""

    def __init__(self, fixed, moving, score, inside, ct=False, grid=None):
        self.fixed, self.moving, self.score, self.inside, self.ct = fixed, moving, score, inside, ct
        self.grid = grid or (fixed[0].shape, fixed[1])


def voxels(field, to_world):
    back = np.linalg.inv(to_world)
    return np.moveaxis(field @ back[:3, :3].T + back[:3, 3], -1, 0)


def nearest(labels, to_world, field):
    from scipy import ndimage

    return ndimage.map_coordinates(labels, voxels(field, to_world), order=0, mode="constant", cval=0)


def labelled(fixed, moving, fixed_labels, moving_labels, choose, parts=(), inside=None):
    """A case whose score is the mean Dice; `choose` says which labels count."""
    (fl, _), (ml, ml_world) = fixed_labels, moving_labels
    fl, ml = np.rint(fl).astype(np.int32), np.rint(ml).astype(np.int32)
    labels = choose(fl, ml)

    def score(field):
        found = dice(fl, nearest(ml, ml_world, field), labels)
        return {"Dice": float(np.mean(list(found.values()))), **{f"label {k}": found[k] for k in parts}}

    return Case(fixed, moving, score, fl > 0 if inside is None else inside)


def centred(image):
    values, to_world = image
    to_world = to_world.copy()
    to_world[:3, 3] = -to_world[:3, :3] @ ((np.array(values.shape) - 1) / 2)
    return values, to_world


def hippocampi(data):
    """Ten pairs by the order of names, and sixteen others at random."""
    folder = data / "atlas3d_msd_hippocampus"
    names = sorted(p.name for p in (folder / "images").glob("*.nii.gz"))

    def made(fixed, moving):
        image = lambda name: centred(nifti(folder / "images" / name))
        labels = lambda name: centred(nifti(folder / "labels" / name))
        return lambda: labelled(image(fixed), image(moving), labels(fixed), labels(moving), lambda f, m: [1, 2])

    short = lambda name: name.split("_")[1].split(".")[0]
    of = lambda pairs: {f"{short(f)}<-{short(m)}": made(f, m) for f, m in pairs}
    first = list(zip(names[::2], names[1::2]))[:10]
    order = [names[i] for i in np.random.default_rng(7).permutation(len(names))]
    further = [pair for pair in zip(order[::2], order[1::2]) if tuple(sorted(pair)) not in first]
    return of(first), of(further[:16])


def hearts(data):
    load = lambda name: nifti(data / "heart_acdc" / f"{name}.nii.gz")

    def made(fixed, moving):
        return lambda: labelled(load(fixed), load(moving), load(fixed + "_labels"), load(moving + "_labels"), lambda f, m: [1, 2, 3], (1, 2, 3))

    return {"ed<-es": made("ed", "es"), "es<-ed": made("es", "ed")}


def lungs_mri(data):
    load = lambda name: nifti(data / "lung_mri" / f"{name}.nii.gz")

    def made(fixed, moving):
        present = lambda f, m: [k for k in np.unique(f) if k >= 1 and np.sum(f == k) > 50 and np.sum(m == k) > 50]
        return lambda: labelled(load(fixed + "H1"), load(moving + "H1"), load(fixed + "Lobes"), load(moving + "Lobes"), present)

    return {"0006<-0012": made("0006", "0012"), "0012<-0006": made("0012", "0006")}


def lungs_ct(data):
    at = lambda name: data / "lung_ct_elastix" / f"3DCT_lung_{name}"

    def made(fixed, moving):
        def case():
            images = [meta(at(f"{name}.mha")) for name in (fixed, moving)]
            points = [np.loadtxt(at(f"{name}.txt"), skiprows=2) for name in (fixed, moving)]
            here, world = points[0].round().astype(int), images[1][1]
            there = points[1] @ world[:3, :3].T + world[:3, 3]
            score = lambda field: {"mm": float(np.linalg.norm(field[tuple(here.T)] - there, axis=1).mean())}
            return Case(*images, score, meta(at(f"{fixed}_mask.mha"))[0] > 0, ct=True)

        return case

    return {"baseline<-followup": made("baseline", "followup"), "followup<-baseline": made("followup", "baseline")}


def breath(data):
    load = lambda name: nifti(data / "lung_4dct_plastimatch" / f"{name}.nii.gz")

    def made(fixed, moving):
        def case():
            from scipy import ndimage

            f, (m, world) = load(fixed), load(moving)
            lung = (f[0] >= -950) & (f[0] < -500)

            def score(field):
                at = [c[lung] for c in voxels(field, world)]
                moved = ndimage.map_coordinates(m.astype(np.float32), at, order=1, mode="constant", cval=-1000)
                return {"HU": float(np.sqrt(np.mean((f[0][lung] - moved) ** 2)))}

            return Case(f, (m, world), score, lung, ct=True)

        return case

    return {"t0<-t5": made("t0", "t5"), "t5<-t0": made("t5", "t0")}


def brains(data):
    load = lambda name: nifti(data / "brains_oasis_miccai2012" / f"{name}.nii.gz")

    def made(fixed, moving):
        def case():
            image, map_ = load(f"{fixed}_SS"), load(f"{moving}_glm")
            counts = lambda f, m: [k for k in np.unique(f) if k >= 4 and np.sum(f == k) > 50 and np.sum(m == k) > 50]
            return labelled(image, load(f"{moving}_SS"), load(f"{fixed}_glm"), map_, counts, inside=image[0] > 0)

        return case

    pairs = [(1000, 1001), (1003, 1006), (1007, 1128), (1008, 1113), (1116, 1122)]
    return {f"{f}<-{m}": made(f, m) for f, m in pairs}


def in_slices(image, mm):
    """An image of 1 mm in slices of `mm`: blurred across them, then sampled."""
    from scipy import ndimage

    values, to_world = image
    if mm == 1:
        return image
    blurred = ndimage.gaussian_filter1d(values.astype(np.float32), 0.3 * mm, axis=2)
    shape = (*values.shape[:2], (values.shape[2] - 1) // mm + 1)
    at = np.indices(shape, dtype=np.float64) * np.array([1, 1, mm]).reshape(3, 1, 1, 1)
    return np.maximum(ndimage.map_coordinates(blurred, at, order=3), 0).astype(np.float32), to_world @ np.diag([1.0, 1.0, mm, 1.0])


def sliced(data):
    load = lambda name: nifti(data / "brains_oasis_miccai2012" / f"{name}.nii.gz")

    def made(fixed, moving, fixed_mm, moving_mm):
        def case():
            image, labels = load(f"{fixed}_SS"), load(f"{fixed}_glm")
            counts = lambda f, m: [k for k in np.unique(f) if k >= 4 and np.sum(f == k) > 50 and np.sum(m == k) > 50]
            whole = labelled(image, load(f"{moving}_SS"), labels, load(f"{moving}_glm"), counts, inside=image[0] > 0)
            return Case(in_slices(image, fixed_mm), in_slices(whole.moving, moving_mm), whole.score, whole.inside, grid=(image[0].shape, image[1]))

        return case

    pairs = [(1000, 1001), (1003, 1006), (1007, 1128)]
    return {f"{f}<-{m} {a} and {b} mm": made(f, m, a, b) for a, b in ((3, 3), (5, 5), (5, 1), (1, 5)) for f, m in pairs}


def kinds(data):
    import check_kinds

    def made(name, mm, seed):
        def case():
            fixed, moving, brain, to_world = check_kinds.PAIRS[name](data)
            f, m, u, counts = check_kinds.warped(fixed, moving, brain, seed, mm)
            index = np.argwhere(counts)[::7]
            truth = (index + u[:, index[:, 0], index[:, 1], index[:, 2]].T) @ to_world[:3, :3].T + to_world[:3, 3]

            def score(field):
                e = np.linalg.norm(field[tuple(index.T)] - truth, axis=1)
                return {"mm": float(e.mean()), "median": float(np.median(e)), "95 %": float(np.percentile(e, 95))}

            return Case((f, to_world), (m, to_world), score, brain > 0)

        return case

    jobs = [(name, mm, seed) for mm in (5, 10) for name in check_kinds.PAIRS for seed in (1, 2, 3)]
    return {f"{name} {mm} mm {seed}": made(name, mm, seed) for name, mm, seed in jobs}


GROUPS = {
    "hippocampus": lambda data: hippocampi(data)[0], "hippocampus_further": lambda data: hippocampi(data)[1], "heart": hearts,
    "lung_mri": lungs_mri, "lung_ct": lungs_ct, "kinds": kinds, "lung_4dct": breath, "brains": brains,
    "slices": sliced,
}
UNSEEN = ["hippocampus_further"]


# Tools. Each of them is run as a process that gets `{fixed, moving, points, out, plan}` and returns where the voxels of `points` lie in the
# moving image.


class Clock:
    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), self.all()
        return self

    def __exit__(self, *_):
        self.wall, self.cpu = time.perf_counter() - self.wall, self.all() - self.cpu

    @staticmethod
    def all():
        mine, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return mine.ru_utime + mine.ru_stime + others.ru_utime + others.ru_stime


def grid_points(path):
    """The world points (LPS) of all voxels, and the shape."""
    values, to_world = nifti(path)
    to_world = LPS @ to_world
    at = np.moveaxis(np.indices(values.shape, dtype=np.float64), 0, -1)
    return at @ to_world[:3, :3].T + to_world[:3, 3]


def at_points(image, points):
    """The vectors of a field, (values, matrix to the world), at world points (LPS), linear between its voxels, which need not be those of the
    fixed image."""
    from scipy import ndimage

    values, to_world = image
    to_voxel = np.linalg.inv(LPS @ to_world)
    at = np.moveaxis(points @ to_voxel[:3, :3].T + to_voxel[:3, 3], -1, 0)
    return np.stack([ndimage.map_coordinates(values[..., a], at, order=1, mode="nearest") for a in range(3)], -1)


def linear(file):
    """The matrix (LPS) of an affine transform in a file of ITK's."""
    import SimpleITK as sitk

    transform = sitk.ReadTransform(str(file))
    origin = np.array(transform.TransformPoint((0.0, 0.0, 0.0)))
    columns = [np.array(transform.TransformPoint(tuple(row))) - origin for row in np.eye(3)]
    return np.column_stack([*columns, origin])


def through(job, warp, matrix):
    """Where the points of a job go by a displacement, (values, matrix to the world), then by a matrix (LPS)."""
    points = grid_points(job["points"])
    moved = points + at_points(warp, points)
    return moved @ matrix[:, :3].T + matrix[:, 3]


def by_voxalign(job, options):
    folder = Path(job["out"])
    command = [job["program"], "deform", job["fixed"], job["moving"], "-o", str(folder / "vx"), "--no-report", "--quiet", "--threads", "1", "--device", "cpu"]
    with Clock() as clock:
        run = subprocess.run([*command, *options], capture_output=True, text=True)
    if run.returncode > 1:
        raise RuntimeError(run.stderr)
    record = json.loads((folder / "vx/result.json").read_text())
    if not (folder / "vx/warp.nii.gz").exists():
        raise RuntimeError("no deformation: the affine part is too bad")
    field = through(job, nifti(folder / "vx/warp.nii.gz"), linear(folder / "vx/affine.tfm"))
    said = {"verdict": "good" if record["verdict"]["good"] else "bad", "similarity": record["parameters"]["channels"][0]["similarity"]}
    return field, clock, said


def by_ants(job, metric, sampling):
    import ants

    fixed, moving = ants.image_read(job["fixed"]), ants.image_read(job["moving"])
    centre = job["plan"].get("start") == "GeometricalCenter"
    steps = {4: (100, 70, 50, 20), 3: (100, 70, 50), 2: (100, 70)}[job["plan"]["levels"]]
    with Clock() as clock:
        found = ants.registration(
            fixed, moving, type_of_transform="SyN", syn_metric=metric, syn_sampling=sampling, reg_iterations=steps, random_seed=1,
            initial_transform="Identity" if centre else None, aff_random_sampling_rate=job["plan"].get("sampled", 1.0),
            outprefix=str(Path(job["out"]) / "ants_"),
        )
    warp, matrix = found["fwdtransforms"]
    return through(job, nifti(warp), linear(matrix)), clock, {}


def by_greedy(job, metric, affine=True):
    from picsl_greedy import Greedy3D

    at = lambda name: str(Path(job["out"]) / name)
    steps = "100x100x50" if job["plan"]["levels"] > 2 else "100x50"  # it needs four slices at the coarsest level
    images = f"-i {job['fixed']} {job['moving']}"
    with open(at("log"), "w") as log, Clock() as clock:
        run = lambda call: Greedy3D().execute("-d 3 -threads 1 " + call, out=log, err=log)
        np.savetxt(at("affine.mat"), np.eye(4))
        if affine:
            run(f"-a -dof 12 {images} -ia-image-centers -m {metric} -n {steps} -o {at('affine.mat')}")
        run(f"{images} -it {at('affine.mat')} -m {metric} -n {steps} -s 1.732vox 0.707vox -e 0.5 -wp 0 -o {at('warp.nii.gz')}")
    matrix = LPS @ np.loadtxt(at("affine.mat")) @ LPS
    return through(job, nifti(at("warp.nii.gz")), matrix[:3]), clock, {}


def by_syntx(job, model):
    import types

    import ants
    import torch

    sys.modules.setdefault("antstorch", types.ModuleType("antstorch"))  # imported by syntx, used for surfaces alone
    import syntx

    torch.set_num_threads(1)
    fixed, moving = ants.image_read(job["fixed"]), ants.image_read(job["moving"])
    with Clock() as clock:
        found = syntx.auto_reg(fixed, moving, type_of_transform=model, backend="pytorch", device=job.get("device", "cpu"), seed=1)
    warp, matrix = found["fwdtransforms"]
    return through(job, nifti(warp), linear(matrix)), clock, {}


def by_elastix(job, metric):
    import itk

    itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(1)
    fixed, moving = itk.imread(job["fixed"], itk.F), itk.imread(job["moving"], itk.F)
    both = {
        "Registration": ["MultiResolutionRegistration"], "UseDirectionCosines": ["true"], "Interpolator": ["LinearInterpolator"],
        "FixedImagePyramid": ["FixedSmoothingImagePyramid"], "MovingImagePyramid": ["MovingSmoothingImagePyramid"],
        "ResampleInterpolator": ["FinalLinearInterpolator"], "Resampler": ["DefaultResampler"], "Optimizer": ["AdaptiveStochasticGradientDescent"],
        "NumberOfHistogramBins": ["32"], "NumberOfResolutions": [str(job["plan"]["levels"])], "NewSamplesEveryIteration": ["true"],
        "ImageSampler": ["RandomCoordinate"], "AutomaticParameterEstimation": ["true"], "HowToCombineTransforms": ["Compose"],
        "WriteResultImage": ["false"], "RandomSeed": ["1"], "MaximumNumberOfSamplingAttempts": ["8"], "RequiredRatioOfValidSamples": ["0.05"],
    }
    affine = {
        **both, "Transform": ["AffineTransform"], "Metric": ["AdvancedMattesMutualInformation"], "NumberOfSpatialSamples": ["4096"],
        "MaximumNumberOfIterations": ["500"], "AutomaticScalesEstimation": ["true"], "AutomaticTransformInitialization": ["true"],
        "AutomaticTransformInitializationMethod": [job["plan"].get("start", "CenterOfGravity")],
    }
    splines = {
        **both, "Transform": ["BSplineTransform"], "Metric": [metric], "NumberOfSpatialSamples": ["8192"], "MaximumNumberOfIterations": ["1000"],
        "FinalGridSpacingInPhysicalUnits": [str(job["plan"]["knots"])],
    }
    parameters = itk.ParameterObject.New()
    parameters.AddParameterMap(affine)
    parameters.AddParameterMap(splines)
    with Clock() as clock:
        _, found = itk.elastix_registration_method(fixed, moving, parameter_object=parameters, log_to_console=False, number_of_threads=1)
    warp = np.asarray(itk.transformix_deformation_field(moving, found, log_to_console=False))
    return through(job, (warp.transpose(2, 1, 0, 3), nifti(job["fixed"])[1]), np.eye(3, 4)), clock, {}


TOOLS = {
    "voxalign": ("voxalign", lambda job: by_voxalign(job, [])),
    "voxalign-greedy": ("voxalign, greedy", lambda job: by_voxalign(job, ["--model", "greedy"])),
    "voxalign-headers": ("voxalign, from the headers", lambda job: by_voxalign(job, ["--affine", "none"])),
    "ants-mi": ("ANTs SyN, Mattes", lambda job: by_ants(job, "mattes", 32)),
    "ants-cc": ("ANTs SyN, CC 2", lambda job: by_ants(job, "CC", 2)),
    "greedy-ncc": ("Greedy, NCC 2x2x2", lambda job: by_greedy(job, "NCC 2x2x2")),
    "greedy-headers": ("Greedy, NCC 2x2x2, from the headers", lambda job: by_greedy(job, "NCC 2x2x2", affine=False)),
    "greedy-nmi": ("Greedy, NMI", lambda job: by_greedy(job, "NMI")),
    "elastix": ("elastix, B-splines, MI", lambda job: by_elastix(job, "AdvancedMattesMutualInformation")),
    "syntx": ("syntx, time-varying", lambda job: by_syntx(job, "TVF")),
}
ONLY = {
    "voxalign-headers": ["hippocampus", "hippocampus_further"],
    "greedy-nmi": ["kinds"],
    "greedy-headers": ["hippocampus", "hippocampus_further"],
}
NEVER = {
    "greedy-ncc": ["kinds"],  # its correlation has a sign: 15 mm
}


# Runs


def folded(field, to_world, inside):
    """The part of what is inside where the Jacobian is not positive."""
    steps = [np.stack(np.gradient(field[..., k]), -1) for k in range(3)]
    jacobian = np.stack(steps, -2) @ np.linalg.inv(to_world[:3, :3])
    return float(np.mean(np.linalg.det(jacobian[inside]) <= 0))


def call_of(tool, group, program):
    """What a result depends on: the source of a tool here and its plan, or the program."""
    text = Path(__file__).read_text()
    line = re.search(rf'^    "{tool}": \(.*?\n(?=    "|}})', text, re.S | re.M).group(0)
    name = re.search(r"(by_\w+)\(", line).group(1)
    body = re.search(rf"^def {name}\(.*?(?=\n\n\n)", text, re.S | re.M).group(0)
    text = line + body
    if tool.startswith("voxalign"):
        text += hashlib.sha256(Path(program).read_bytes()).hexdigest()
    else:
        text += json.dumps(PLAN[group], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def registered(tool, group, case, program, python, limit):
    """Runs a tool in a process of its own, and scores it."""
    import nibabel as nib

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, (values, to_world) in (("fixed", case.fixed), ("moving", case.moving)):
            lift = AIR if case.ct and not tool.startswith("voxalign") else 0.0
            image = nib.Nifti1Image(values.astype(np.float32) + np.float32(lift), to_world)
            image.set_qform(to_world, 1)
            image.set_sform(to_world, 1)
            image.header.set_xyzt_units("mm")
            nib.save(image, folder / f"{name}.nii.gz")
        nib.save(nib.Nifti1Image(np.zeros(case.grid[0], np.uint8), case.grid[1]), folder / "points.nii.gz")
        job = {"tool": tool, "program": str(program), "plan": PLAN[group], "out": str(folder)}
        job |= {name: str(folder / f"{name}.nii.gz") for name in ("fixed", "moving", "points")}
        (folder / "job.json").write_text(json.dumps(job))
        try:
            run = subprocess.run(
                [python, Path(__file__).resolve(), "--job", folder / "job.json"], env={**os.environ, **ONE_THREAD}, cwd=folder,
                capture_output=True, text=True, timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {limit} s"}
        if run.returncode:
            return {"failed": (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1][:300]}
        result = json.loads((folder / "done.json").read_text())
        field = np.load(folder / "field.npy").astype(np.float64)
    return {**result, "scores": case.score(field), "folded": folded(field, case.grid[1], case.inside)}


def job_done(path):
    job = json.loads(Path(path).read_text())
    field, clock, said = TOOLS[job["tool"]][1](job)
    field = field @ LPS[:3, :3]
    np.save(Path(job["out"]) / "field.npy", field.astype(np.float32))
    done = {"cpu": round(clock.cpu, 2), "wall": round(clock.wall, 2), **said}
    (Path(job["out"]) / "done.json").write_text(json.dumps(done))


# Tables


def tables(names, results):
    """The results of all groups in Markdown."""
    ours = lambda tool: tool.startswith("voxalign")
    out = []
    for group, cases in names.items():
        found = {t: {c: r for c in cases if (r := results.get((t, group, c)))} for t in TOOLS}
        found = {t: rows for t, rows in found.items() if rows}
        good = {t: {c: r["scores"] for c, r in rows.items() if "scores" in r} for t, rows in found.items()}
        if not any(good.values()):
            continue
        measures = list(next(iter(next(s for s in good.values() if s).values())))
        main, larger = measures[0], measures[0] == "Dice"
        columns = measures if group == "heart" else measures[:1]
        digits = {"Dice": 4, "mm": 3, "HU": 2}[main]
        halves = {"held back": cases} if group in UNSEEN else {"seen": cases[::2], "held back": cases[1::2]}
        head = [f"{half}: {m}" for half in halves for m in columns]
        told = " ".join(f"{half.capitalize()}: {', '.join(there)}." for half, there in halves.items())
        out += [f"### {TITLES[group]}", "", told, ""]
        out += ["| tool | " + " | ".join(head) + " | folded, % | CPU s | |", "|---" * (len(head) + 4) + "|"]
        for tool, rows in found.items():
            cells = []
            for half in halves.values():
                have = [c for c in half if c in good[tool]]
                part = "" if len(have) == len(half) else f" ({len(have)} of {len(half)})"
                for m in columns:
                    cells.append(f"{np.mean([good[tool][c][m] for c in have]):.{digits}f}{part}" if have else "")
            ran = [r for r in rows.values() if "scores" in r]
            cells.append(f"{100 * np.mean([r['folded'] for r in ran]):.3f}" if ran else "")
            cells.append(f"{np.mean([r['cpu'] for r in ran]):.1f}" if ran else "")
            notes = [f"{n} called bad"] if (n := sum(r.get("verdict") == "bad" for r in ran)) else []
            notes += [f"{c}: {r['failed']}" for c, r in rows.items() if "failed" in r]
            out.append(f"| {TOOLS[tool][0]} | " + " | ".join(cells) + f" | {'; '.join(notes)} |")
        out.append("")
        for tool in filter(ours, found):
            worst = []
            for case in cases:
                others = [(s[case][main], t) for t, s in good.items() if not ours(t) and case in s]
                if case not in good[tool] or not others:
                    continue
                mine = good[tool][case][main]
                best, by = max(others) if larger else min(others)
                gap = best - mine if larger else 100 * (mine / best - 1)
                worst.append((gap, f"{case}, {mine:.{digits}f} beside {best:.{digits}f} of {TOOLS[by][0]}"))
            if worst:
                unit = "" if larger else " %"
                tell = lambda gap: f"{-gap:.4f} better" if larger and gap < 0 else f"{gap:.4f} worse" if larger else f"{abs(gap):.1f}{unit} {'better' if gap < 0 else 'worse'}"
                gap, where = max(worst)
                behind = sum(g > (0.005 if larger else 5) for g, _ in worst)
                out.append(
                    f"- {TOOLS[tool][0]}: at worst {tell(gap)} than the best of the others ({where}); worse by more than {'0.005' if larger else '5 %'} in {behind} of {len(worst)}"
                )
        out.append("")
        if len(cases) <= 18:
            out += [f"| {main} | " + " | ".join(cases) + " |", "|---" * (len(cases) + 1) + "|"]
            for tool in found:
                cells = [f"{good[tool][c][main]:.{digits}f}" if c in good[tool] else "" for c in cases]
                out.append(f"| {TOOLS[tool][0]} | " + " | ".join(cells) + " |")
            out.append("")
    return "\n".join(out)


def main():
    if sys.argv[1:2] == ["--job"]:
        return job_done(sys.argv[2])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("voxalign", type=Path)
    p.add_argument("data", type=Path)
    p.add_argument("--cache", type=Path, required=True, help="folder of the results")
    p.add_argument("--tools", default=",".join(TOOLS), help="which tools, separated by commas; patterns such as 'ants*' may be used")
    p.add_argument("--cases", default="*", help="which cases, GROUP or GROUP:CASE, separated by commas; patterns may be used")
    p.add_argument("--python", action="append", default=[], metavar="[TOOL=]PYTHON", help="the Python that runs the other tools, or one of them")
    p.add_argument("--limit", type=float, default=3600, help="seconds after which a registration is given up")
    p.add_argument("--tables", type=Path, help="also write the tables to this file, after each group")
    args = p.parse_args()
    pythons = dict(("", a) if "=" not in a else a.split("=", 1) for a in args.python)
    pythons = {tool: os.path.abspath(python) if "/" in python else python for tool, python in pythons.items()}
    args.cache.mkdir(parents=True, exist_ok=True)
    chosen = lambda patterns, *texts: any(fnmatch.fnmatchcase(t, q) for q in patterns.split(",") for t in texts)
    cases = {group: make(args.data) for group, make in GROUPS.items()}
    names = {group: list(made) for group, made in cases.items()}
    results = {}
    file = lambda *key: args.cache / (re.sub(r"[^\w-]+", "_", "__".join(key)) + ".json")
    for tool in TOOLS:
        for group in cases:
            for name in names[group]:
                if file(tool, group, name).exists():
                    results[tool, group, name] = json.loads(file(tool, group, name).read_text())

    def tell():
        if args.tables:
            args.tables.write_text(tables(names, results) + "\n")

    for group in cases:
        for name, make in cases[group].items():
            if not chosen(args.cases, group, f"{group}:{name}"):
                continue
            case = None
            for tool in TOOLS:
                if not chosen(args.tools, tool) or group not in ONLY.get(tool, [group]) or group in NEVER.get(tool, []):
                    continue
                call = call_of(tool, group, args.voxalign)
                if results.get((tool, group, name), {}).get("call") == call:
                    continue
                case = case or make()
                result = registered(tool, group, case, args.voxalign.resolve(), pythons.get(tool, pythons.get("", sys.executable)), args.limit)
                results[tool, group, name] = {"call": call, **result}
                file(tool, group, name).write_text(json.dumps(results[tool, group, name]))
                print(group, name, tool, json.dumps(result), file=sys.stderr, flush=True)
                tell()
        tell()
    print(tables(names, results))


if __name__ == "__main__":
    main()
