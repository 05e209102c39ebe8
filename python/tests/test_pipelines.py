"""Descriptors and interfaces for pipelines: what they say is what the program takes, and what they run is what it gives."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE

import voxalign as vx
from voxalign.interfaces import _commands

# Neither package is to ask its server for its latest version.
os.environ["NO_ET"] = "1"

COMMANDS = {command.name: command for command in _commands.commands()}
DESCRIPTORS = Path(vx.__file__).parent / "descriptors"
QUICK = {"dof": 6, "search": "local", "device": "cpu", "threads": 2, "no_report": True}


@pytest.fixture
def on_path(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is found by its name."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(program).parent), os.environ["PATH"]]))


@pytest.fixture
def registered(pair: tuple[Path, Path], tmp_path: Path, run) -> Path:
    """The folder of a registration by the program."""
    words = [word for name, value in QUICK.items() for word in COMMANDS["affine"].option(name).words(value)]
    run("affine", *pair, "-o", tmp_path / "program", *words)
    return tmp_path / "program"


@pytest.fixture(scope="module")
def unlike(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two images that have nothing in common."""
    path = tmp_path_factory.mktemp("unlike") / "noise.nii.gz"
    noise = np.random.default_rng(3).normal(size=(26, 24, 20)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(noise, OBLIQUE), path)
    return pair[0], path


def test_nothing_else_is_imported() -> None:
    text = "import sys, voxalign; print({'nipype', 'pydra', 'traits'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_every_function_has_a_command() -> None:
    functions = {name for name in vx.__all__ if name.islower()} - {"__version__", "bids", "image", "read", "read_transform", "transfers"}
    assert functions == COMMANDS.keys()


def test_inputs_are_the_keyword_arguments() -> None:
    text = {name: getattr(vx, name).__doc__ for name in COMMANDS}
    for name, command in COMMANDS.items():
        for one in command.inputs:
            key = one.name.removeprefix("no_")
            if key in ("json", "quiet", "verbose"):
                continue
            if one.name.startswith("no_") or one.flag is not None:
                assert f"\n{key} : " in text[name], (name, one.name)


def test_words() -> None:
    def words(command: str, name: str, value: object) -> list[str]:
        return COMMANDS[command].option(name).words(value)

    assert words("affine", "fixed", Path("a b.nii")) == ["a b.nii"]
    assert words("affine", "no_report", True) == ["--no-report"] and words("affine", "no_report", False) == []
    assert words("affine", "outside", -1024) == ["--outside=-1024"]
    assert words("surface", "label", [3, 4]) == ["--label=3,4"]
    assert words("apply", "transform", ["a.tfm", "b.tfm"]) == ["--transform", "a.tfm", "b.tfm"]
    assert words("pose", "geometry", ["a.toml", "b.toml"]) == ["--geometry", "a.toml", "--geometry", "b.toml"]
    assert words("elastic", "stream", []) == []
    channels = ["a.nii", "b.nii", "lncc", 1, "c.nii", "d.nii", "mi", 0.5]
    assert words("deform", "channel", channels) == ["--channel", "a.nii", "b.nii", "lncc", "1", "--channel", "c.nii", "d.nii", "mi", "0.5"]
    assert _commands.inverted(["a", "b"], [False, True]) == ["a", "inverse:b"]
    with pytest.raises(ValueError, match="1 values for 2 transforms"):
        _commands.inverted(["a", "b"], [True])
    assert COMMANDS["apply"].named({"input": "x/a.b.nii.gz"}) == "a.b_applied.nii.gz"
    assert COMMANDS["invert"].named({"transform": "x/a.fsl.mat"}) == "a_inverse.fsl.mat"
    assert COMMANDS["deform"].named({}) == "results" and COMMANDS["compose"].named({}) is None


@pytest.mark.parametrize("name", COMMANDS)
def test_descriptor_is_valid(name: str) -> None:
    boutiques = pytest.importorskip("boutiques", reason="skipped: the package boutiques is not there")
    boutiques.bosh(["validate", str(DESCRIPTORS / f"{name}.json")])


def test_boutiques_runs_it(on_path: None, pair: tuple[Path, Path], registered: Path, tmp_path: Path) -> None:
    boutiques = pytest.importorskip("boutiques", reason="skipped: the package boutiques is not there")
    (tmp_path / "call.json").write_text(json.dumps({"fixed": str(pair[0]), "moving": str(pair[1]), "output": "out", **QUICK}))
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        done = boutiques.bosh(["exec", "launch", str(DESCRIPTORS / "affine.json"), "call.json", "--skip-data-collection"])
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out/warped.nii.gz").read_bytes() == (registered / "warped.nii.gz").read_bytes()
    found = {os.path.normpath(out.file_name) for out in done.output_files}
    assert {"out/affine.tfm", "out/result.json"} <= found


