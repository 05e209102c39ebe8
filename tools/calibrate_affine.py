#!/usr/bin/env python3
"""Error rates of the verdict of `voxalign affine`, and the weights of its agreement.

    tools/calibrate_affine.py DATA [--program target/release/voxalign] [--workers N] [--seed N]
        [--only NAME,...] [--without KIND,...] [--ways default,costs,moved,local,mirrored] [--rescue on|off]
        [--keep RUNS.jsonl] [--from RUNS.jsonl] [--fit]

Needs numpy, nibabel, scipy and SimpleITK. DATA holds the folders of images that the tests use, as its
MANIFEST names them; pairs of folders that are not there are left out, and it is said. Every pair is
registered by default and by each cost. Where the result of the first cost, the reference, is right, it is also moved on
purpose and judged as it is (`moved`), is the start of a local search (`local`), and the moving image is
registered with left and right of its header exchanged (`mirrored`).

A run is right or wrong by what is known of its pair, never by its cost or its evidence:

- transforms, landmarks: the mean distance from what is known, over the object or at the landmarks, is
  below the first bound of its kind (right) or above the second (wrong);
- labels: the mean Dice is within 0.06 of the best run of the pair, and above 0.35 (right), or below 0.6
  times that of the best (wrong); of slices wrong is what is more than 15 mm from the reference;
- nothing known: the same distance from the reference, which is then right by definition;
- images that do not belong together: wrong. Of a crop around a hippocampus and a brain: wrong where its
  hippocampus ends more than 20 mm from both of the brain's, otherwise unlabelled;
- what was moved on purpose is never right: where its score is good it is unlabelled. So is what lies
  between the bounds, what is mirrored, and an image that is the outline of a brain and nothing else.

The verdict is that of the checks in the runs, with the weights in crates/register/src/limits.rs in place of
those of the program that ran; where its own verdicts differ it is said. Prints Markdown. `--fit` prints the
weights of a logistic regression with each kind left out, and of all. Exits 1 where a wrong run is called
good or more than 2 in 100 right ones bad.
"""
import argparse
import csv
import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import nibabel
import numpy as np
import SimpleITK as sitk
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation
from scipy.stats import beta

COSTS = ["nmi", "cr", "mi", "ncc", "ssd"]
BRAIN, HEAD = "brains_oasis_miccai2012/{}_SS.nii.gz", "brains_oasis_miccai2012/{}_fullhead_2mm.nii.gz"
BRAIN_LABELS = "brains_oasis_miccai2012/{}_glm.nii.gz"
MS, PHANTOM = "contrasts_ms/study{}.nii.gz", "phantom_rigid/phantom{}.nii.gz"
LUNG_MR, LUNG_CT = "lung_mri/{}.nii.gz", "lung_ct_elastix/3DCT_lung_{}"
BREATH, HEART = "lung_4dct_plastimatch/{}.nii.gz", "heart_acdc/{}.nii.gz"
CROP, MNI = "atlas3d_msd_hippocampus/images/hippocampus_{}.nii.gz", "templates_mni2mm/{}.nii.gz"
CROPS = CROP.format("*")
BRAINWEB, CHRIS = "multimodal_brainweb_known_transform/brainweb{}.mha", "multimodal_chris/chris_{}.nii.gz"
PERSON, GLIOMA = "multimodal_rniftyreg/{}.nii.gz", "multimodal_tcga_lgg/TCGA-FG-6692_{}.nii.gz"
SURGERY, STAIN = "fem_brainshift_pbnrr/PBNRR{}Image.nii.gz", "histology_birl/{}"
SLICE = "atlas2d_oasis_trt20_slices/OASIS-TRT-20-{}_slice118.nii.gz"
SLICE_LABELS = "atlas2d_oasis_trt20_slices/OASIS-TRT-20-{}_DKT31_CMA_labels_slice118.nii.gz"
# Kinds of data: right below, wrong above (mm, of histology pixels); what part of the body they show.
KINDS = {
    "brains": (3, 10, "brain"), "heads": (3, 10, "brain"), "kinds of MR": (2.2, 6, "brain"),
    "templates": (5, 12, "brain"), "modalities": (2, 8, "brain"), "tumours": (3, 10, "brain"),
    "lungs in MR": (3, 10, "lungs"), "lungs in CT": (8, 20, "lungs"), "hearts": (3, 10, "heart"),
    "hippocampi": (3, 10, "crop"), "phantoms": (2, 8, "phantom"), "slices": (3, 10, ""),
    "histology": (12, 60, ""),
}
UNKNOWN = (4, 15)
FLAT = ("slices", "histology")
UNRELATED, PART, OUTLINE = "unrelated", "crop and brain", "outline alone"
# The middle of the hippocampi in the space of the templates, mm.
HIPPOCAMPI = [(27.0, -22.0, -15.0), (-27.0, -22.0, -15.0)]
PEOPLE = ["1000 1001", "1003 1006", "1007 1128", "1008 1113", "1116 1122", "1003 1023", "1004 1024",
          "1001 1003", "1128 1000", "1122 1107", "1006 1116", "1113 1002", "1107 1004", "1002 1128",
          "1004 1008", "1001 1116"]
