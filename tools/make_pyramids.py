#!/usr/bin/env python3
"""Makes the small images in crates/io/tests/pyramid/data by the programs that others use: TIFF and BigTIFF by tifffile, OME-Zarr
by zarr-python and ome-zarr. Their values follow from formulas that the tests have as well.

    pip install numpy tifffile imagecodecs zarr ome-zarr
    tools/make_pyramids.py                     # writes them anew
    tools/make_pyramids.py --check FOLDER      # reads pyramids that voxalign wrote, and compares their levels
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
import tifffile
import zarr

DATA = pathlib.Path(__file__).resolve().parent.parent / "crates/io/tests/pyramid/data"


def grey(nx, ny, nz=1, c=0, dtype=np.uint16):
    """Values that repeat nowhere, as the tests compute them."""
    z, y, x = np.mgrid[0:nz, 0:ny, 0:nx].astype(np.int64)
    values = 523 * x + 1031 * y + 77 * z + 37 * ((x * y) % 97) + 4001 * c
    values = values % (1 << (8 * np.dtype(dtype).itemsize))
    if np.issubdtype(dtype, np.signedinteger):
        values = values - (1 << (8 * np.dtype(dtype).itemsize - 1))
    return values.astype(dtype)


def smooth(nx, ny):
    y, x = np.mgrid[0:ny, 0:nx]
    return np.stack([2 * x, 3 * y, 200 - x - y], axis=-1).astype(np.uint8)


def half(image, axes):
    """Means of the pixels that are there, rounded half up."""
    sums, counts = image.astype(np.int64), np.ones(image.shape, np.int64)
    for axis in axes:
        n = sums.shape[axis]
        at = np.arange(0, n, 2)
        sums, counts = np.add.reduceat(sums, at, axis), np.add.reduceat(counts, at, axis)
    return ((2 * sums + counts) // (2 * counts)).astype(image.dtype)


def tiffs():
    resolution = {"resolution": (20000, 10000), "resolutionunit": "CENTIMETER"}
    tifffile.imwrite(DATA / "grey8_tiles.tif", grey(70, 45, dtype=np.uint8)[0], tile=(16, 32))
    tifffile.imwrite(DATA / "grey8_packbits_strips.tif", grey(70, 45, dtype=np.uint8)[0] // 32, compression="packbits",
                     rowsperstrip=7)
    tifffile.imwrite(DATA / "grey16_lzw_big_endian.btf", grey(70, 45)[0], bigtiff=True, byteorder=">", tile=(32, 16),
                     compression="lzw", predictor=True, **resolution)
    tifffile.imwrite(DATA / "int16_deflate_strips.tif", grey(70, 45, dtype=np.int16)[0], compression="deflate", rowsperstrip=10,
                     predictor=True)
    tifffile.imwrite(DATA / "float32_tiles.tif", grey(20, 17)[0].astype(np.float32) / 2, tile=(16, 16))
    levels = [grey(75, 45)[0]]
    levels += [half(levels[0], (0, 1))]
    levels += [half(levels[1], (0, 1))]
    with tifffile.TiffWriter(DATA / "grey16_subifds.btf", bigtiff=True) as out:
        options = {"tile": (32, 32), "compression": "deflate"}
        out.write(levels[0], subifds=2, **options, **resolution)
        for level in levels[1:]:
            out.write(level, subfiletype=1, **options)
    colours = np.stack([grey(70, 45, c=c, dtype=np.uint8)[0] for c in range(3)], axis=-1)
    with tifffile.TiffWriter(DATA / "rgb8_pages.tif") as out:
        options = {"tile": (16, 16), "compression": "deflate", "predictor": True, "photometric": "rgb"}
        out.write(colours, **options)
        out.write(half(colours, (0, 1)), subfiletype=1, **options)
    tifffile.imwrite(DATA / "rgb8_planes.tif", np.moveaxis(colours, -1, 0), tile=(16, 16), compression="lzw", photometric="rgb",
                     planarconfig="separate")
    tifffile.imwrite(DATA / "rgb8_jpeg.tif", smooth(70, 45), tile=(32, 32), compression="jpeg",
                     compressionargs={"level": 95}, photometric="rgb")
    sizes = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 250, "PhysicalSizeYUnit": "nm"}
    tifffile.imwrite(DATA / "grey8.ome.tif", grey(20, 17, dtype=np.uint8)[0], ome=True, metadata=sizes)
    tifffile.imwrite(DATA / "aperio.tif", grey(20, 17, dtype=np.uint8)[0], metadata=None,
                     description="Aperio Image Library v10.0.51\n20x17 [0,0 20x17] (256x256)|AppMag = 20|MPP = 0.4990")
    tifffile.imwrite(DATA / "white_is_zero.tif", grey(20, 17, dtype=np.uint8)[0], photometric="miniswhite",
                     extratags=[(274, "H", 1, 3, True)])
    tifffile.imwrite(DATA / "pages.tif", grey(20, 17, 3, dtype=np.uint8), photometric="minisblack")


def arrays(folder, version, levels, chunks, **options):
    """The arrays of the levels of an image, without what OME says of them."""
    for number, level in enumerate(levels):
        options = {"compressors": None, "fill_value": 0, **options}
        array = zarr.create_array(str(folder / str(number)), shape=level.shape, chunks=chunks, dtype=level.dtype,
                                  zarr_format=version, **options)
        array[...] = level


def multiscales(folder, version, axes, scales, translations, **more):
    """What OME says of an image."""
    datasets = []
    for number, (scale, translation) in enumerate(zip(scales, translations)):
        transformations = [{"type": "scale", "scale": scale}]
        if translation is not None:
            transformations.append({"type": "translation", "translation": translation})
        datasets.append({"path": str(number), "coordinateTransformations": transformations})
    said = {"axes": axes, "datasets": datasets, "name": "test", **more}
    if version == 2:
        (folder / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
        (folder / ".zattrs").write_text(json.dumps({"multiscales": [{"version": "0.4", **said}]}))
    else:
        attributes = {"ome": {"version": "0.5", "multiscales": [said]}}
        text = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        (folder / "zarr.json").write_text(json.dumps(text))


def space(names, unit="micrometer"):
    kinds = {"t": {"type": "time", "unit": "second"}, "c": {"type": "channel"}}
    return [{"name": n, **kinds.get(n, {"type": "space", "unit": unit})} for n in names]


def zarrs():
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
    import numcodecs

    def new(name):
        folder = DATA / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    volume = grey(40, 30, 7)
    small = grey(33, 17, 5)
    both = [volume, half(volume, (0, 1, 2))]
    scales, shifts = [[2.0, 0.5, 0.25], [4.0, 1.0, 0.5]], [[1.0, 2.0, 3.0], [2.0, 2.25, 3.125]]
    for name, packed in {
        "v2_blosc_lz4": numcodecs.Blosc("lz4", shuffle=numcodecs.Blosc.SHUFFLE),
        "v2_blosc_zstd_bits": numcodecs.Blosc("zstd", shuffle=numcodecs.Blosc.BITSHUFFLE),
        "v2_blosc_blosclz": numcodecs.Blosc("blosclz", shuffle=numcodecs.Blosc.NOSHUFFLE),
        "v2_blosc_zlib": numcodecs.Blosc("zlib", shuffle=numcodecs.Blosc.SHUFFLE),
        "v2_zlib": numcodecs.Zlib(1),
        "v2_gzip": numcodecs.GZip(1),
        "v2_zstd": numcodecs.Zstd(3),
        "v2_lz4": numcodecs.LZ4(),
    }.items():
        folder = new(f"{name}.zarr")
        dots = {"name": "v2", "separator": "." if name == "v2_zlib" else "/"}
        levels = both if name == "v2_blosc_lz4" else [small]
        arrays(folder, 2, levels, (4, 16, 32), compressors=packed, chunk_key_encoding=dots)
        multiscales(folder, 2, space("zyx"), scales[: len(levels)], shifts)
    folder = new("v2_big_endian_fortran.zarr")
    arrays(folder, 2, [volume[0].astype(">u2")], (16, 32), order="F", chunk_key_encoding={"name": "v2", "separator": "/"})
    multiscales(folder, 2, space("yx", "millimeter"), [[0.5, 0.25]], [None])
    folder = new("v2_tczyx.zarr")
    five = np.stack([np.stack([grey(20, 17, c=c + 3 * t, dtype=np.uint8) for c in range(3)]) for t in range(2)])
    arrays(folder, 2, [five], (1, 2, 1, 17, 16), compressors=numcodecs.Zlib(1), chunk_key_encoding={"name": "v2", "separator": "/"})
    multiscales(folder, 2, space("tczyx"), [[1.0, 1.0, 3.0, 0.5, 0.5]], [None])
    folder = new("v2_sparse.zarr")
    sparse = volume[0].copy()
    sparse[:16, :16] = 9
    arrays(folder, 2, [sparse], (16, 16), fill_value=9, chunk_key_encoding={"name": "v2", "separator": "/"},
           config={"write_empty_chunks": False})
    multiscales(folder, 2, space("yx"), [[0.5, 0.5]], [None])
    for name, options in {
        "v3_zstd": {"compressors": ZstdCodec(level=3, checksum=True)},
        "v3_gzip": {"compressors": GzipCodec(level=1)},
        "v3_blosc": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle", typesize=2)},
        "v3_sharded": {"compressors": ZstdCodec(level=3), "shards": (8, 32, 32)},
        "v3_transposed": {"compressors": None, "filters": zarr.codecs.TransposeCodec(order=(2, 0, 1))},
    }.items():
        folder = new(f"{name}.zarr")
        chunks = (4, 16, 16) if name == "v3_sharded" else (4, 16, 32)
        levels = [small] if name in ("v3_gzip", "v3_blosc", "v3_transposed") else both
        arrays(folder, 3, levels, chunks, **options)
        multiscales(folder, 3, space("zyx"), scales[: len(levels)], shifts)
    import ome_zarr.writer
    folder = new("by_ome_zarr.zarr")
    group = zarr.open_group(str(folder), mode="w", zarr_format=2)
    ome_zarr.writer.write_multiscale([volume[0], half(volume[0], (0, 1))], group, axes="yx", fmt=ome_zarr.format.FormatV04(),
                                     storage_options={"chunks": (16, 32)})


def read_tiff(path):
    with tifffile.TiffFile(path) as file:
        return [level.asarray() for level in file.series[0].levels], file.is_bigtiff


def read_zarr(path):
    group = zarr.open_group(str(path), mode="r")
    said = group.attrs.get("ome", group.attrs)["multiscales"][0]
    return [group[dataset["path"]][...] for dataset in said["datasets"]], f"Zarr {group.metadata.zarr_format}"


def check(folder):
    """Pyramids that voxalign wrote of the values of `grey`: their levels are means of each other."""
    for path in sorted(folder.iterdir()):
        is_tiff = path.suffix in (".tif", ".btf")
        if not is_tiff and path.suffix != ".zarr":
            continue
        levels, kind = read_tiff(path) if is_tiff else read_zarr(path)
        first = levels[0]
        if "grey" in path.name:
            *nz, ny, nx = first.shape
            expected = grey(nx, ny, nz[0] if nz else 1, dtype=first.dtype)
            assert np.array_equal(first, expected if nz else expected[0]), path
        for fine, coarse in zip(levels, levels[1:]):
            axes = [a for a in range(fine.ndim) if fine.shape[a] != coarse.shape[a]]
            assert np.array_equal(half(fine, axes), coarse), path
        print(path.name, kind, first.dtype, [level.shape for level in levels])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=pathlib.Path)
    given = parser.parse_args()
    if given.check:
        check(given.check)
    else:
        DATA.mkdir(exist_ok=True, parents=True)
        tiffs()
        zarrs()
