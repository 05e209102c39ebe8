#!/usr/bin/env python3
"""Makes the HDF5 transforms of this folder, packed, and prints where they carry the points of the tests.

Needs SimpleITK 2.5 and h5py 3. `itk_*` are as SimpleITK writes them; the others hold the transform of
`itk_composite` in other ways of HDF5, as older programs have them. The content is made up here: no licence.
"""
import gzip
import os
import tempfile

import h5py
import numpy as np
import SimpleITK as sitk

POINTS = [[0.0, 0.0, 0.0], [11.0, -22.0, 33.0], [2.47, 10.78, -12.82]]
HERE = os.path.dirname(os.path.abspath(__file__))


def field(dims):
    """An oblique field with several steps between its vectors, about the origin."""
    turn = sitk.Euler3DTransform((0, 0, 0), 0.3, -0.2, 0.5) if dims == 3 else sitk.Euler2DTransform((0, 0), 0.4)
    matrix = np.array(turn.GetMatrix()).reshape(dims, dims)
    matrix[:, 0] *= -1
    size, spacing = [3, 3, 2][:dims], [28.0, 31.0, 47.0][:dims]
    values = np.sin(np.arange(np.prod(size) * dims) * 0.7).reshape(size[::-1] + [dims]) * 3
    image = sitk.GetImageFromArray(values, isVector=True)
    image.SetSpacing(spacing)
    image.SetDirection(matrix.ravel())
    image.SetOrigin(matrix @ np.diag(spacing) @ -((np.array(size) - 1) / 2) + [1.0, -2.0, 3.0][:dims])
    return sitk.DisplacementFieldTransform(image)


def linear(i):
    return sitk.Euler3DTransform((1, 2, 3), 0.1, 0.02 * i, -0.1, (i, 0.5, -1))


def known(transform):
    """The points in RAS, carried in LPS."""
    dims = transform.GetDimension()
    rows = []
    for x, y, z in POINTS:
        p = [-x, -y, z]
        p[:dims] = transform.TransformPoint(p[:dims])
        rows.append([round(v, 9) for v in (-p[0], -p[1], p[2])])
    return rows


def put(folder, name):
    with open(os.path.join(folder, name), "rb") as file, \
            open(os.path.join(HERE, name + ".gz"), "wb") as out:
        out.write(gzip.compress(file.read(), 9, mtime=0))


def again(source, target, *, libver, word="Transform", fixed_text=False, kind="<f8", **storage):
    """The same transform stored in another way."""
    with h5py.File(source) as old, h5py.File(target, "w", libver=libver) as new:
        for number, group in old["TransformGroup"].items():
            made = new.create_group(f"TransformGroup/{number}")
            text = group["TransformType"][0]
            if "f4" in kind:
                text = text.replace(b"double", b"float")
            dtype = f"S{len(text) + 3}" if fixed_text else h5py.string_dtype("ascii")
            made.create_dataset("TransformType", data=[text], dtype=dtype)
            if "TransformParameters" not in group:
                continue
            made.create_dataset(f"{word}FixedParameters", data=group["TransformFixedParameters"][()])
            values = group["TransformParameters"][()].astype(kind)
            options = dict(storage)
            if "chunks" in options:
                options["chunks"] = (min(options["chunks"], values.size),)
            if options.pop("early", False):
                # Chunks that lie one after the other.
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_chunk((min(20, values.size),))
                plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                space = h5py.h5s.create_simple(values.shape)
                name = f"{word}Parameters".encode()
                kind_id = h5py.h5t.py_create(values.dtype)
                h5py.h5d.create(made.id, name, kind_id, space, plist).write(
                    h5py.h5s.ALL, h5py.h5s.ALL, values)
            else:
                made.create_dataset(f"{word}Parameters", data=values, **options)


def main():
    affine = sitk.AffineTransform(3)
    affine.SetMatrix([1.1, 0.1, 0, -0.2, 0.9, 0.05, 0, 0.1, 1.2])
    affine.SetCenter((5, -6, 7))
    affine.SetTranslation((2, -3, 4))
    flat = sitk.AffineTransform(2)
    flat.SetMatrix([1.1, 0.1, -0.2, 0.9])
    flat.SetTranslation((2, -3))
    turn = sitk.VersorRigid3DTransform((0.6, 0.0, 0.8), 0.4, (1, 2, 3), (-4, 5, -6))
    made = {
        "itk_affine": affine,
        "itk_composite": sitk.CompositeTransform([affine, field(3), turn]),
        "itk_composite_2d": sitk.CompositeTransform([flat, field(2)]),
        "itk_many": sitk.CompositeTransform([linear(i) for i in range(60)]),
        "itk_identity": sitk.Transform(3, sitk.sitkIdentity),
    }
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name + ".h5")
        for name, transform in made.items():
            sitk.WriteTransform(transform, at(name))
            put(folder, name + ".h5")
            rows = ", ".join(f"[{', '.join(map(repr, row))}]" for row in known(sitk.ReadTransform(at(name))))
            print(f'("{name}", [{rows}]),')
        spline = sitk.BSplineTransform(3, 2)
        sitk.WriteTransform(spline, at("itk_spline"))
        put(folder, "itk_spline.h5")
        old, new = "earliest", "latest"
        for name, how in {
            "old": dict(libver=old),
            "old_misspelled": dict(libver=old, word="Tranform", fixed_text=True),
            "old_float_packed": dict(libver=old, kind="<f4", chunks=1 << 20, compression="gzip"),
            "old_chunks": dict(libver=old, kind=">f8", chunks=7),
            "new_packed": dict(libver=new, chunks=1 << 20, compression="gzip"),
            "new_array": dict(libver=new, chunks=20),
            "new_array_packed": dict(libver=new, kind=">f4", chunks=20, compression="gzip"),
            "new_early": dict(libver=new, early=True),
            "new_shuffled": dict(libver=new, chunks=20, shuffle=True),
        }.items():
            again(at("itk_composite"), at(name), **how)
            put(folder, name + ".h5")


if __name__ == "__main__":
    main()