TEMPLATES = ["avg152PD", "avg152T1", "avg152T2", "scct_CT", "single_subj_T1"]
T1W, T2W = "contrasts_ms/study1_T1W_intrastudy_to_FLAIR.txt", "contrasts_ms/study1_T2W_intrastudy_to_FLAIR.txt"
COMMON = "contrasts_ms/study{}_FLAIR_to_common_space.txt"
RIGID = "phantom_rigid/phantom01_rigid.mat"
LUNGS, ONE = LUNG_CT.format("baseline.mha"), BRAIN.format(1000)
FAT = LUNG_MR.format("0006H1")
# What does not belong together; made/ is what `make` makes.
WRONG = [
    (ONE, FAT), (LUNG_MR.format("0012H1"), BRAIN.format(1003)), (HEAD.format(1000), LUNGS),
    (LUNG_CT.format("followup.mha"), ONE), (BREATH.format("t0"), ONE), (ONE, BREATH.format("t5")),
    (BREATH.format("t0"), HEAD.format(1000)), (MNI.format("scct_CT"), BREATH.format("t0")),
    (BREATH.format("t0"), MNI.format("scct_CT")), (HEART.format("ed"), ONE), (ONE, HEART.format("es")),
    (MS.format("1_T1W"), FAT), (MS.format("1_FLAIR"), BREATH.format("t0")), (PHANTOM.format("01_fixed"), ONE),
    (ONE, PHANTOM.format("01_moving")), (FAT, BREATH.format("t0")), (MNI.format("avg152T1"), HEART.format("ed")),
    (GLIOMA.format("t2"), BREATH.format("t0")), (HEART.format("ed"), LUNG_MR.format("0012H1")),
    (HEAD.format(1000), HEART.format("es")), (LUNGS, HEART.format("ed")), (HEART.format("es"), LUNGS),
    (MNI.format("scct_stripped_CT"), BREATH.format("t5")), (ONE, "made/noise"), (ONE, "made/box"),
    (ONE, "made/bright"), ("made/noise", ONE), (ONE, "made/snoise"), (FAT, "made/snoise"), (FAT, "made/box"),
    (CROP.format("023"), FAT), (CROP.format("049"), HEART.format("ed")),
    ("made/Izd2-29-041-w35_HE", "made/Rat-Kidney_HE"), (SLICE.format(1), "made/Izd2-29-041-w35_HE"),
]
PARTS = [(CROP.format("001"), ONE), (ONE, CROP.format("011"))]
OUTLINES = [(ONE, "made/flatbrain"), (ONE, "made/blobnoise"), (ONE, "made/shufbrain")]
# Method to the reference: shift (of the object's radius), turn (degrees), stretch, mirror.
MOVED = {
    "shifted by 1/4": (0.25, 0), "shifted by 1/2": (0.5, 0), "turned by 20": (0, 20), "turned far": (0, (40, 90)),
    "turned over": (0.1, 180), "stretched": (0, 0), "turned inside out": (0, 0),
}
LOCAL = ["turned by 20", "turned far", "turned over"]
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def pairs(data):
    """All pairs: kind, name, fixed, moving, degrees of freedom (None: the default), what is known."""
    def brainweb():
        angle = np.deg2rad(-10)
        map_ = np.eye(4)
        map_[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        map_[0, 3] = -15
        return LPS @ map_ @ LPS
    all_ = []
    add = lambda kind, name, fixed, moving, dof, *known: all_.append(
        dict(kind=kind, name=name, fixed=fixed, moving=moving, dof=dof, known=known))
    for a, b in (p.split() for p in PEOPLE):
        add("brains", f"brain {a} {b}", BRAIN.format(a), BRAIN.format(b), None, "labels",
            BRAIN_LABELS.format(a), BRAIN_LABELS.format(b), 4)
    add("heads", "head 1000 1001", HEAD.format(1000), HEAD.format(1001), None)
    flair = MS.format("1_FLAIR")
    for name, text in (("T1W", T1W), ("T2W", T2W)):
        other = MS.format(f"1_{name}")
        add("kinds of MR", f"MS FLAIR {name}", flair, other, 6, "chain", [(text, 1)])
        add("kinds of MR", f"MS {name} FLAIR", other, flair, 6, "chain", [(text, -1)])
    add("kinds of MR", "MS FLAIR 2 1", MS.format("2_FLAIR"), flair, 6, "chain",
        [(COMMON.format(2), -1), (COMMON.format(1), 1)])
    add("kinds of MR", "MS T1W T2W", MS.format("1_T1W"), MS.format("1_T2W"), 6, "chain", [(T1W, -1), (T2W, 1)])
    for name, fixed, moving in (("01 01", PHANTOM.format("01_fixed"), "01_moving"),
                                ("01 02", PHANTOM.format("01_fixed"), "02_moving"),
                                ("02 01", "made/phantom02_fixed", "01_moving")):
        add("phantoms", f"phantom {name}", fixed, PHANTOM.format(moving), 6, "chain", [(RIGID, -1)])
    for a, b in (("0006", "0012"), ("0012", "0006")):
        add("lungs in MR", f"lungs MR {a} {b}", LUNG_MR.format(a + "H1"), LUNG_MR.format(b + "H1"), None, "labels",
            LUNG_MR.format(a + "Lobes"), LUNG_MR.format(b + "Lobes"), 1)
    for a, b in (("baseline", "followup"), ("followup", "baseline")):
        add("lungs in CT", f"lungs CT {a}", LUNG_CT.format(a + ".mha"), LUNG_CT.format(b + ".mha"), None, "points",
            LUNG_CT.format(a + ".txt"), LUNG_CT.format(b + ".txt"))
    add("lungs in CT", "breath 0 5", BREATH.format("t0"), BREATH.format("t5"), 6, "chain", [])
    add("hearts", "heart ed es", HEART.format("ed"), HEART.format("es"), None, "labels",
        HEART.format("ed_labels"), HEART.format("es_labels"), 1)
    crops = [os.path.relpath(p, data) for p in sorted(glob.glob(os.path.join(data, CROPS)))]
    for a, b in zip(crops[:40:2], crops[1:40:2]):
        number = lambda p: os.path.basename(p)[12:15]
        add("hippocampi", f"hippo {number(a)} {number(b)}", a, b, None, "labels", labels_of(a), labels_of(b), 1)
    for a in TEMPLATES:
        for b in TEMPLATES:
            if a < b:
                add("templates", f"template {a} {b}", MNI.format(a), MNI.format(b), None, "chain", [])
    t1, t2 = BRAINWEB.format("165a10f17"), BRAINWEB.format("1e5a10f17Rot10Tx15")
    add("modalities", "brainweb T1 T2", t1, t2, 6, "matrix", brainweb())
    add("modalities", "brainweb T2 T1", t2, t1, 6, "matrix", np.linalg.inv(brainweb()))
    add("modalities", "chris T1 PD", CHRIS.format("t1"), CHRIS.format("PD"), 6)
    add("modalities", "chris PD T1", CHRIS.format("PD"), CHRIS.format("t1"), 6)
    add("modalities", "person T1 EPI", PERSON.format("flash_t1"), PERSON.format("epi_t2"), 6)
    add("modalities", "person EPI T1", PERSON.format("epi_t2"), PERSON.format("flash_t1"), 6)
    add("modalities", "MNI T1", PERSON.format("mni_brain"), PERSON.format("flash_t1"), None)
    for a, b in (("t1", "t2"), ("t2", "fla"), ("fla", "t1"), ("t1", "t1c"), ("t2", "t1c")):
        add("tumours", f"glioma {a} {b}", GLIOMA.format(a), GLIOMA.format(b), 6)
    add("tumours", "surgery", SURGERY.format("Fixed"), SURGERY.format("Moving"), 6)
    for a in range(1, 17, 2):
        add("slices", f"slice {a} {a + 1}", SLICE.format(a), SLICE.format(a + 1), None, "labels",
            SLICE_LABELS.format(a), SLICE_LABELS.format(a + 1), 1)
    for a, b in (("Izd2-29-041-w35_HE", "Izd2-29-041-w35_proSPC"), ("Rat-Kidney_HE", "Rat-Kidney_PanCytokeratin")):
        add("histology", f"stain {a}", f"made/{a}", f"made/{b}", None, "table",
            STAIN.format(a + ".csv"), STAIN.format(b + ".csv"))
    return all_


def strangers(all_, rng, count=70):
    """Pairs that do not belong together, those of the list and random ones, the latter for one cost."""
    found = [dict(kind=kind, name=f"{kind} {i}", fixed=f, moving=m, dof=None, known=(), costs=COSTS)
             for kind, some in ((UNRELATED, WRONG), (PART, PARTS), (OUTLINE, OUTLINES)) for i, (f, m) in enumerate(some)]
    pool = [(p["fixed"], KINDS[p["kind"]][2]) for p in all_ if KINDS[p["kind"]][2]
            and not p["fixed"].startswith("made/")]
    seen = set()
    for _ in range(100 * count if len({part for _, part in pool}) > 1 else 0):
        (a, x), (b, y) = (pool[i] for i in rng.integers(len(pool), size=2))
        kind = PART if {x, y} == {"crop", "brain"} else UNRELATED
        if x == y or (a, b) in seen or (kind == PART and (rng.random() < 0.5 or not middles(a) or not middles(b))):
            continue
        seen.add((a, b))
        found.append(dict(kind=kind, name=f"random {len(seen)}", fixed=a, moving=b, dof=None, known=(), costs=["nmi"]))
        if len(seen) == count:
            break
    return found


class Files:
    """The folder of the data, and images that are made of it."""

    def __init__(self, data, seed):
        self.data, self.seed = data, seed
        self.scratch = tempfile.TemporaryDirectory(prefix="calibrate-")

    def path(self, name):
        if not name.startswith("made/"):
            return os.path.join(self.data, name)
        path = os.path.join(self.scratch.name, name[5:] + ".nii.gz")
        if not os.path.exists(path):
            values, affine = self.make(name[5:])
            nibabel.save(nibabel.Nifti1Image(values.astype(np.float32), affine), path)
        return path

    def source(self, name):
        """What an image is made of; itself, if it is not made."""
        if not name.startswith("made/"):
            return name
        if "-" in name:
            return STAIN.format(name[5:] + ".jpg")
        return PHANTOM.format("02_moving") if "phantom" in name else BRAIN.format(1001)

    def there(self, name):
        return os.path.exists(os.path.join(self.data, self.source(name)))

    def make(self, name):
        """The values and the grid of an image that is made."""
        if "-" in name:
            rgb = sitk.GetArrayFromImage(sitk.ReadImage(self.path(STAIN.format(name + ".jpg")))).astype(float)
            grey = np.rint(255 - rgb @ [0.299, 0.587, 0.114])
            return grey.T[:, :, None], np.diag([-1.0, -1.0, 1.0, 1.0])
        if name == "phantom02_fixed":
            # The intensities of 02 in the place of those of 01.
            fixed, affine = self.load(PHANTOM.format("01_fixed"))
            one, two = (self.load(PHANTOM.format(n))[0].ravel() for n in ("01_moving", "02_moving"))
            edges = np.linspace(one.min(), one.max(), 60)
            bins = np.digitize(one, edges)
            there = [k for k in range(1, 61) if (bins == k).any()]
            medians = [np.median(two[bins == k]) for k in there]
            return np.interp(fixed, edges, np.interp(np.arange(1, 61), there, medians)), affine
        brain, affine = self.load(BRAIN.format(1001))
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        smooth = lambda sigma: gaussian_filter(rng.normal(0, 1, brain.shape), sigma)
        at = (np.indices(brain.shape) - np.reshape(brain.shape, (3, 1, 1, 1)) / 2) / np.reshape(brain.shape, (3, 1, 1, 1))
        inside = brain > 0
        if name == "noise":
            values = rng.normal(100, 20, brain.shape)
        elif name in ("snoise", "blobnoise"):
            values = smooth(4)
            values = (values - values.min()) / np.ptp(values) * 1000
            values = values * (((at / 0.37) ** 2).sum(0) < 1) if name == "blobnoise" else values
        elif name == "box":
            values = 1000 * (np.abs(at) < 0.25).all(0) + rng.normal(0, 5, brain.shape)
        elif name == "bright":
            values = rng.normal(0, 1, brain.shape)
            values[tuple(n // 2 for n in brain.shape)] = 1000
        elif name == "flatbrain":
            values = inside * (800 + rng.normal(0, 20, brain.shape))
        elif name == "shufbrain":
            values = np.zeros(brain.shape)
            values[inside] = np.sort(brain[inside])[np.argsort(np.argsort(smooth(3)[inside]))]
        else:
            raise ValueError(f"nothing is known of made/{name}")
        return values, affine

    @functools.lru_cache(maxsize=12)
    def load(self, name):
        """Values with three axes, and the matrix from indices to RAS world mm."""
        path = self.path(name)
        if path.endswith(".mha"):
            image = sitk.ReadImage(path)
            matrix = np.eye(4)
            matrix[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) @ np.diag(image.GetSpacing())
            matrix[:3, 3] = image.GetOrigin()
            return sitk.GetArrayFromImage(image).T.astype(np.float32), LPS @ matrix
        image = nibabel.load(path)
        values = np.asarray(image.dataobj, np.float32)
        values = np.squeeze(values) if values.ndim > 3 else values
        return values.reshape(values.shape + (1,) * (3 - values.ndim)), image.affine

    @functools.lru_cache(maxsize=None)
    def object(self, name):
        """Points of the world in what is not background, some 4000."""
        values, matrix = self.load(name)
        low, high = np.percentile(values, [2, 98])
        index = np.argwhere(values > low + 0.15 * (high - low))
        index = index[::max(1, len(index) // 4000)]
        return index @ matrix[:3, :3].T + matrix[:3, 3]


def labels_of(crop):
    return crop.replace("/images/", "/labels/")


def middles(name):
    """How the middles of the hippocampi of an image are known: labels, or places; nothing if they are not."""
    if "hippocampus" in name:
        return [(labels_of(name), (1, 2))]
    if name.startswith("brains_oasis") and name.endswith("_SS.nii.gz"):
        return [(name.replace("_SS", "_glm"), (47,)), (name.replace("_SS", "_glm"), (48,))]
    return [(place, None) for place in HIPPOCAMPI] if name.startswith("templates_mni") else []


def middle(files, where, which):
    if which is None:
        return np.array(where)
    values, matrix = files.load(where)
    return matrix[:3, :3] @ np.argwhere(np.isin(np.rint(values), which)).mean(0) + matrix[:3, 3]


def transform(path):
    """An affine map of ITK's text, or of greedy's."""
    if path.endswith(".mat"):
        return np.loadtxt(path)
    text = open(path).read()
    numbers = lambda key: np.array(re.search(rf"^{key}: (.*)$", text, re.M).group(1).split(), float)
    given, centre = numbers("Parameters"), numbers("FixedParameters")
    map_ = np.eye(4)
    map_[:3, :3] = given[:9].reshape(3, 3)
    map_[:3, 3] = given[9:] + centre - map_[:3, :3] @ centre
    return LPS @ map_ @ LPS


def distance(files, fixed, one, other):
    """The mean distance of two maps over the object of the fixed image."""
    points, by = files.object(fixed), one - other
    return float(np.linalg.norm(points @ by[:3, :3].T + by[:3, 3], axis=1).mean())


def dice(files, map_, fixed, moving, lowest):
    """The mean Dice of labels with more than 50 voxels in both images, by nearest neighbour."""
    (f, to_world), (m, of_moving) = files.load(fixed), files.load(moving)
    f, m = np.rint(f).astype(np.int32), np.rint(m).astype(np.int32)
    to_index = (np.linalg.inv(of_moving) @ map_ @ to_world).astype(np.float32)
    x, y, z = np.ogrid[tuple(slice(0, n) for n in f.shape)]
    at = [np.rint(r[0] * x + r[1] * y + r[2] * z + r[3]).astype(np.int32) for r in to_index[:3]]
    within = np.logical_and.reduce([(a >= 0) & (a < n) for a, n in zip(at, m.shape)])
    carried = np.zeros(f.shape, np.int32)
    carried[within] = m[tuple(a[within] for a in at)]
    count = max(f.max(), m.max()) + 1
    of = lambda v: np.bincount(v.ravel(), minlength=count)
    both, own, other, its = of(f[f == carried]), of(f), of(carried), of(m)
    used = [k for k in range(lowest, count) if own[k] > 50 and its[k] > 50]
    return float(np.mean([2 * both[k] / (own[k] + other[k]) for k in used]))


def points(files, path, image):
    rows = [line.split() for line in open(files.path(path))]
    values = np.array([r for r in rows if len(r) == 3], float)
    matrix = files.load(image)[1]
    return values @ matrix[:3, :3].T + matrix[:3, 3] if rows[0][0] == "index" else values * [-1, -1, 1]


def score(files, pair, map_, reference):
    """What is known of a result: ("dice", value) or ("mm", value, bounds); None if nothing."""
    what, known, bounds = (pair["known"] or ("none",))[0], pair["known"], KINDS.get(pair["kind"], (0, 0))[:2]
    if pair["kind"] == PART:
        lists = [[middle(files, *how) for how in middles(pair[side])] for side in ("fixed", "moving")]
        if not all(lists):
            return None
        return "mm", min(float(np.linalg.norm((map_ @ np.append(a, 1))[:3] - b)) for a in lists[0]
                         for b in lists[1]), (0, 20)
    if pair["kind"] not in KINDS:
        return None
    if what == "labels":
        return "dice", dice(files, map_, *known[1:])
    if what in ("points", "table"):
        if what == "points":
            here, there = points(files, known[1], pair["fixed"]), points(files, known[2], pair["moving"])
        else:
            lists = [{r[0]: r[1:3] for r in list(csv.reader(open(files.path(p))))[1:]} for p in known[1:]]
            of = lambda t: np.array([[-float(t[k][0]), -float(t[k][1]), 0] for k in lists[0] if k in lists[1]])
            here, there = of(lists[0]), of(lists[1])
        return "mm", float(np.linalg.norm(here @ map_[:3, :3].T + map_[:3, 3] - there, axis=1).mean()), bounds
    if what == "none":
        return ("mm", distance(files, pair["fixed"], map_, reference), UNKNOWN) if reference is not None else None
    truth = known[1] if what == "matrix" else np.eye(4)
    for path, direction in known[1] if what == "chain" else []:
        step = transform(files.path(path))
        truth = (step if direction > 0 else np.linalg.inv(step)) @ truth
    return "mm", distance(files, pair["fixed"], map_, truth), bounds


def label(files, runs, by_name):
    """Gives every run its `label`: right, wrong, mirrored, or None."""
    references = {r["pair"]: np.array(r["matrix"]) for r in runs if r["way"] == COSTS[0] and "matrix" in r}
    best = {}
    for run in runs:
        # Random pairs of another seed are known by their images.
        pair = dict(run, known=()) if run["kind"] == PART else by_name.get(run["pair"])
        run["label"], run["score"] = None, None
        if pair and "matrix" in run and run["way"] != "mirrored":
            run["score"] = score(files, pair, np.array(run["matrix"]), references.get(run["pair"]))
            if run["score"] and run["score"][0] == "dice":
                best[run["pair"]] = max(best.get(run["pair"], 0), run["score"][1])
    for run in runs:
        value = run["score"]
        if "matrix" not in run:
            continue
        if run["kind"] == UNRELATED:
            run["label"] = "wrong"
        elif run["way"] in ("mirrored", "turned inside out"):
            run["label"] = "mirrored"
        elif value and value[0] == "mm":
            run["label"] = "right" if value[1] < value[2][0] else "wrong" if value[1] > value[2][1] else None
        elif value:
            top = best[run["pair"]]
            flat, reference = run["kind"] in FLAT, references.get(run["pair"])
            if value[1] > top - 0.06 and (flat or value[1] > 0.35):
                run["label"] = "right"
            elif flat:
                far = reference is not None and distance(files, run["fixed"], np.array(run["matrix"]), reference) > 15
                run["label"] = "wrong" if far else None
            elif value[1] < 0.6 * top:
                run["label"] = "wrong"
        if run["way"] in MOVED and run["label"] == "right":
            run["label"] = None


def weights():
    """The weights of the agreement, and the bounds on what a mirrored image has more, of the sources."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/register/src/limits.rs")
    text = open(path).read()
    numbers = lambda t: [float(n) for n in re.findall(r"-?\d+\.\d+", t)]
    given = numbers(re.search(r"const AGREEMENT[^=]*=(.*?);", text, re.S).group(1))
    return np.array(given), np.reshape(numbers(re.search(r"mirrored: .*? = (\[\[.*?\]\])", text).group(1)), (3, 2))


LITTLE = 0.02


def leads(evidence):
    """As in crates/register/src/evidence/seen.rs."""
    found, near, other = (evidence[k] for k in ("found", "near", "elsewhere"))
    log = lambda a, b, of: float(np.clip(np.log((a[of] + LITTLE) / (b[of] + LITTLE)), -2, 2))
    return [(found["edges"] - other["edges"]) / (1 - other["edges"] + LITTLE),
            float(np.clip((found["edges"] - near["edges"]) / (found["edges"] + LITTLE), -1, 1)),
            log(found, other, "tissue"), log(found, near, "tissue"), log(found, other, "information"),
            float(np.clip(log(found, near, "information"), -1, 1))]


def mirrored_leads(evidence):
    found, mirrored = evidence["found"], evidence["mirrored"]
    return np.array([(mirrored["edges"] - found["edges"]) / (1 - found["edges"] + LITTLE),
                     np.log((mirrored["information"] + LITTLE) / (found["information"] + LITTLE))])


def others_pass(run, mirrored):
    """Whether all checks are met but those of the agreement, and of costs in earlier programs."""
    of_costs = ("cost after registration", "lead over", "agreement of", "gain in edge")
    rest = all(c["passed"] for c in run["checks"] if not c["name"].startswith(of_costs))
    return rest and not (mirrored_leads(run["evidence"]) > mirrored[2]).all()


def moved(files, pair, way, reference, rng):
    """The reference after the object was moved on purpose."""
    points_ = files.object(pair["fixed"])
    centre, flat = points_.mean(0), pair["kind"] in FLAT
    radius = np.linalg.norm(points_ - centre, axis=1).mean()
    axis, along = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)) * [[1, 1, 1], [1, 1, not flat]])
    shift, turn = MOVED[way]
    angle = np.deg2rad(rng.uniform(*turn) if isinstance(turn, tuple) else turn)
    matrix = Rotation.from_rotvec((np.array([0, 0, 1.0]) if flat else axis) * angle).as_matrix()
    if way == "stretched":
        factor = rng.choice([0.7, 1.35])
        matrix = np.diag([factor, factor, 1 if flat else factor])
    elif way == "turned inside out":
        matrix = np.diag([-1.0, 1.0, 1.0])
    map_ = np.eye(4)
    map_[:3, :3], map_[:3, 3] = matrix, centre - matrix @ centre + shift * radius * along
    return reference @ map_


def write_transform(path, map_):
    numbers = lambda values: " ".join(f"{v:.17g}" for v in values)
    map_ = LPS @ map_ @ LPS
    with open(path, "w") as file:
        file.write("#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n"
                   f"Parameters: {numbers([*map_[:3, :3].ravel(), *map_[:3, 3]])}\nFixedParameters: 0 0 0\n")


def run_all(args, files, all_, keep):
    """Runs all jobs: the costs, and then what begins at references that are right."""
    def run(pair, way, options):
        record = dict(pair=pair["name"], kind=pair["kind"], way=way, fixed=pair["fixed"], moving=pair["moving"])
        free = pair["dof"] and "none" not in options
        with tempfile.TemporaryDirectory(prefix="calibrate-") as out:
            moving = files.path(pair["moving"])
            if way == "mirrored":
                values, affine = files.load(pair["moving"])
                moving = os.path.join(out, "mirrored.nii.gz")
                nibabel.save(nibabel.Nifti1Image(values, np.diag([-1.0, 1, 1, 1]) @ affine), moving)
            line = [args.program, "affine", files.path(pair["fixed"]), moving, "-o", out, "--no-report", "--outputs",
                    "affine", "--threads", "1", "--quiet", "--device", "cpu", *options]
            line += ["--dof", str(pair["dof"])] if free else []
            line += ["--rescue", args.rescue] if "none" not in options else []
            done = subprocess.run(line, capture_output=True, text=True)
            record["code"] = done.returncode
            try:
                with open(os.path.join(out, "result.json")) as file:
                    result = json.load(file)
                record.update(matrix=result["transform"]["matrix"], evidence=result["evidence"], **result["verdict"])
            except (OSError, KeyError) as error:
                record["error"] = done.stderr.strip()[-300:] or str(error)
        return record

    def work(jobs):
        for pair, *_ in jobs:
            files.path(pair["fixed"]), files.path(pair["moving"])
        found = []
        with ThreadPoolExecutor(args.workers) as pool:
            for record in pool.map(lambda job: run(*job), jobs):
                found.append(record)
                if keep:
                    print(json.dumps(record), file=keep, flush=True)
        return found
    jobs = [(p, cost, ["--cost", cost]) for p in all_ for cost in p.get("costs", COSTS)]
    jobs = jobs if "costs" in args.ways else [j for j in jobs if j[1] == COSTS[0] and j[0]["kind"] in KINDS]
    runs = work(jobs + [(p, "default", []) for p in all_ if "default" in args.ways])
    label(files, runs, {p["name"]: p for p in all_})
    right = {r["pair"]: np.array(r["matrix"]) for r in runs if r["way"] == COSTS[0] and r["label"] == "right"}
    jobs = []
    for pair in (p for p in all_ if p["name"] in right and p["kind"] in KINDS):
        rng = np.random.default_rng([args.seed, zlib.crc32(pair["name"].encode())])
        for way in MOVED:
            start = os.path.join(files.scratch.name, f"{pair['name']}, {way}.tfm".replace("/", "_"))
            write_transform(start, moved(files, pair, way, right[pair["name"]], rng))
            if "moved" in args.ways:
                jobs.append((pair, way, ["--search", "none", "--init", start]))
            if "local" in args.ways and way in LOCAL:
                jobs.append((pair, "local, " + way, ["--search", "local", "--init", start]))
        if "mirrored" in args.ways:
            jobs.append((pair, "mirrored", []))
    return runs + work(jobs)


def fit(x, right, strength=3e-3):
    """The weights, and last the constant, of a logistic regression by Newton's method."""
    mean, spread = x.mean(0), x.std(0)
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    held = strength * len(x) * np.r_[np.ones(x.shape[1]), 0]
    w = np.zeros(z.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        curvature = (z * (p * (1 - p))[:, None]).T @ z + strength * len(x) * np.eye(len(w))
        w -= np.linalg.solve(curvature, z.T @ (p - right) + held * w)
    return np.r_[w[:-1] / spread, w[-1] - (w[:-1] * mean / spread).sum()]


def print_fit(runs, mirrored):
    """Weights with each kind left out, and of all; how many of that kind they have on the wrong side."""
    known = [r for r in runs if r["label"] in ("right", "wrong")]
    x = np.array([leads(r["evidence"]) for r in known])
    right = np.array([r["label"] == "right" for r in known])
    pass_ = np.array([others_pass(r, mirrored) for r in known])
    kind = np.array(["brains" if r["kind"] == "heads" else r["kind"] for r in known])
    print("\n| left out | wrong ones called good | right ones called bad | weights and constant |\n|---|---|---|---|")
    for out in [*dict.fromkeys(kind), None]:
        test = (kind == out) | (out is None)
        train = ~test | (out is None)
        if len(set(right[train])) < 2:
            continue
        w = fit(x[train], right[train])
        good = (x @ w[:-1] + w[-1] >= 0) & pass_
        name = "nothing" if out is None else "brains and heads" if out == "brains" else out
        print(f"| {name} | {(good & ~right & test).sum()} of {(~right & test).sum()} | {(~good & right & test).sum()} of "
              f"{(right & test).sum()} | {', '.join(f'{v:.3f}' for v in w)} |")


def report(runs, show_fit):
    """Prints the tables; whether the verdict is good enough."""
    given, mirrored = weights()
    done = [r for r in runs if "evidence" in r]
    for run in done:
        run["agreement"] = float(np.dot(leads(run["evidence"]), given[:-1]) + given[-1])
        run["called"] = "good" if run["agreement"] >= 0 and others_pass(run, mirrored) else "bad"
        run["own"] = "good" if run["good"] else "bad"
    count = lambda label_, called=None, kind=None, key="called": sum(
        r["label"] == label_ and called in (None, r[key]) and kind in (None, r["kind"]) for r in done)
    print("| kind of data | right | called bad | wrong | called good |\n|---|---|---|---|---|")
    for kind in [k for k in [*KINDS, UNRELATED, PART] if any(r["kind"] == k for r in done)] + [None]:
        print(f"| {kind or 'all'} | {count('right', None, kind)} | {count('right', 'bad', kind)} | "
              f"{count('wrong', None, kind)} | {count('wrong', 'good', kind)} |")
    right, wrong = count("right"), count("wrong")
    judged = [r for r in done if r["label"] in ("right", "wrong")]
    known = {label_: sum(r["label"] == label_ and bool(r["score"]) and tuple(r["score"][2:]) == (UNKNOWN,) for r in judged)
             for label_ in ("right", "wrong")}
    print(f"\nPairs of images: {len({(r['fixed'], r['moving']) for r in judged})}. {known['right']} of the right and "
          f"{known['wrong']} of the wrong ones are so by their distance from the reference alone.")
    good, bad = count("wrong", "good"), count("right", "bad")
    bound = lambda k, n: 100 * (beta.ppf(0.95, k + 1, n - k) if k < n else 1.0)
    if wrong and right:
        print(f"\nAt most {bound(good, wrong):.1f} % of wrong ones are called good and {bound(bad, right):.1f} % of right ones "
              "bad (one-sided 95 %, as if all runs were independent, which those of one pair are not).")
    for words, label_, called in (("Wrong ones called good", "wrong", "good"), ("Right ones called bad", "right", "bad")):
        which = [f"{r['pair']} ({r['way']}; {r['agreement']:.2f})" for r in done
                 if r["label"] == label_ and r["called"] == called]
        print(f"\n{words}, with their agreement: {'; '.join(which) or 'none'}.")
    if any(r["own"] != r["called"] for r in done):
        print(f"\nThe program that made the runs called {count('wrong', 'good', key='own')} of {wrong} wrong ones good and "
              f"{count('right', 'bad', key='own')} of {right} right ones bad.")
    for words, of in (("moved images turned inside out", "turned inside out"),
                      ("images with left and right exchanged in the header", "mirrored")):
        some = [r for r in done if r["way"] == of]
        said = [(mirrored_leads(r["evidence"]) > mirrored[int(r["kind"] in FLAT)]).all() for r in some]
        if some:
            print(f"\nOf {len(some)} {words} {sum(r['called'] == 'bad' for r in some)} are bad, "
                  f"{sum(r['agreement'] < 0 for r in some)} by their agreement, and {sum(said)} are said to be mirrored.")
    said = sum((mirrored_leads(r["evidence"]) > mirrored[int(r["kind"] in FLAT)]).all()
               for r in done if r["label"] == "right")
    print(f"\nOf {right} right ones {said} are said to be mirrored.")
    none = [r for r in done if r["label"] is None]
    for kind in sorted({r["kind"] for r in none}):
        some = [r for r in none if r["kind"] == kind]
        print(f"\nUnlabelled, {kind}: {len(some)}, of which {sum(r['called'] == 'good' for r in some)} are called good.")
    failed = [r for r in runs if "evidence" not in r]
    if failed:
        print(f"\n{len(failed)} runs have no result; the first: {failed[0]['pair']}, {failed[0]['way']}: {failed[0].get('error')}")
    if show_fit and right and wrong:
        print_fit(done, mirrored)
    return bool(done) and good == 0 and bad <= 0.02 * right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="substrings of the names of pairs or kinds")
    parser.add_argument("--without", default="", help="kinds to leave out")
    parser.add_argument("--ways", default="default,costs,moved,local,mirrored")
    parser.add_argument("--rescue", default="off", choices=["off", "on"], help="off: the verdict on what was asked for")
    parser.add_argument("--keep", help="file for the runs, one JSON record per line")
    parser.add_argument("--from", dest="source", help="evaluate kept runs instead of running any")
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    words = lambda text: [w for w in text.split(",") if w]
    args.ways = words(args.ways)
    files = Files(args.data, args.seed)
    all_ = pairs(args.data)
    all_ += strangers(all_, np.random.default_rng(args.seed))
    needed = lambda p: [p["fixed"], p["moving"]] + [k for k in p["known"] if isinstance(k, str) and "/" in k]
    missing = {files.source(n).split("/")[0] for p in all_ for n in needed(p) if not files.there(n)}
    missing = sorted(missing | (set() if glob.glob(files.path(CROPS)) else {CROPS.split("/")[0]}))
    if missing:
        print(f"Left out, as their files are not in {args.data}: {', '.join(missing)}.\n")
    all_ = [p for p in all_ if all(files.there(n) for n in needed(p))]
    wanted = lambda name, kind: kind not in words(args.without) and (
        not args.only or any(w in name or w in kind for w in words(args.only)))
    if args.source:
        with open(args.source) as file:
            runs = [json.loads(line) for line in file]
        runs = [r for r in runs if wanted(r["pair"], r["kind"])]
    else:
        all_ = [p for p in all_ if wanted(p["name"], p["kind"])]
        keep = open(args.keep, "w") if args.keep else None
        runs = run_all(args, files, all_, keep)
    label(files, runs, {p["name"]: p for p in all_})
    if not any("evidence" in r for r in runs):
        sys.exit("no run has a result" + (": " + str(runs[0].get("error")) if runs else "; look at DATA and --only"))
    sys.exit(0 if report(runs, args.fit) else 1)


if __name__ == "__main__":
    main()
