#!/usr/bin/env python3
"""Verdicts of `voxalign pose` on right and wrong poses, by kind, for the bounds of its checks.

    calibrate_poses.py VOXALIGN DATA FOLDER [--seeds N] [--only TEXT] [--held-out] [--jobs N]

DATA is the folder of test images (ct_head_invesalius, lung_4dct_plastimatch); FOLDER gets the runs, which stay
and are not repeated. CTs of 4 to 5 mm are registered to images of 128 x 128 pixels that were simulated of finer ones, with the noise of
100 000 photons a pixel, from starts up to 15 mm and 10 degrees away along and about each axis. A pose is right where the mean error of
27 points, a grid over the middle half of the CT, is at most 1 mm. Odd seeds are those that bounds are chosen on, even ones
(--held-out) are set aside. Needs numpy. Prints a line for each run and a table.
"""
import argparse
import collections
import concurrent.futures
import gzip
import json
import os
import shutil
import struct
import subprocess

import numpy as np

WATER, AIR = 0.02, -950.0
NEAR, FAR = 1000.0, 1500.0
CTS = {"head": "ct_head_invesalius/cranium_ct.nii.gz", "chest": "lung_4dct_plastimatch/t0.nii.gz"}
RIGHT = 1.0


def read(path):
    raw = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
    dims = struct.unpack_from("<8h", raw, 40)
    kind, offset = struct.unpack_from("<h", raw, 70)[0], int(struct.unpack_from("<f", raw, 108)[0])
    derivative, shift = struct.unpack_from("<2f", raw, 112)
    data = np.frombuffer(raw, {4: "<i2", 16: "<f4", 512: "<u2", 2: "u1"}[kind], offset=offset).astype(np.float32)
    data = data[: np.prod(dims[1 : dims[0] + 1])].reshape([n for n in dims[dims[0] : 0 : -1]])
    if derivative not in (0.0, 1.0) or (derivative and shift):
        data = data * derivative + shift
    rows = np.array(struct.unpack_from("<12f", raw, 280)).reshape(3, 4)
    return data, rows


