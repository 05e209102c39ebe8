//! What `result.json` says of how a result was made, and what a configuration file says.

use crate::common::{Place, grid, head, names};
use serde_json::Value;
use std::fs;
use voxalign_image::{AffineParameters, Vector3};

/// Four flat heads in different places: `0.nii.gz` to `3.nii.gz`.
fn heads(place: &Place) {
    let grid = grid([36, 40, 1], 5.0);
    for i in 0..4 {
        let t = f64::from(i) - 1.5;
        let way = AffineParameters {
            rotation: Vector3::new(0.0, 0.0, 0.05 * t),
            translation: Vector3::new(3.0 * t, 4.0 - 2.0 * t, 0.0),
            ..AffineParameters::identity(grid.centre())
        };
        place.image(&format!("{i}.nii.gz"), &head(&grid, &way.to_affine()));
    }
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

/// The places within a value where there is nothing.
fn nulls(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(at.to_owned()),
        Value::Object(map) => map.iter().for_each(|(k, v)| nulls(v, &format!("{at}.{k}"), found)),
        Value::Array(all) => all.iter().for_each(|v| nulls(v, &format!("{at}[]"), found)),
        _ => {}
    }
}

/// Nothing of the parameters is left open in the record of a result.
#[test]
fn parameters_are_those_that_were_used() {
    let place = Place::new();
    heads(&place);
    place.write("ages.csv", "path,age\n0.nii.gz,60\n1.nii.gz,62\n2.nii.gz,64\n3.nii.gz,66\n");
    let (two, all) = ("0.nii.gz 1.nii.gz", "0.nii.gz 1.nii.gz 2.nii.gz 3.nii.gz");
    let short = "--schedule 2x3 --device cpu";
    let ran = |line: &str, record: &str| {
        let run = place.line(line);
        assert!(run.code < 2, "{line}: {}", run.err);
        let parameters = json(&place, record)["parameters"].clone();
        let mut found = Vec::new();
        nulls(&parameters, "parameters", &mut found);
        assert!(found.is_empty() && parameters.is_object(), "{line}: {found:?}");
        parameters
    };
    let affine = format!("affine {two} --device cpu -o");
    let usual = ran(&format!("{affine} usual"), "usual/result.json");
    assert_eq!((&usual["cost"], &usual["bins"]), (&"nmi".into(), &32.into()));
    let cr = ran(&format!("{affine} cr --cost cr"), "cr/result.json");
    assert_eq!((&cr["bins"], &cr["dof"]), (&256.into(), &6.into()));
    assert!(cr["scheme"].is_string());
    assert!(cr["levels_mm"].as_array().is_some_and(|l| !l.is_empty()), "{cr}");
    let nmi = ran(&format!("{affine} nmi --cost nmi --outside nan"), "nmi/result.json");
    assert_eq!((&nmi["bins"], &nmi["outside"]), (&32.into(), &"nan".into()));
    let ncc = ran(&format!("{affine} ncc --cost ncc"), "ncc/result.json");
    assert!(ncc.get("bins").is_none());
    let deform = format!("deform {two} {short} --affine none -o");
    for (folder, options, iterations) in [
        ("sor", "--solver sor", 200),
        ("cg", "--solver cg --beta 0.1", 200),
        ("hybrid", "--solver hybrid", 2),
        ("coupled", "--solver hybrid --beta 0.1", 4),
        ("given", "--solver hybrid --solver-iterations 7", 7),
    ] {
        let found = ran(&format!("{deform} {folder} {options}"), &format!("{folder}/result.json"));
        assert_eq!(found["solver"]["solver_iterations"], iterations, "{options}");
    }
    ran(&format!("{deform} out --outside nan --model lddmm"), "out/result.json");
    let atlas = ran(&format!("atlas {all} {short} -o atlas"), "atlas/result.json");
    assert!((atlas["spacing_mm"].as_f64().unwrap() - 5.0).abs() < 1e-6, "{atlas}");
    assert_eq!(atlas["align"]["rounds"], 2);
    let mi = ran(&format!("atlas {all} {short} --cost mi -o mi"), "mi/result.json");
    assert_eq!(mi["align"]["bins"], 64);
    let plain = format!("{short} --align none");
    let none = ran(&format!("atlas {all} {plain} -o none"), "none/result.json");
    assert_eq!(none["align"], "none");
    let regress = "--regress age --at 63 --bandwidth 3 -o regress";
    ran(&format!("atlas --list ages.csv {plain} {regress}"), "regress/result.json");
    let stability = format!("atlas {all} {plain} --stability 3 -o stability");
    assert_eq!(ran(&stability, "stability/result.json")["cohorts"], 100);
    for (operation, key, value) in [
        ("mean", "weights", serde_json::json!([1.0, 1.0, 1.0, 1.0])),
        ("max", "data_type", "f32".into()),
    ] {
        let found = ran(&format!("stack {operation} {all} -o s.nii"), "s.nii.json");
        assert_eq!(found[key], value);
    }
    ran(&format!("stack energy {all} -o s.csv"), "s.csv.json");
    for (operation, key, value) in [
        ("normalise", "range", "zero mean and unit variance".into()),
        ("window-mean", "window", Value::from(3)),
        ("smooth --sigma 2", "sigma_mm", 2.0.into()),
    ] {
        let found = ran(&format!("stack {operation} {all} -o folder"), "folder/result.json");
        assert_eq!(found[key], value);
    }
}

