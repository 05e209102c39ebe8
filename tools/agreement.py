#!/usr/bin/env python3
"""Agreement of deformations of right and wrong image pairs, from which the bounds of the verdict are set.

    tools/agreement.py --data FOLDER [--program target/release/voxalign] [--only NAME,...]

FOLDER holds the folders of images that the tests use. Right pairs show the same part of the body; wrong
ones are a right fixed image with noise, plain shapes, one bright voxel, its own tissue in another order, the
moving image upside down or far off, or another organ. Prints a Markdown table: the information shared by
the images within tissue and the harmonic energy per nat of it, as the verdict has them.
Scales are coarse and short, so that all of it takes minutes; wrong pairs are registered from where they lie.
"""
import argparse
import array
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

CODES = {2: "B", 4: "h", 8: "i", 16: "f", 64: "d", 256: "b", 512: "H", 768: "I"}
BRAINS, HIPPOCAMPI = "brains_oasis_miccai2012/{}_SS.nii.gz", "atlas3d_msd_hippocampus/images/hippocampus_{}.nii.gz"
SLICES, MERMAID = "atlas2d_oasis_trt20_slices/OASIS-TRT-20-{}_slice118.nii.gz", "atlas2d_oasis_mermaid/oasis2d_{}.nrrd.gz"
SPM, LUNGS = "templates_mni2mm/{}.nii.gz", "lung_ct_elastix/3DCT_lung_{}.mha"
LGG, PERSON = "multimodal_tcga_lgg/TCGA-FG-6692_{}.nii.gz", "multimodal_rniftyreg/{}.nii.gz"
MRI, SHIFT = "lung_mri/{}H1.nii.gz", "fem_brainshift_pbnrr/PBNRR{}Image.nii.gz"
SHORT, FAST = "4x40,2x15", "4x40,2x8"
# Name, fixed, moving, options; "none" starts from the headers.
RIGHT = [
    ("hippocampi", HIPPOCAMPI.format("001"), HIPPOCAMPI.format("011"), "none"),
    ("hippocampi, mi", HIPPOCAMPI.format("001"), HIPPOCAMPI.format("011"), "none mi"),
    ("slices", SLICES.format(1), SLICES.format(2), "auto"),
    ("slices, mi", SLICES.format(1), SLICES.format(2), "auto mi"),
    ("small slices", MERMAID.format("0002"), MERMAID.format("0001"), "none"),
    ("T1 <- T2", SPM.format("avg152T1"), SPM.format("avg152T2"), f"none {SHORT}"),
    ("T2 <- T1, mi", SPM.format("avg152T2"), SPM.format("avg152T1"), f"none mi {SHORT}"),
    ("T1 <- CT", SPM.format("single_subj_T1"), SPM.format("scct_CT"), f"none {SHORT}"),
    ("CT <- T1, mi", SPM.format("scct_CT"), SPM.format("single_subj_T1"), f"none mi {SHORT}"),
    ("one T1 <- mean T2", SPM.format("single_subj_T1"), SPM.format("avg152T2"), f"none {SHORT}"),
    ("one T1 <- mean T2, mi", SPM.format("single_subj_T1"), SPM.format("avg152T2"), f"none mi {SHORT}"),
    ("grey matter <- T1, mi", SPM.format("tpm_grey"), SPM.format("avg152T1"), f"none mi {SHORT}"),
    ("T1 <- EPI", PERSON.format("flash_t1"), PERSON.format("epi_t2"), f"auto {SHORT}"),
    ("brain shift*", SHIFT.format("Fixed"), SHIFT.format("Moving"), f"none {SHORT}"),
    ("brains*", BRAINS.format(1007), BRAINS.format(1128), f"auto {FAST}"),
    ("one brain*", BRAINS.format(1003), BRAINS.format(1023), f"auto {FAST}"),
    ("heads*", "brains_oasis_miccai2012/1000_fullhead_2mm.nii.gz",
     "brains_oasis_miccai2012/1001_fullhead_2mm.nii.gz", f"auto {FAST}"),
    ("lungs, CT*", LUNGS.format("baseline"), LUNGS.format("followup"), f"auto {FAST}"),
    ("breath, CT*", "lung_4dct_plastimatch/t0.nii.gz", "lung_4dct_plastimatch/t5.nii.gz", f"none {FAST}"),
    ("glioma, T1 <- T2*", LGG.format("t1"), LGG.format("t2"), f"auto {FAST}"),
    ("glioma, T1 <- FLAIR, mi*", LGG.format("t1"), LGG.format("fla"), f"auto mi {FAST}"),
]
# Name, fixed, moving, options: these are spoilt in every way.
SPOILT = [
    ("hippocampi", HIPPOCAMPI.format("001"), HIPPOCAMPI.format("011"), ""),
    ("slices", SLICES.format(1), SLICES.format(2), ""),
    ("T2 and T1", SPM.format("avg152T2"), SPM.format("avg152T1"), SHORT),
    ("lungs, MRI", MRI.format("0012"), MRI.format("0006"), SHORT),
]
WAYS = ["noise", "smooth noise", "box", "ball", "point", "shuffled", "upside down", "40 mm off"]
OTHERS = [
    ("T1 head <- lungs, MRI*", SPM.format("avg152T1"), MRI.format("0012"), SHORT),
    ("lungs, MRI <- T1 head*", MRI.format("0006"), SPM.format("avg152T1"), SHORT),
    ("hippocampus <- lungs, MRI*", HIPPOCAMPI.format("001"), MRI.format("0012"), SHORT),
]