def write(path, data, rows):
    """A volume, z y x, with the rows of its affine map."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, data.ndim, *data.shape[::-1], *[1] * (7 - data.ndim))
    struct.pack_into("<2h", header, 70, 16, 32)
    spacing = np.linalg.norm(rows[:, :3], axis=0)
    struct.pack_into("<8f", header, 76, 1, *spacing, 1, 1, 1, 1)
    struct.pack_into("<3f", header, 108, 352, 1, 0)
    header[123] = 2
    struct.pack_into("<2h", header, 252, 0, 1)
    struct.pack_into("<12f", header, 280, *np.asarray(rows).ravel())
    header[344:348] = b"n+1\0"
    with open(path, "wb") as f:
        f.write(bytes(header) + np.ascontiguousarray(data, "<f4").tobytes())


def binned(data, rows, factors):
    """Means over blocks; factors are along x, y, z."""
    fx, fy, fz = factors
    z, y, x = (n // f * f for n, f in zip(data.shape, (fz, fy, fx)))
    cut = data[:z, :y, :x].reshape(z // fz, fz, y // fy, fy, x // fx, fx).mean(axis=(1, 3, 5))
    rows = rows.copy()
    rows[:, 3] += rows[:, :3] @ ((np.array(factors) - 1) / 2)
    rows[:, :3] = rows[:, :3] * factors
    return cut, rows


def turn(degrees):
    """About x, y and z, in that order."""
    out = np.eye(3)
    for axis, angle in enumerate(np.deg2rad(degrees)):
        c, s = np.cos(angle), np.sin(angle)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        one = np.eye(3)
        one[i, i], one[i, j], one[j, i], one[j, j] = c, -s, s, c
        out = one @ out
    return out


def call(command, codes=(0, 1)):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    return done


class Body:
    """A CT, fine and coarse, soft tissue and bone of it."""

    def __init__(self, name, path, folder):
        self.name = name
        self.coarse, self.fine, self.soft, self.bone = (f"{folder}/{name}_{k}.nii" for k in ("coarse", "fine", "soft", "bone"))
        data, rows = read(path)
        spacing = np.linalg.norm(rows[:, :3], axis=0)
        mu = np.where(data > AIR, WATER * (1 + data / 1000), 0)
        fine, fine_rows = binned(mu, rows, [max(1, round(2.0 / s)) for s in spacing])
        coarse, coarse_rows = binned(mu, rows, [max(1, round(4.6 / s)) for s in spacing])
        soft = np.minimum(fine, WATER * 1.15)
        write(self.fine, fine, fine_rows)
        write(self.coarse, coarse, coarse_rows)
        write(self.soft, soft, fine_rows)
        write(self.bone, fine - soft, fine_rows)
        self.dims = np.array(coarse.shape[::-1])
        self.rows = coarse_rows
        self.centre = self.place((self.dims - 1) / 2)

    def place(self, index):
        return self.rows[:, :3] @ index + self.rows[:, 3]

    def error(self, record, truth):
        """The mean error in the room of points over the middle half."""
        grid = np.array([[i, j, k] for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)])
        points = np.array([self.place((self.dims - 1) / 2 + g * self.dims / 4) for g in grid])
        pose = np.array(record["pose"])
        found = (points - pose[:, 3]) @ np.linalg.inv(pose[:, :3]).T
        degrees, mm = truth
        right = (points - self.centre) @ turn(degrees).T + self.centre + mm
        return float(np.linalg.norm(found - right, axis=1).mean())


class View:
    def __init__(self, name, angle, centre, pixel, size=128):
        a = np.deg2rad(angle)
        self.name, self.size = name, size
        front = np.array([np.sin(a), np.cos(a), 0.0])
        self.source = centre + NEAR * front
        self.column, self.row = pixel * np.array([-np.cos(a), np.sin(a), 0.0]), pixel * np.array([0.0, 0.0, -1.0])
        middle = centre - (FAR - NEAR) * front
        self.origin = middle - (size - 1) / 2 * (self.column + self.row)

    def copy(self):
        other = View.__new__(View)
        other.__dict__ = {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        return other

    def middle(self):
        return self.origin + (self.size - 1) / 2 * (self.column + self.row)

    def moved(self, by):
        self.origin = self.origin + by
        return self

    def distance(self, factor):
        """The detector farther away."""
        normal = self.middle() - self.source
        return self.moved(normal * (factor - 1))

    def pixels(self, factor):
        middle = self.middle()
        self.column, self.row = self.column * factor, self.row * factor
        self.origin = middle - (self.size - 1) / 2 * (self.column + self.row)
        return self

    def turned(self, degrees, centre):
        r = turn([0, 0, degrees])
        self.source, self.origin = (r @ (p - centre) + centre for p in (self.source, self.origin))
        self.column, self.row = r @ self.column, r @ self.row
        return self

    def farther(self, factor):
        """The source farther from the detector."""
        self.source = self.middle() + (self.source - self.middle()) * factor
        return self

    def text(self):
        def three(v):
            return "[" + ", ".join("%.9g" % x for x in v) + "]"

        keys = "".join(f"{k} = {three(getattr(self, k))}\n" for k in ("source", "origin", "column", "row"))
        return f'[[view]]\nname = "{self.name}"\nsize = [{self.size}, {self.size}]\n{keys}'


def table(views, path):
    with open(path, "w") as f:
        f.write("".join(v.text() for v in views))


def blurred(image, times):
    for _ in range(times):
        for axis in (0, 1):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return image


# A kind: what of images and views is other than the truth. Right kinds are to be found, wrong ones not to be believed.
GEOMETRIES = {
    "distance +2 %": lambda views, c: [v.distance(1.02) for v in views],
    "distance -2 %": lambda views, c: [v.distance(0.98) for v in views],
    "distance +10 % in one": lambda views, c: [views[0], views[1].distance(1.10)],
    "pixels +10 % in one": lambda views, c: [views[0], views[1].pixels(1.10)],
    "pixels +3 % in one": lambda views, c: [views[0].pixels(1.03), views[1]],
    "detector shifted by 20 mm": lambda views, c: [views[0].moved(views[0].column / np.linalg.norm(views[0].column) * 20), views[1]],
    "detector shifted up by 8 mm": lambda views, c: [views[0], views[1].moved(views[1].row / np.linalg.norm(views[1].row) * 8)],
    "source +10 %": lambda views, c: [v.farther(1.10) for v in views],
    "view turned by 3 degrees": lambda views, c: [views[0], views[1].turned(3, c)],
    "view turned by 10 degrees": lambda views, c: [views[0], views[1].turned(10, c)],
}
IMAGES = {
    "exchanged": lambda images: images[::-1],
    "first mirrored": lambda images: [images[0][:, ::-1], images[1]],
    "second mirrored": lambda images: [images[0], images[1][:, ::-1]],
    "both mirrored": lambda images: [i[:, ::-1] for i in images],
}


def metal(image, random):
    """Rods over about 3 % of the image, far more than bone."""
    out = image.copy()
    n = image.shape[0]
    while (out != image).mean() < 0.03:
        x, y = random.uniform(0.25 * n, 0.7 * n, 2)
        a = random.uniform(0, np.pi)
        j, i = np.mgrid[:n, :n]
        u, v = (i - x) * np.cos(a) + (j - y) * np.sin(a), (j - y) * np.cos(a) - (i - x) * np.sin(a)
        out[(np.abs(u) < 0.12 * n) & (np.abs(v) < 1.6)] = 12.0
    return out


def along(n, x, y, angle):
    """Places of pixels along a direction and across it, from a point."""
    j, i = np.mgrid[:n, :n]
    return (i - x) * np.cos(angle) + (j - y) * np.sin(angle), (j - y) * np.cos(angle) - (i - x) * np.sin(angle)


def screws(image, random):
    """Some screws with threads and heads, about 3 % of the image, upon what is there."""
    out, n = image.copy(), image.shape[0]
    for _ in range(6):
        u, v = along(n, *random.uniform(0.25 * n, 0.75 * n, 2), random.uniform(0, 2 * np.pi))
        shaft = (np.abs(u) < 0.08 * n) & (np.abs(v) < 0.014 * n + 0.5 * np.sin(u * 2.1))
        head = (np.abs(u - 0.08 * n) < 0.016 * n) & (np.abs(v) < 0.03 * n)
        out[shaft | head] += 4.0
    return out


def wire(image, random):
    """A wire of one or two pixels that winds through the image, about 1 % of it."""
    out, n = image.copy(), image.shape[0]
    t = np.linspace(0, 1, 40 * n)
    phase = random.uniform(0, 2 * np.pi, 2)
    x = n * (0.15 + 0.7 * t)
    y = n * (0.5 + 0.15 * np.sin(7 * t + phase[0]) + 0.06 * np.sin(19 * t + phase[1]))
    places = np.zeros(image.shape, bool)
    places[np.round(y).astype(int).clip(0, n - 1), np.round(x).astype(int).clip(0, n - 1)] = True
    out[places] += 3.0
    return out


def text(image, random):
    """Letters as bright as the brightest pixel, and letters as dark as air, about 7 % of the image."""
    out, n = image.copy(), image.shape[0]
    size = max(1, n // 64)
    for value, row, column in ((image.max(), 0.08, 0.08), (image.max(), 0.55, 0.3), (0.0, 0.8, 0.4)):
        for letter in range(6):
            bits = random.uniform(size=(7, 5)) < 0.5
            y, x = int(row * n), int(column * n) + letter * 6 * size
            part = out[y : y + 7 * size, x : x + 5 * size]
            part[np.kron(bits, np.ones((size, size), bool))[: part.shape[0], : part.shape[1]]] = value
    return out


def plate(image, random):
    """A plate with holes over about 5 % of the image, upon what is there."""
    out, n = image.copy(), image.shape[0]
    u, v = along(n, *random.uniform(0.4 * n, 0.6 * n, 2), random.uniform(0, np.pi))
    holes = ((u + 0.3 * n) % (0.12 * n) - 0.06 * n) ** 2 + v**2 < (0.025 * n) ** 2
    out[(np.abs(u) < 0.29 * n) & (np.abs(v) < 0.055 * n) & ~holes] += 5.0
    return out


METALS = {"metal": metal, "screws": screws, "wire": wire, "text": text, "plate": plate}


def bordered(image, value):
    out = np.full_like(image, value)
    n = image.shape[0]
    a, b = int(0.17 * n), int(0.83 * n)
    out[a:b, a : b + 6] = image[a:b, a : b + 6]
    return out


# What is wrong with a geometry and refined together with the pose.
REFINED = {
    "distance +2 %, refined": "distance",
    "distance +10 % in one, refined": "distance",
    "detector shifted by 20 mm, refined": "principal-point",
    "detector shifted up by 8 mm, refined": "principal-point",
}
OTHERS = ["metal, ncc", "plate, mi", "screws, noise of 5000", "wire, scaled values"]
RIGHTS = ["plain", "noise of 5000", "blurred", "plain, ncc", *METALS, *OTHERS, "saturated", "border 0", "border bright", "scaled values", *REFINED]
WRONGS = [*GEOMETRIES, *IMAGES, "other body", "soft tissue by 4 mm", "start 70 degrees off"]
WRONGS += ["metal, exchanged", "plate, first mirrored", "screws, both mirrored", "text, other body"]
WRONGS += ["wire, distance +10 % in one", "metal, view turned by 3 degrees", "screws, pixels +10 % in one"]
SINGLES = ["one view", "one view, mirrored"]


class Study:
    def __init__(self, program, data, folder):
        self.program, self.folder = program, folder
        os.makedirs(folder, exist_ok=True)
        self.bodies = {name: Body(name, os.path.join(data, path), folder) for name, path in CTS.items()}

    def images(self, body, views, truth, run, noise, seed, parts=None):
        degrees, mm = truth
        table(views, f"{run}/true.toml")
        pair = []
        for ct, by in parts or [(body.fine, [0, 0, 0])]:
            command = [self.program, "drr", ct, "-o", f"{run}/sim", "--geometry", f"{run}/true.toml", "--units", "attenuation"]
            command += ["--rotation=" + ",".join(map(str, degrees)), "--translation=" + ",".join(str(a + b) for a, b in zip(mm, by))]
            command += ["--centre=" + ",".join(map(str, body.centre)), "--format", "nifti", "--no-report", "--device", "cpu", "--threads", "1", "-q"]
            call(command)
            pair.append([np.squeeze(read(f"{run}/sim/{v.name}.nii.gz")[0]) for v in views])
            shutil.rmtree(f"{run}/sim")
        images = [sum(p[i] for p in pair) for i in range(len(views))]
        random = np.random.default_rng(seed)
        counts = [np.maximum(random.poisson(noise * np.exp(-i)), 1) for i in images]
        return [np.log(noise / c).astype(np.float32) for c in counts]

    def run(self, name, kind, seed):
        body = self.bodies[name]
        run = f"{self.folder}/{name}_{kind}_{seed}".replace(" ", "_").replace("%", "pc").replace("+", "p").replace(",", "")
        if not os.path.exists(f"{run}/found/result.json"):
            self.make(body, kind, seed, run)
        with open(f"{run}/found/result.json") as f:
            record = json.load(f)
        return name, kind, seed, record, body.error(record, self.truth(kind, seed)[0])

    def truth(self, kind, seed):
        random = np.random.default_rng(seed)
        truth = random.uniform(-5, 5, 3), random.uniform(-8, 8, 3)
        far = 70.0 if kind.startswith("start") else 0.0
        off = random.uniform(-10, 10, 3) + [0, 0, far], random.uniform(-15, 15, 3)
        return truth, (truth[0] + off[0], truth[1] + off[1])

    def make(self, body, kind, seed, run):
        shutil.rmtree(run, ignore_errors=True)
        os.makedirs(run)
        random = np.random.default_rng(seed + 1000)
        truth, start = self.truth(kind, seed)
        wide = 1.25 * FAR / NEAR * np.linalg.norm(body.rows[:, :3] @ (body.dims * [1, 1, 0])) / np.sqrt(2)
        name, thing = kind, None
        if kind.split(", ")[0] in METALS:
            thing, _, kind = kind.partition(", ")
        views = [View(n, a, body.centre, wide / 128) for n, a in (("ap", 0), ("lateral", 90))]
        if kind in SINGLES:
            views = views[:1]
        of = self.bodies["chest" if body.name == "head" else "head"] if kind == "other body" else body
        true = [View(v.name, a, of.centre, wide / 128) for v, a in zip(views, (0, 90))] if of is not body else views
        parts = [(body.bone, [0.2, 0.2, 0.1]), (body.soft, [2.5, -2.5, 2.0])] if kind.startswith("soft") else None
        images = self.images(of, true, truth, run, 5000 if kind == "noise of 5000" else 1e5, seed, parts)
        geometry = GEOMETRIES.get(kind.removesuffix(", refined"))
        if geometry:
            views = geometry([v.copy() for v in views], body.centre)
        images = IMAGES.get(kind, lambda i: i)(images)
        if kind == "one view, mirrored":
            images = [images[0][:, ::-1]]
        if thing:
            images = [METALS[thing](i, random) for i in images]
        if kind == "saturated":
            images = [np.minimum(i, 0.7 * np.percentile(i, 99.5)) for i in images]
        if kind == "blurred":
            images = [blurred(i, 3) for i in images]
        if kind.startswith("border"):
            images = [bordered(i, 0.0 if kind.endswith("0") else 9.0) for i in images]
        if kind == "scaled values":
            images = [np.sqrt(np.maximum(i, 0)) * 300 + 40 for i in images]
        table(views, f"{run}/views.toml")
        paths = []
        for v, image in zip(views, images):
            paths.append(f"{run}/{v.name}.nii")
            write(paths[-1], image[None], np.hstack([np.eye(3), np.zeros((3, 1))]))
        command = [self.program, "pose", body.coarse, *paths, "--geometry", f"{run}/views.toml", "-o", f"{run}/found", "--units", "attenuation"]
        command += ["--init-rotation=" + ",".join(map(str, start[0])), "--init-translation=" + ",".join(map(str, start[1]))]
        command += ["--no-report", "--device", "cpu", "--threads", "1", "-q", "--seed", str(seed)]
        if kind in REFINED:
            command += ["--refine", REFINED[kind]]
        if kind.split(", ")[-1] in ("ncc", "mi"):
            command += ["--similarity", kind.split(", ")[-1]]
        if name.startswith("start") or seed % 4 >= 2:
            command += ["--search", "local"]
        call(command)


def shown(value):
    return "-" if value is None else "%.3g" % value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="kinds with this in their names; =KIND for one")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, of one thread each")
    args = parser.parse_args()
    study = Study(args.program, args.data, args.folder)
    first = 2 if args.held_out else 1
    seeds = [first + 2 * i for i in range(args.seeds)]
    kinds = [k for k in RIGHTS + SINGLES + WRONGS if (args.only[1:] == k if args.only.startswith("=") else args.only in k)]
    jobs = [(name, kind, seed) for kind in kinds for name in CTS for seed in seeds]
    counts = collections.OrderedDict()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, kind, seed, record, error in pool.map(lambda job: study.run(*job), jobs):
            right, good = error <= (RIGHT if kind not in SINGLES else 6.0), record["verdict"]["good"]
            count = counts.setdefault((name, kind), [0, 0, 0, 0])
            count[2 * (not right) + (not good)] += 1
            views = " ".join(
                f"{shown(v['correlation_of_gradients'])}/{shown(v['outlines_apart_mm'])}/{shown(v['correlation_of_blocks'][0])}/"
                f"{shown(v['correlation_of_blocks'][1])}/{shown(v['alone_mm'])}/{shown(v['deviation_mm'])}"
                for v in record["views"]
            )
            views += "".join(f" {f['what']} {shown(f['pose_moves_mm'])}/{shown(f['deviation_mm'])}" for f in record.get("geometry_freed", []))
            checks = " ".join(("" if c["passed"] else "!") + shown(c["value"]) for c in record["verdict"]["checks"])
            mark = "  " if right == good else "**"
            print(f"{mark} {name} {kind} {seed}: {error:.2f} mm, {'good' if good else 'bad'} | {views} | {checks}", flush=True)
    print("\n| CT | kind | right, good | right, bad | wrong, good | wrong, bad |\n|---|---|---|---|---|---|")
    for (name, kind), count in counts.items():
        print(f"| {name} | {kind} | " + " | ".join(map(str, count)) + " |")
    total = np.sum(list(counts.values()), axis=0)
    print("| all | | " + " | ".join(map(str, total)) + " |")


if __name__ == "__main__":
    main()
