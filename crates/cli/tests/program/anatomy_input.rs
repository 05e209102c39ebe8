//! Bad input of `voxalign anatomy`: one clear error, and nothing left.

use crate::anatomy::{anatomies, ellipsoid, surfaces, tables, write};
use crate::common::Place;
use crate::deform::small;
use voxalign_image::{Affine, Mesh, Vector3};

/// Runs it, which fails with words and leaves nothing.
#[track_caller]
fn refused(place: &Place, moving: &str, options: &str, said: &[&str]) {
    place.write("c.toml", moving);
    let before = place.names();
    let line = format!("anatomy a.toml c.toml -o out --schedule 4x1 --affine none {options}");
    place.line(&line).expect(2).says(said);
    assert_eq!(place.names(), before, "{moving}");
}

#[test]
fn options_and_files_that_do_not_fit() {
    let place = Place::new();
    small(&place);
    surfaces(&place);
    let kinds = ["classes", "surfaces"];
    anatomies(&place, &kinds);
    let good = tables("b", &kinds);
    for (options, said) in [
        ("--similarity ssd", "--similarity is set for each image in the file of the fixed anatomy"),
        ("--radius 3", "--radius is set for each image in the file"),
        ("--channel a b ssd 1", "--channel is set for each image in the file"),
        ("--spacing 2", "--spacing is for anatomies without images"),
        ("--init moments", "--init is for an affine registration that comes first"),
        ("--histogram-match", "--histogram-match is for anatomies with an [[image]]"),
        ("--time-steps 3", "--time-steps is for --model lddmm"),
        ("--fixed-labels la.nii.gz", "go together"),
        ("--fixed-mask lb.nii.gz", "is not on the grid of its image"),
        ("--outputs shapes", "'shapes' is not an output"),
        ("--init nowhere.tfm", "or landmarks, for those of the anatomies"),
    ] {
        refused(&place, &good, options, &[said]);
    }
    place.line("anatomy a.toml c.toml -o out --init landmarks").expect(2).says(&["[[landmarks]]"]);
    place.line("anatomy a.toml -o out").expect(2).says(&["MOVING.toml is missing"]);
    place.line("anatomy a.toml c.toml").expect(2).says(&["-o DIR"]);
    place.line("anatomy a.toml no.toml -o out").expect(2).says(&["'no.toml': cannot read"]);
    place.line("anatomy a.toml la.nii.gz -o out").expect(2).says(&["'la.nii.gz'"]);

    for (moving, said) in [
        (String::new(), "'c.toml': an anatomy of nothing"),
        (good.replace("'left'", "'lft'"), "[[surface]] 'left' of 'a.toml' is not in 'c.toml'"),
        (good.replace("width = 8", "width = 7"), "'width' is 7, and would be ignored"),
        (good.replace("left_b", "lost_b"), "lost_b.vtk"),
        (good.replace("label = 3", "label = 33"), "'lb.nii.gz' has no label 33; it has 1, 2, 3"),
        (good.replace("sigma = 3", "sigma = -3"), "'sigma' is -3"),
        (good.replace("[[surface]]", "[[curve]]"), "give the same kind in both"),
        (good.replace("left_b.vtk", "lb.nii.gz"), "lb.nii.gz"),
        (format!("{good}weihgt = 3\n"), "unknown field 'weihgt'"),
    ] {
        refused(&place, &moving, "", &[said]);
    }
    // Nothing that is read is overwritten.
    std::fs::create_dir_all(place.path("out/moving_on_fixed")).unwrap();
    std::fs::copy(place.path("left_b.vtk"), place.path("out/moving_on_fixed/left.surf.gii"))
        .unwrap();
    place.write("c.toml", &good.replace("left_b.vtk", "out/moving_on_fixed/left.surf.gii"));
    place.line("anatomy a.toml c.toml -o out").expect(2).says(&["an input and an output"]);
}

