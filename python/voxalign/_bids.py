"""Results under the names and with the sidecars of BIDS derivatives."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ._native import InputError, OptionError, Result, VoxalignError, __version__, read_transform
from .typing import PathLike

#: The version of the standard that names and sidecars follow.
VERSION = "1.10.0"
#: Entities of a scan, in the order of the standard.
ENTITIES = ("sub", "ses", "task", "acq", "ce", "trc", "rec", "dir", "run", "echo", "part")
#: Folders of a subject by what a scan is; others are anatomical.
FOLDERS = {"bold": "func", "sbref": "func", "boldref": "func", "dwi": "dwi", "pet": "pet", "epi": "fmap"}
#: What the standard has no names for.
IGNORED = ("*_xfm.*", "*_report.html")
#: Why a name cannot be used.
LABEL = "BIDS allows letters and digits only"


def bids(
    result: Result | PathLike,
    output: PathLike,
    *,
    space: str,
    subject: str | None = None,
    session: str | None = None,
    suffix: str | None = None,
    entities: Mapping[str, str] | None = None,
    desc: str = "preproc",
    skull_stripped: bool | None = None,
    reference: str | None = None,
    accept_bad: bool = False,
) -> dict[str, Path]:
    """Put the results of a registration into a data set of BIDS derivatives.

    The moving image on the grid of the fixed one, the transforms both ways, the Jacobian determinant where there is one, and
    the report get the names of the standard, each image and transform with a sidecar that says by what it was made and what
    the verdict is. Transforms are named as fMRIPrep does, and listed in `.bidsignore`, as the standard has no names for them
    yet: `from-T1w_to-MNI` resamples images of the subject to the space.

    Parameters
    ----------
    result : Result or path
        What `affine`, `deform` or `elastic` gave, or the folder that the program wrote.
    output : path
        The folder of the data set; made where it is not there. `dataset_description.json` is written if there is none.
    space : str
        The label of the space of the fixed image, such as `MNI152NLin2009cAsym`.
    subject, session : str, optional
        Labels of the moving image. Where its file has a BIDS name, they are taken from that, with its other entities.
    suffix : str, optional
        What the moving image is, such as `T1w`; as the subject.
    entities : mapping of str, optional
        Further entities by their short names, such as `{"acq": "highres"}`.
    desc : str
        The label of the resampled image.
    skull_stripped : bool, optional
        Whether voxels outside the brain of the moving image are 0. The standard wants to know it of anatomical images.
    reference : str, optional
        What `SpatialReference` says; the path of the fixed image where nothing is given.
    accept_bad : bool
        Take a result whose verdict is bad, too; its sidecars say so.

    Returns
    -------
    dict of str to pathlib.Path
        The files that were written, by what they are: `resampled`, `transform`, `inverse_transform`, `jacobian`, `report`.

    Raises
    ------
    InputError
        A folder without a result; a data set that is none of derivatives.
    OptionError
        A label that BIDS does not allow, or one that is missing.
    VoxalignError
        A result whose verdict is bad.
    """
    folder, record = _record(result)
    if not record["verdict"]["good"] and not accept_bad:
        raise VoxalignError(f"the verdict of '{folder}' is bad; look at its report, or give `accept_bad=True`")
    inputs = {one["role"]: one["path"] for one in record["inputs"]}
    of, kind = _scan(inputs.get("moving"))
    of |= {name: _label(name, label) for name, label in (entities or {}).items()}
    given = {"sub": ("subject", subject), "ses": ("session", session)}
    of |= {key: _label(name, label) for key, (name, label) in given.items() if label is not None}
    kind = _label("suffix", suffix) if suffix is not None else kind
    for name, missing in (("subject", "sub" not in of), ("suffix", kind is None)):
        if missing:
            raise OptionError(f"`{name}` is missing: the file of the moving image has no BIDS name that says it")
    assert kind is not None
    place = FOLDERS.get(kind, "anat")
    if place == "anat" and skull_stripped is None:
        raise OptionError("`skull_stripped` is missing: BIDS wants to know it of anatomical images; give True or False")
    unknown = [name for name in of if name not in ENTITIES]
    if unknown:
        raise OptionError(f"`entities` has '{unknown[0]}'; known are {', '.join(ENTITIES)}")
    space, desc = _label("space", space), _label("desc", desc)

    stem = "_".join(f"{name}-{of[name]}" for name in ENTITIES if name in of)
    root = Path(output)
    about = _about(record, inputs, reference or inputs.get("fixed"))
    image = about | ({} if skull_stripped is None else {"SkullStripped": skull_stripped})
    files = _files(folder, record)
    plan: list[tuple[str, str, Callable[[Path], object], dict[str, Any] | None]] = []
    if "resampled" in files:
        ends = "".join(Path(files["resampled"]).suffixes[-2:])
        said = image | {"Description": f"The image in the space {space}"}
        plan.append(("resampled", f"space-{space}_desc-{desc}_{kind}{ends}", _copy(files["resampled"]), said))
    if "jacobian" in files:
        said = image | {"Description": f"Jacobian determinant of the warp from {space}, without the affine part"}
        plan.append(("jacobian", f"space-{space}_desc-jacobian_{kind}.nii.gz", _copy(files["jacobian"]), said))
    if "transform" in files:
        for name, ends in (("transform", f"from-{kind}_to-{space}"), ("inverse_transform", f"from-{space}_to-{kind}")):
            write = _transform(files, inverse=name != "transform")
            if write is not None:
                form = "h5" if "warp" in files else "txt"
                said = about | {"Description": f"Resamples images {ends.replace('_', ' ').replace('-', ' ')}"}
                plan.append((name, f"{ends}_mode-image_xfm.{form}", write, said))
    if "report" in files:
        plan.append(("report", f"space-{space}_report.html", _copy(files["report"]), None))
    _describe(root)
    return _write(root / f"sub-{of['sub']}" / (f"ses-{of['ses']}" if "ses" in of else "") / place, stem, plan)


def _record(result: Result | PathLike) -> tuple[Path, dict[str, Any]]:
    """The folder of a result and its record."""
    if isinstance(result, Result):
        folder, record = result.folder, result.record
    else:
        folder = Path(result)
        try:
            record = json.loads((folder / "result.json").read_text("utf-8"))
        except (OSError, ValueError) as e:
            raise InputError(f"'{folder}': {e}; give the folder of a registration, or what it gave") from e
    roles = {one.get("role") for one in record.get("inputs", ())}
    if "fixed" not in roles or "moving" not in roles or "verdict" not in record:
        raise InputError(f"'{folder}' is no result of a registration; give one of affine, deform or elastic")
    return folder, record


def _files(folder: Path, record: Mapping[str, Any]) -> dict[str, Path]:
    """The files of a result by what they are, wherever its folder is now."""
    paths = {one["role"]: Path(one["path"]) for one in record["outputs"]}
    before = paths["record"].parent
    return {role: folder / path.relative_to(before) for role, path in paths.items()}


def _scan(path: str | None) -> tuple[dict[str, str], str | None]:
    """The entities and the suffix of a file with a BIDS name; none of another."""
    name = Path(path or "").name.split(".")[0]
    *pairs, suffix = name.split("_")
    found = dict(pair.split("-", 1) for pair in pairs if pair.count("-") == 1)
    if "sub" not in found or len(found) != len(pairs):
        return {}, None
    return {key: label for key, label in found.items() if key in ENTITIES}, suffix


def _label(name: str, label: str) -> str:
    """A label, without the entity that may stand before it."""
    label = re.sub(r"^(sub|ses|space|desc)-", "", label)
    if not re.fullmatch(r"[A-Za-z0-9]+", label):
        raise OptionError(f"`{name}` is '{label}'; {LABEL}")
    return label


def _about(record: Mapping[str, Any], inputs: Mapping[str, str], reference: str | None) -> dict[str, Any]:
    """What sidecars say of a registration."""
    verdict = record["verdict"]
    return {
        "SpatialReference": reference or "n/a",
        "Sources": [inputs[role] for role in ("moving", "fixed") if role in inputs],
        "RegistrationMethod": record["program"],
        "RegistrationSoftware": {"Name": "voxalign", "Version": record["version"]},
        "RegistrationParameters": record["parameters"],
        "Verdict": {"Good": verdict["good"], "Checks": verdict["checks"], "Remarks": verdict.get("remarks", [])},
        "Figures": record.get("figures", {}),
    }


def _copy(path: Path) -> Callable[[Path], object]:
    return lambda to: to.write_bytes(path.read_bytes())


def _transform(files: Mapping[str, Path], inverse: bool) -> Callable[[Path], object] | None:
    """Writes the whole transform, or its inverse; none where the field of that is not there."""
    warp = files.get("inverse_warp" if inverse else "warp")
    if warp is None and ("warp" in files or "inverse_warp" in files):
        return None
    affine = read_transform(files["transform"])
    if warp is None:
        return (affine.inverse() if inverse else affine).save
    field = read_transform(warp)
    return (field @ affine.inverse() if inverse else affine @ field).save


def _describe(root: Path) -> None:
    """The files of the data set itself, where they are not there."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "dataset_description.json"
    if path.exists():
        if json.loads(path.read_text("utf-8")).get("DatasetType") != "derivative":
            raise InputError(f"'{root}' is no data set of derivatives; give a folder of its own, such as derivatives/voxalign")
    else:
        made_by = {"Name": "voxalign", "Version": __version__, "Description": "Registration"}
        said = {"Name": "voxalign", "BIDSVersion": VERSION, "DatasetType": "derivative", "GeneratedBy": [made_by]}
        _put(path, lambda to: to.write_text(json.dumps(said, indent=2) + "\n", "utf-8"))
    ignored = root / ".bidsignore"
    lines = ignored.read_text("utf-8").splitlines() if ignored.exists() else []
    more = [line for line in IGNORED if line not in lines]
    if more:
        _put(ignored, lambda to: to.write_text("\n".join([*lines, *more]) + "\n", "utf-8"))


def _put(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file that is complete or absent."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".voxalign-") as folder:
        new = Path(folder) / path.name
        write(new)
        os.replace(new, path)


def _write(
    folder: Path, stem: str, plan: list[tuple[str, str, Callable[[Path], object], dict[str, Any] | None]]
) -> dict[str, Path]:
    """Writes files with their sidecars, which move to their names when all are there."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(dir=folder, prefix=".voxalign-") as hidden:
        for role, name, write, said in plan:
            new = Path(hidden) / f"{stem}_{name}"
            write(new)
            written[role] = folder / new.name
            if said is not None:
                sidecar = new.with_name(f"{new.name.split('.')[0]}.json")
                sidecar.write_text(json.dumps(said, indent=2) + "\n", "utf-8")
        for new in sorted(Path(hidden).iterdir(), key=lambda path: path.suffix == ".json"):
            os.replace(new, folder / new.name)
    return written