def test_boutiques_gives_options_again(tmp_path: Path) -> None:
    boutiques = pytest.importorskip("boutiques", reason="skipped: the package boutiques is not there")
    call = {"ct": "ct.nii.gz", "xrays": ["a.png", "b.png"], "geometry": ["a.toml", "b c.toml"], "output": "out"}
    (tmp_path / "call.json").write_text(json.dumps(call))
    line = boutiques.bosh(["exec", "simulate", str(DESCRIPTORS / "pose.json"), "-i", str(tmp_path / "call.json")]).shell_command
    assert shlex.split(line)[:9] == ["voxalign", "pose", "ct.nii.gz", "a.png", "b.png", "--output", "out", "--geometry", "a.toml"]
    assert shlex.split(line)[9:] == ["--geometry", "b c.toml"]


def test_wrappers_of_niwrap(
    on_path: None, pair: tuple[Path, Path], registered: Path, tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("styx", reason="skipped: the package styxcompiler is not there")
    from styx.backend.python.core import to_python
    from styx.frontend.boutiques.core import from_boutiques
    from styxdefs import LocalRunner, set_global_runner

    command = [sys.executable, "-m", "voxalign.interfaces.styx", tmp_path / "descriptors"]
    subprocess.run(command, check=True)
    all_of_them = [json.loads(path.read_text("utf-8")) for path in sorted((tmp_path / "descriptors").glob("*.json"))]
    assert len(all_of_them) == len(COMMANDS)
    for text, path in to_python(from_boutiques(one, "voxalign_wrappers") for one in all_of_them):
        module = tmp_path.joinpath(*path).with_suffix(".py")
        module.parent.mkdir(exist_ok=True)
        module.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import voxalign_wrappers as wrappers

    assert {f"voxalign_{name}" for name in COMMANDS} <= set(dir(wrappers))
    set_global_runner(LocalRunner(data_dir=str(tmp_path / "runs")))
    fixed, moving = map(str, pair)
    affine = wrappers.voxalign_affine(fixed=fixed, moving=moving, output="out", **QUICK)
    assert Path(affine.resampled).read_bytes() == (registered / "warped.nii.gz").read_bytes()
    applied = wrappers.voxalign_apply(input_=moving, reference=fixed, transform=[affine.transform], output="w.nii.gz")
    assert Path(applied.result).read_bytes() == (registered / "warped.nii.gz").read_bytes()
    # Options that are given again.
    channel = [fixed, moving, "lncc", "0.5"]
    options = {"schedule": "2x20", "device": "cpu", "threads": 2}
    channels = [wrappers.VoxalignDeformChannel(channel)] * 2
    deformed = wrappers.voxalign_deform(fixed=fixed, moving=moving, output="deformed", channel=channels, **options)
    again = ["--channel", *channel] * 2
    run("deform", *pair, "-o", tmp_path / "deformed", *again, *[f"--{name}={value}" for name, value in options.items()])
    assert Path(deformed.resampled).read_bytes() == (tmp_path / "deformed/warped.nii.gz").read_bytes()
    assert len(json.loads(Path(deformed.record).read_text())["parameters"]["channels"]) == 3


class TestNipype:
    """A node has the results of the program, where a workflow expects them."""

    @pytest.fixture(autouse=True)
    def there(self, on_path: None) -> None:
        pytest.importorskip("nipype", reason="skipped: the package nipype is not there")

    def test_classes(self) -> None:
        from voxalign.interfaces import nipype

        assert set(nipype.__all__) == {name.capitalize() for name in COMMANDS}
        for name, command in COMMANDS.items():
            of = getattr(nipype, name.capitalize())
            inputs, outputs = of.input_spec(), of.output_spec()
            assert {one.name for one in command.inputs} <= set(inputs.copyable_trait_names())
            assert {one.name for one in command.outputs} <= set(outputs.copyable_trait_names())
            needed = set(inputs.traits(mandatory=True))
            assert needed == {one.name for one in command.inputs if one.required} - command.defaults
            assert command.about in of.__doc__

    def test_workflow(self, pair: tuple[Path, Path], registered: Path, tmp_path: Path, run) -> None:
        import nipype.pipeline.engine as engine

        from voxalign.interfaces.nipype import Affine, Apply, Compare

        fixed, moving = map(str, pair)
        affine = engine.Node(Affine(fixed=fixed, moving=moving, **QUICK), name="affine")
        apply = engine.Node(Apply(input=fixed, reference=moving, invert=[True]), name="apply")
        compare = engine.Node(Compare(fixed=fixed), name="compare")
        flow = engine.Workflow("flow", base_dir=str(tmp_path))
        flow.connect(affine, "transform", apply, "transform")
        flow.connect(affine, "resampled", compare, "warped")
        nodes = {node.name: node for node in flow.run().nodes}
        outputs = {name: node.result.outputs for name, node in nodes.items()}
        assert Path(outputs["affine"].resampled) == tmp_path / "flow/affine/results/warped.nii.gz"
        assert Path(outputs["affine"].resampled).read_bytes() == (registered / "warped.nii.gz").read_bytes()
        there = tmp_path / "there.nii.gz"
        run("apply", "-i", fixed, "-r", moving, "-t", f"inverse:{registered / 'affine.tfm'}", "-o", there)
        assert Path(outputs["apply"].result).read_bytes() == there.read_bytes()
        assert outputs["compare"].found == vx.compare(fixed, registered / "warped.nii.gz")
        assert Affine(fixed=fixed, moving=moving, num_threads=3).cmdline.count("--threads=3") == 1
        # It is not done again, but where an option changes.
        again = {node.name: node for node in flow.run().nodes}
        times = [nodes["affine"].result.runtime.startTime, again["affine"].result.runtime.startTime]
        assert times[0] == times[1]
        flow.get_node("affine").inputs.dof = 12
        changed = {node.name: node for node in flow.run().nodes}
        assert changed["affine"].result.runtime.startTime > times[0]

    def test_verdict(self, unlike: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from voxalign.interfaces.nipype import Affine

        monkeypatch.chdir(tmp_path)
        affine = Affine(fixed=str(unlike[0]), moving=str(unlike[1]), rescue="off", **QUICK)
        with pytest.raises(RuntimeError, match="Return code: 1"):
            affine.run()
        affine.inputs.accept_bad = True
        outputs = affine.run().outputs
        assert outputs.verdict is False and Path(outputs.record) == tmp_path / "results/result.json"
        affine.inputs.levels = "1,8"
        with pytest.raises(RuntimeError, match="Return code: 2"):
            affine.run()

    def test_bad_input(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        from nipype.interfaces.base import traits

        from voxalign.interfaces.nipype import Affine, Apply, Compose

        affine = Affine()
        for name, value in (("fixed", str(tmp_path / "no.nii")), ("dof", "six"), ("cost", "xyz"), ("no_option", 1)):
            with pytest.raises(traits.TraitError):
                setattr(affine.inputs, name, value)
        with pytest.raises(ValueError, match="requires a value for input 'fixed'"):
            _ = affine.cmdline
        apply = Apply(input=str(pair[0]), transform=[str(pair[0])], invert=[True, False])
        with pytest.raises(ValueError) as refused:
            _ = apply.cmdline
        assert "2 values for 1 transforms" in str(refused.value.__cause__)
        with pytest.raises(ValueError, match="requires a value for input 'output'"):
            _ = Compose(transform=[str(pair[0])]).cmdline


class TestPydra:
    """A task has the results of the program."""

    @pytest.fixture(autouse=True)
    def there(self, on_path: None) -> None:
        pytest.importorskip("pydra", reason="skipped: the package pydra is not there")

    def test_classes(self) -> None:
        from voxalign.interfaces import pydra

        assert set(pydra.__all__) == {name.capitalize() for name in COMMANDS}
        for name, command in COMMANDS.items():
            of = getattr(pydra, name.capitalize())
            assert {one.name for one in command.inputs} <= {field[0] for field in of.input_spec.fields}
            assert {one.name for one in command.outputs} <= {field[0] for field in of.output_spec.fields}

    def test_workflow(self, pair: tuple[Path, Path], registered: Path, tmp_path: Path) -> None:
        from pydra import Workflow

        from voxalign.interfaces.pydra import Affine, Apply

        flow = Workflow(name="flow", input_spec=["moving"], moving=pair[1], cache_dir=tmp_path / "cache")
        flow.add(Affine(name="affine", fixed=pair[0], moving=flow.lzin.moving, **QUICK))
        flow.add(Apply(name="apply", input=flow.lzin.moving, reference=pair[0], transform=flow.affine.lzout.transform))
        flow.set_output([("applied", flow.apply.lzout.result), ("good", flow.affine.lzout.verdict)])
        flow(plugin="serial")
        output = flow.result().output
        assert output.good is True
        assert Path(output.applied).read_bytes() == (registered / "warped.nii.gz").read_bytes()

    def test_inverse_and_scores(self, pair: tuple[Path, Path], registered: Path, tmp_path: Path, run) -> None:
        from voxalign.interfaces.pydra import Apply, Compare

        transform = registered / "affine.tfm"
        apply = Apply(input=pair[0], reference=pair[1], transform=[transform], invert=[True], cache_dir=tmp_path / "cache")
        there = tmp_path / "there.nii.gz"
        run("apply", "-i", pair[0], "-r", pair[1], "-t", f"inverse:{transform}", "-o", there)
        assert Path(apply(plugin="serial").output.result).read_bytes() == there.read_bytes()
        compare = Compare(fixed=pair[0], warped=pair[1], cache_dir=tmp_path / "cache")
        assert compare(plugin="serial").output.found == [vx.compare(*pair)]

    def test_verdict(self, unlike: tuple[Path, Path], tmp_path: Path) -> None:
        from voxalign.interfaces.pydra import Affine

        def affine(**options: object) -> object:
            images = {"fixed": unlike[0], "moving": unlike[1]}
            return Affine(**images, rescue="off", cache_dir=tmp_path / "cache", **QUICK, **options)(plugin="serial")

        with pytest.raises(RuntimeError, match="verdict"):
            affine()
        output = affine(accept_bad=True).output
        assert output.verdict is False and output.return_code == 1 and Path(output.record).is_file()