#[test]
fn probabilities_that_are_none() {
    let place = Place::new();
    small(&place);
    let of = |image: &str| format!("[[probability]]\nname = 'p'\nimage = {image}\n");
    place.write("a.toml", "[[probability]]\nname = 'p'\nlabels = 'la.nii.gz'\nlabel = 1\n");
    let grid = crate::common::grid([20, 22, 18], 8.0);
    let image = |value: f32, odd: f32| {
        voxalign_image::Volume::from_fn(grid.clone(), |x, y, z| match (x, y, z) {
            (0, 0, 0) => odd,
            (5..12, 5..12, 5..12) => value,
            _ => 0.0,
        })
    };
    for (name, value, odd) in [
        ("percent", 100.0, 0.0),
        ("bytes", 255.0, 0.0),
        ("negative", 1.0, -0.5),
        ("nan", 1.0, f32::NAN),
        ("nothing", 0.0, 0.0),
        ("one", 0.7, 0.0),
    ] {
        place.image(&format!("{name}.nii.gz"), &image(value, odd));
    }
    for (source, said) in [
        ("'percent.nii.gz'", "divide percentages by 100"),
        ("'bytes.nii.gz'", "values from 0 to 255 are not probabilities"),
        ("'negative.nii.gz'", "values from -0.5 to 1"),
        ("'nan.nii.gz'", "1 voxels are not numbers"),
        ("'nothing.nii.gz'", "no voxel above 0"),
        ("['one.nii.gz', 'one.nii.gz']", "exclude each other"),
        ("['one.nii.gz', 'lb.nii.gz']", "not probabilities"),
        ("'one.nii.gz'\nvolume = 3", "3"),
    ] {
        refused(&place, &of(source), "", &["[[probability]] 'p'", said]);
    }
    // Classes that overlap are said, and the run goes on.
    let two = |side: &str| {
        format!(
            "[[probability]]\nname = 'p'\nlabels = 'l{side}.nii.gz'\nlabel = [1, 2, 3]\n\
             [[probability]]\nname = 'q'\nlabels = 'l{side}.nii.gz'\nlabel = [2, 3]\n"
        )
    };
    place.write("a.toml", &two("a"));
    place.write("b.toml", &two("b"));
    let run = place.line("anatomy a.toml b.toml -o out --schedule 4x2 --affine none --no-report");
    assert!(run.code < 2 && run.err.contains("sum to 2.00 at most"), "{}", run.err);
    assert!(run.out.contains("the probabilities of the moving anatomy sum to 2.00"), "{}", run.out);
}

#[test]
fn meshes_that_lie_elsewhere_or_are_none() {
    let place = Place::new();
    small(&place);
    surfaces(&place);
    // Away from the origin of the world, where signs and centres matter.
    let shift = Vector3::new(210.0, -160.0, 300.0);
    let image = voxalign_io::image::read_volume(place.path("a.nii.gz")).unwrap();
    let moved = image.grid().moved(&Affine::translation(shift)).unwrap();
    let index = *moved.to_index();
    place.image("far.nii.gz", &image.with_grid(moved).unwrap());
    let right = ellipsoid([-25.0, 20.0, -10.0], [12.0, 16.0, 10.0], 14);
    let tables = |mesh: &str, image: &str| {
        format!(
            "[[image]]\nname = 't1'\nimage = '{image}'\n[[surface]]\nname = 's'\nmesh = '{mesh}'\n"
        )
    };
    place.write("a.toml", &tables("left_a.vtk", "a.nii.gz"));
    let elsewhere = |name: &str, at: &dyn Fn(Vector3<f64>) -> Vector3<f64>| {
        write(&place, name, &right.map(|p| at(p + shift)).unwrap());
    };
    elsewhere("lps.vtk", &|p| Vector3::new(-p[0], -p[1], p[2]));
    elsewhere("voxels.vtk", &|p| index.apply(p));
    elsewhere("tkras.vtk", &|p| p - shift);
    elsewhere("lost.vtk", &|p| p + Vector3::new(0.0, 900.0, 0.0));
    for (mesh, said) in [
        ("lps.vtk", "with the signs of x and y exchanged"),
        ("voxels.vtk", "they look like voxel indices"),
        ("tkras.vtk", "tkRAS"),
        ("lost.vtk", "check that it belongs to this image"),
    ] {
        let said = ["[[surface]] 's' of the moving anatomy", "100 % of its points", said];
        refused(&place, &tables(mesh, "far.nii.gz"), "", &said);
    }

    let corner = |x: f64| Vector3::new(x, 0.5 * x, 3.0);
    let flat = Mesh::new([0.0, 1.0, 2.0].map(corner).into(), vec![[0, 1, 2]]).unwrap();
    write(&place, "flat.vtk", &flat);
    let points = Mesh::new([0.0, 1.0, 2.0].map(corner).into(), Vec::new()).unwrap();
    write(&place, "points.vtk", &points);
    let dot = points.clone().with_lines(vec![2], vec![1, 1]).unwrap();
    write(&place, "dot.vtk", &dot);
    write(&place, "coarse.vtk", &ellipsoid([-25.0, 20.0, -10.0], [12.0, 16.0, 10.0], 4));
    place.write("nan.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\nnan 0 0\n");
    place.write("index.ply", "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n");
    for (mesh, said) in [
        ("flat.vtk", "no face has an area"),
        ("points.vtk", "has no faces; list it under [[points]]"),
        ("dot.vtk", "has no faces; list it under [[curve]]"),
        ("coarse.vtk", "'width' is 5 mm, and the edges of the mesh of the moving anatomy have"),
        ("nan.ply", "nan.ply"),
        ("index.ply", "7"),
    ] {
        refused(&place, &tables(mesh, "b.nii.gz"), "", &[said]);
    }
    // Which way round triangles go.
    write(&place, "inside.vtk", &right.clone().flipped());
    let inside = tables("inside.vtk", "b.nii.gz");
    refused(
        &place,
        &inside,
        "",
        &["the triangles of the mesh of the moving anatomy go round as seen from inside"],
    );
    let varifold = |mesh: &str, image: &str| tables(mesh, image) + "oriented = false\n";
    place.write("a.toml", &varifold("left_a.vtk", "a.nii.gz"));
    place.write("c.toml", &varifold("inside.vtk", "b.nii.gz"));
    let line = "anatomy a.toml c.toml -o out --schedule 4x1 --affine none --no-report";
    assert!(place.line(line).code < 2);
    std::fs::remove_dir_all(place.path("out")).unwrap();
    let curve = |mesh: &str| tables(mesh, "a.nii.gz").replace("surface", "curve");
    place.write("a.toml", &curve("dot.vtk"));
    refused(&place, &curve("dot.vtk"), "", &["no curve has two points at different places"]);
    let marks = |name: &str| format!("[[landmarks]]\nname = 'm'\npoints = '{name}'\n");
    place.write("two.csv", "x,y,z\n1,2,3\n4,5,6\n");
    place.write("three.csv", "x,y,z\n1,2,3\n4,5,6\n7,8,9\n");
    place.write("a.toml", &marks("two.csv"));
    refused(
        &place,
        &marks("three.csv"),
        "",
        &["[[landmarks]] 'm'", "has 2 points, the moving anatomy 3"],
    );
}