#[test]
fn an_atlas_from_a_file() {
    let place = Place::new();
    heads(&place);
    let short = "schedule = '2x3'\ndevice = 'cpu'\nno-report = true\n";
    place.write(
        "job.toml",
        &format!("images = ['0.nii.gz', '1.nii.gz', '2.nii.gz']\noutput = 'a'\nradius = 3\nrounds = 1\n{short}"),
    );
    place.line("atlas --config job.toml").expect(0);
    let record = json(&place, "a/result.json");
    assert_eq!(record["parameters"]["radius"], 3);
    assert_eq!(record["subjects"].as_array().unwrap().len(), 3);
    let config = |input: &Value| input["role"] == "config" && input["path"] == "job.toml";
    assert!(record["inputs"].as_array().unwrap().iter().any(config));
    assert!(!place.path("a/report.html").exists());
    place
        .line("atlas 0.nii.gz 1.nii.gz 2.nii.gz -o b --radius 3 --rounds 1 --schedule 2x3 --device cpu")
        .expect(0);
    let bytes = |folder: &str| fs::read(place.path(folder).join("atlas.nii.gz")).unwrap();
    assert!(bytes("a") == bytes("b"));

    // What was typed wins, also where the file's options do not go with it.
    place.write("list.csv", "path\n2.nii.gz\n3.nii.gz\n");
    let run = place
        .line("atlas --config job.toml -o c --list list.csv --similarity ssd --align none")
        .expect(0);
    let run =
        run.says(&["job.toml': the key 'radius' is left out", "the key 'rounds' is left out"]);
    run.says(&["the key 'images' is left out: --list is given"]);
    let record = json(&place, "c/result.json");
    assert_eq!(record["parameters"]["similarity"], "ssd");
    assert!(record["parameters"].get("radius").is_none());
    assert_eq!(names(&place.path("c/subjects")), ["2", "3"]);

    // What is wrong with the file by itself is told with its name.
    for (text, said) in [
        ("radius = 3\nsimilarity = 'ssd'", "the key 'radius' of 'job.toml'"),
        ("spacing = 2\nreference = '0.nii.gz'", "of 'job.toml'"),
        ("step = -1", "the key 'step' of 'job.toml'"),
        ("rouds = 2", "did you mean 'rounds'"),
        ("images = 3", "--images is 3"),
    ] {
        place.write("job.toml", &format!("{text}\n{short}"));
        let run = place.line("atlas 0.nii.gz 1.nii.gz -o d --config job.toml").expect(2);
        run.says(&[said]);
        assert!(!place.path("d").exists());
    }
    place.line("atlas 0.nii.gz 1.nii.gz").expect(2).says(&["-o DIR"]);
    // Some of the options that go together may be typed.
    place.write("ages.csv", "path,age\n0.nii.gz,60\n1.nii.gz,62\n2.nii.gz,64\n3.nii.gz,66\n");
    place.write("job.toml", &format!("list = 'ages.csv'\nregress = 'age'\nat = 62\n{short}"));
    place.line("atlas --config job.toml -o e --align none").expect(2).says(&["--bandwidth"]);
    place.write(
        "job.toml",
        "list = 'ages.csv'\nregress = 'age'\nat = 62\nschedule = '2x3'\ndevice = 'cpu'\n",
    );
    place.line("atlas --config job.toml -o e --align none --bandwidth 4").expect(0);
    assert!(place.path("e/at_62/entropy.nii.gz").exists());
}