class Image:
    """A NIfTI-1 file: its header as it is, and its values as numbers."""

    def __init__(self, path):
        raw = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
        self.order = "<" if struct.unpack("<i", raw[:4])[0] == 348 else ">"
        get = lambda form, at: struct.unpack_from(self.order + form, raw, at)
        self.dims = [max(n, 1) for n in get("8h", 40)[1:4]]
        count = self.dims[0] * self.dims[1] * self.dims[2]
        values = array.array(CODES[get("h", 70)[0]], raw[int(get("f", 108)[0]):][
            :count * get("h", 72)[0] // 8])
        if (sys.byteorder == "little") != (self.order == "<"):
            values.byteswap()
        derivative, offset = get("2f", 112)
        self.values = [v * derivative + offset for v in values] if derivative not in (0.0, 1.0) or offset \
            else list(values)
        self.header = bytearray(raw[:348])

    def write(self, path, values, shift=(0.0, 0.0, 0.0)):
        header, order = bytearray(self.header), self.order
        struct.pack_into(order + "2h", header, 70, 16, 32)
        struct.pack_into(order + "3f", header, 108, 352.0, 1.0, 0.0)
        for at, by in [(268, 0), (272, 1), (276, 2), (292, 0), (308, 1), (324, 2)]:
            old = struct.unpack_from(order + "f", header, at)[0]
            struct.pack_into(order + "f", header, at, old + shift[by])
        out = array.array("f", values)
        if (sys.byteorder == "little") != (order == "<"):
            out.byteswap()
        with gzip.open(path, "wb", 1) as file:
            file.write(bytes(header) + b"\0" * 4 + out.tobytes())

    def centre(self):
        """The middle of the grid, mm."""
        get = lambda form, at: struct.unpack_from(self.order + form, self.header, at)
        half = [(n - 1) / 2 for n in self.dims]
        if get("h", 254)[0] > 0:
            rows = [get("4f", at) for at in (280, 296, 312)]
        else:
            b, c, d = get("3f", 256)
            a = max(0.0, 1 - b * b - c * c - d * d) ** 0.5
            size, origin = get("4f", 76), get("3f", 268)
            sign = -1.0 if size[0] < 0 else 1.0
            turn = [[a*a+b*b-c*c-d*d, 2*(b*c-a*d), 2*(b*d+a*c)],
                    [2*(b*c+a*d), a*a+c*c-b*b-d*d, 2*(c*d-a*b)],
                    [2*(b*d-a*c), 2*(c*d+a*b), a*a+d*d-b*b-c*c]]
            if get("h", 252)[0] <= 0:
                turn, origin = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (0, 0, 0)
            lengths = [size[1], size[2], size[3] * sign]
            rows = [[t * l for t, l in zip(turn[r], lengths)] + [origin[r]] for r in range(3)]
        return [sum(r[i] * half[i] for i in range(3)) + r[3] for r in rows]


def spoilt(image, way, to, rng):
    """The values of an image spoilt in a way, and how far it is shifted so that its middle is `to`."""
    nx, ny, nz = image.dims
    shift = [t - c for t, c in zip(to, image.centre())]
    values = image.values
    place = lambda i: (i % nx, i // nx % ny, i // (nx * ny))
    part = lambda i: [2 * p / (n - 1) - 1 if n > 1 else 0.0 for p, n in zip(place(i), (nx, ny, nz))]
    if way == "noise":
        values = [rng.random() * 1000 for _ in values]
    elif way == "smooth noise":
        values = [rng.random() * 1000 for _ in values]
        for step, count in ((1, nx), (nx, ny), (nx * ny, nz)):
            for _ in range(4 if count > 1 else 0):
                values = [(values[max(i - step, 0)] + 2 * v + values[min(i + step, len(values) - 1)]) / 4
                          for i, v in enumerate(values)]
    elif way == "box":
        values = [1000.0 if all(abs(p) < 0.5 for p in part(i)) else 0.0 for i in range(len(values))]
    elif way == "ball":
        values = [1000.0 if sum(p * p for p in part(i)) < 0.5 else 0.0 for i in range(len(values))]
    elif way == "point":
        middle = nx // 2 + nx * (ny // 2 + ny * (nz // 2))
        values = [1000.0 if i == middle else 0.0 for i in range(len(values))]
    elif way == "shuffled":
        ordered = sorted(values)
        low, high = ordered[len(values) // 100], ordered[len(values) * 99 // 100]
        tissue = [i for i, v in enumerate(values) if v > low + 0.1 * (high - low)]
        order = tissue[:]
        rng.shuffle(order)
        values = values[:]
        for i, j in zip(tissue, order):
            values[i] = image.values[j]
    elif way == "upside down":
        last = nz - 1 if nz > 1 else ny - 1
        flip = (lambda x, y, z: (x, y, last - z)) if nz > 1 else (lambda x, y, z: (x, last - y, z))
        index = lambda x, y, z: x + nx * (y + ny * z)
        values = [values[index(*flip(*place(i)))] for i in range(len(values))]
    elif way == "40 mm off":
        shift[0] += 40.0
    return values, shift


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--program", default="target/release/voxalign")
    parser.add_argument("--only", default="", help="substrings of the names of pairs")
    args = parser.parse_args()
    wanted = [w for w in args.only.split(",") if w]
    folder = tempfile.mkdtemp(prefix="agreement-")

    def nifti(path):
        """The image as NIfTI, in the folder where it had to be converted."""
        source = os.path.join(args.data, path)
        if source.endswith(".nii.gz"):
            return source
        target = os.path.join(folder, path.replace("/", "_") + ".nii.gz")
        if not os.path.exists(target):
            if source.endswith(".nrrd.gz"):
                plain = os.path.join(folder, os.path.basename(source)[:-3])
                with open(plain, "wb") as file:
                    file.write(gzip.open(source).read())
                source = plain
            subprocess.run([args.program, "convert", source, target], check=True,
                           stdout=subprocess.DEVNULL)
        return target

    def row(kind, name, fixed, moving, options):
        if wanted and not any(w in name for w in wanted):
            return
        words = options.split()
        line = [args.program, "deform", fixed, moving, "-o", os.path.join(folder, "out"), "--device",
                "cpu", "--no-report", "--outputs", "affine", "--quiet", "--affine",
                "auto" if "auto" in words else "none"]
        line += ["--similarity", "mi"] if "mi" in words else []
        line += [part for word in words if "x" in word and word != "auto" for part in
                 ("--schedule", word)]
        run = subprocess.run(line, capture_output=True, text=True)
        if run.returncode not in (0, 1):
            print(f"| {kind} | {name} | {run.stderr.strip()[:60]} | | |", flush=True)
            return
        record = json.load(open(os.path.join(folder, "out", "result.json"), encoding="utf-8"))
        shared = record["figures"].get("information_in_tissue_after", float("nan"))
        energy = next((c["value"] for c in record["verdict"]["checks"]
                       if c["name"].startswith("harmonic energy")), None)
        energy = "" if energy is None else f"{energy:.2f}"
        verdict = "good" if record["verdict"]["good"] else "bad"
        print(f"| {kind} | {name} | {shared:.3f} | {energy} | {verdict} |", flush=True)

    print("| | fixed <- moving | shared, nats | energy for each nat | verdict |")
    print("|---|---|---|---|---|")
    for name, fixed, moving, options in RIGHT:
        row("right", name, nifti(fixed), nifti(moving), options)
    rng = random.Random(1)
    for name, fixed, moving, options in SPOILT:
        to = Image(nifti(fixed)).centre()
        image = Image(nifti(moving))
        for way in WAYS:
            title = f"{name}: {way}"
            if wanted and not any(w in title for w in wanted):
                continue
            path = os.path.join(folder, "spoilt.nii.gz")
            image.write(path, *spoilt(image, way, to, rng))
            row("wrong", title, nifti(fixed), path, options)
            if way in ("noise", "box", "point"):
                row("wrong", f"{title}, as the fixed image", path, nifti(fixed), options)
    for name, fixed, moving, options in OTHERS:
        path = os.path.join(folder, "spoilt.nii.gz")
        image = Image(nifti(moving))
        image.write(path, *spoilt(image, "", Image(nifti(fixed)).centre(), rng))
        row("wrong", name, nifti(fixed), path, options)


if __name__ == "__main__":
    main()