#[test]
fn surfaces_of_labels_that_cannot_be() {
    let place = Place::new();
    small(&place);
    let of = |rest: &str| format!("[[surface]]\nname = 's'\nwidth = 20\n{rest}\n");
    place.write("a.toml", &of("labels = 'la.nii.gz'\nlabel = 1"));
    place.write("names.csv", "number,name\n1,one\n33,many\n");
    for (rest, said) in [
        ("labels = 'lb.nii.gz'", "'labels' needs 'label'"),
        ("labels = 'lb.nii.gz'\nlabel = 0", "'label' is 0"),
        (
            "labels = 'lb.nii.gz'\nlabel = 33",
            "'lb.nii.gz': there is no label 33; there are 1, 2, 3",
        ),
        ("labels = 'lb.nii.gz'\nlabel = [1, 33]", "no label 33"),
        ("labels = 'lb.nii.gz'\nlabel = 'one'", "'label_names'"),
        (
            "labels = 'lb.nii.gz'\nlabel = 'two'\nlabel_names = 'names.csv'",
            "has no label 'two'; it has one, many",
        ),
        ("labels = 'lb.nii.gz'\nlabel = 'many'\nlabel_names = 'names.csv'", "no label 33"),
        ("labels = 'lb.nii.gz'\nlabel = 'one'\nlabel_names = 'no.csv'", "no.csv"),
        ("labels = 'lb.nii.gz'\nlabel = 1\nmesh = 'left.vtk'", "give one of them"),
        ("labels = 'no.nii.gz'\nlabel = 1", "no.nii.gz"),
        ("labels = 'a.nii.gz'\nlabel = 1", "a.nii.gz"),
        ("image = 'b.nii.gz'\nlevel = 1e9", "'level' is 1000000000"),
        ("image = 'b.nii.gz'\nlevel = 1\nvolume = 4", "4"),
    ] {
        refused(&place, &of(rest), "", &["[[surface]] 's'", said]);
    }
    // Three dimensions have no outlines, and two no surface.
    let flat = crate::common::grid([30, 30, 1], 8.0);
    let disc = voxalign_image::Volume::from_fn(flat, |x, y, _| {
        i32::from(x.abs_diff(15) * x.abs_diff(15) + y.abs_diff(15) * y.abs_diff(15) < 90)
    });
    place.labels("flat.nii.gz", &disc);
    refused(&place, &of("labels = 'flat.nii.gz'\nlabel = 1"), "", &["list it under [[curve]]"]);
    let curve = |rest: &str| of(rest).replace("surface", "curve");
    place.write("a.toml", &curve("labels = 'flat.nii.gz'\nlabel = 1"));
    let said = "has no lines; list it under [[surface]]";
    refused(&place, &curve("labels = 'lb.nii.gz'\nlabel = 1"), "", &[said]);
}