#[test]
fn subjects_have_names_of_their_own() {
    let place = Place::new();
    heads(&place);
    for (name, said) in [
        ("..", "line 3: '..' cannot be the name of a subject"),
        ("a/../../b", "line 3"),
        ("\"a\nb\"", "line 3"),
        ("First", "line 3: the name 'First' is taken by line 2 ('first')"),
    ] {
        place.write("list.csv", &format!("path,name\n0.nii.gz,first\n1.nii.gz,{name}\n"));
        let run = place.line("atlas --list list.csv -o out --schedule 2x3 --device cpu").expect(2);
        run.says(&["list.csv", said]);
        assert!(!place.path("out").exists());
    }
    fs::copy(place.path("0.nii.gz"), place.path("..nii.gz")).unwrap();
    let run = place.line("atlas ..nii.gz 1.nii.gz -o out --schedule 2x3 --device cpu").expect(2);
    run.says(&["..nii.gz", "'.' cannot be the name of a subject", "rename the file"]);
}

#[test]
fn points_of_2d_images() {
    let place = Place::new();
    heads(&place);
    place.line("deform 0.nii.gz 1.nii.gz -o d --schedule 2x5 --device cpu --affine none");
    place.write("p.csv", "x,y,name\n10,20,nose\n-5.5,0,\n");
    let apply = "apply -i p.csv -t d/warp.nii.gz --points-from fixed -o q.csv";
    place.line(apply).expect(0).says(&[]);
    let moved = fs::read_to_string(place.path("q.csv")).unwrap();
    let rows: Vec<Vec<&str>> = moved.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!((&rows[0][..], rows.len()), (&["x", "y", "name"][..], 3));
    assert!(rows[1][0].parse::<f64>().is_ok_and(|x| (x - 10.0).abs() < 20.0), "{moved}");
    place.line("compare --points p.csv q.csv").expect(0);
    place.write("r.csv", "x,y,z\n1,2,3\n4,5,6\n");
    place.line("compare --points p.csv r.csv").expect(2).says(&["'p.csv' has no column z"]);
    place.line("info p.csv").expect(0);
    // A transform that takes them out of their plane.
    place.write(
        "tilt.tfm",
        "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n\
         Parameters: 1 0 0 0 1 0 0 0 1 0 0 5\nFixedParameters: 0 0 0\n",
    );
    place.line("apply -i p.csv -t tilt.tfm -o s.csv").expect(2).says(&[
        "p.csv",
        "x and y alone",
        "a column z",
    ]);
    assert!(!place.path("s.csv").exists());
    fs::write(place.path("w.csv"), b"\xff\xfex\0,\0y\0\n\0").unwrap();
    place.line("info w.csv").expect(2).says(&["w.csv", "UTF-16", "save it as UTF-8"]);
}

/// The file in docs/ names every option, and gives the defaults.
#[test]
fn the_documented_configuration_of_an_atlas() {
    let text = include_str!("../../../../docs/atlas.toml");
    let place = Place::new();
    heads(&place);
    let help = place.line("atlas --help").expect(0).out;
    let options = help.lines().filter_map(|l| {
        let rest = l.trim_start().strip_prefix("-o, ").unwrap_or(l.trim_start());
        let rest = rest.strip_prefix("-q, ").or(rest.strip_prefix("-v, ")).unwrap_or(rest);
        rest.strip_prefix("--")?.split([' ', ',']).next()
    });
    for option in options.filter(|o| !["config", "help", "version"].contains(o)) {
        assert!(text.contains(&format!("{option} = ")), "{option} is not in docs/atlas.toml");
    }
    place.write("defaults.toml", text);
    let line = "atlas 0.nii.gz 1.nii.gz --spacing 10 --device cpu -o";
    place.line(&format!("{line} a"));
    place.line(&format!("{line} b --config defaults.toml"));
    let parameters =
        |folder: &str| json(&place, &format!("{folder}/result.json"))["parameters"].clone();
    assert_eq!(parameters("a"), parameters("b"));
    let bytes = |folder: &str| fs::read(place.path(folder).join("atlas.nii.gz")).unwrap();
    assert!(bytes("a") == bytes("b"));
    assert_eq!(names(&place.path("a")), names(&place.path("b")));
    // What is typed wins over all of them.
    let other = "--model lddmm --similarity ssd --align none --solver fft --schedule 2x2";
    place.write("lncc.toml", "radius = 3\n");
    place.line(&format!("{line} c --config lncc.toml {other}")).says(&["'radius' is left out"]);
    let other = format!("{line} d {other}");
    place.line(&other);
    assert_eq!(parameters("c"), parameters("d"));
}
