//! Options of X-ray images and poses: files of options, regions, starts, and what the record says of them.

use crate::common::{Place, grid};
use crate::projection::{ct, json, place};
use std::fs;
use voxalign_image::Volume;
use voxalign_io::xray;

/// Poses that are near, quickly.
const QUICK: &str = "--device cpu --starts 1 --restarts 0 --levels 8 --no-report";

/// All of a record but what differs from run to run.
fn parameters(place: &Place, folder: &str) -> serde_json::Value {
    json(place, &format!("{folder}/result.json"))["parameters"].clone()
}

/// Views that are wrong are refined, and the table of the refined ones is read again.
#[test]
fn refined_views_are_read_again() {
    let place = place();
    place
        .line("drr ct.nii.gz --view ap,lateral --size 48,40 --format nifti --no-report -o a --device cpu")
        .expect(0);
    let table = fs::read_to_string(place.path("a/views.toml")).unwrap();
    let images = "a/ap.nii.gz a/lateral.nii.gz";
    place.write("wrong.toml", &table.replace("image = ", "# image = "));
    let line = format!("pose ct.nii.gz {images} --geometry wrong.toml {QUICK}");
    assert!(place.line(&format!("{line} -o b --refine principal-point")).code < 2);
    let record = json(&place, "b/result.json");
    assert_eq!(record["parameters"]["refine"], "principal-point");
    let refined = &record["views"][1]["refined"];
    assert!(refined["shift"][0]["found_mm"].is_number() && refined["source_to_detector"].is_null());
    assert_eq!(record["outputs"].as_array().unwrap().len(), 6, "{}", record["outputs"]);
    // It names the images, and is where they were found to have been taken from.
    assert!(place.line(&format!("pose ct.nii.gz --geometry b/views.toml {QUICK} -o c")).code < 2);
    let again = json(&place, "c/result.json");
    assert_eq!(again["views"][0]["view"], record["views"][0]["view"]);
    place.line("drr ct.nii.gz --geometry b/views.toml --no-report -o d --device cpu").expect(0);
    let single =
        "drr ct.nii.gz --view ap --size 48,40 --format nifti --no-report -o f --device cpu";
    place.line(single).expect(0);
    place
        .line(&format!("pose ct.nii.gz f {QUICK} --refine distance -o e"))
        .expect(2)
        .says(&["refine", "give another view"]);
    place
        .line("pose ct.nii.gz --stream a --geometry a/views.toml --refine distance -o e")
        .expect(2)
        .says(&["--refine", "--stream"]);
    assert!(!place.path("e").exists());
}

/// A file of options says what a command line says; what is typed wins.
#[test]
fn options_from_a_file() {
    let place = place();
    place.write(
        "drr.toml",
        "ct = 'ct.nii.gz'\nview = ['ap', 'lateral']\nsize = [48, 40]\nformat = 'nifti'\nreport = false\n\
         rotation = [0, 0, 5]\ntranslation = '1,2,3'\nenergy = 60.0\n",
    );
    place.line("drr --config drr.toml -o a --device cpu").expect(0);
    let typed = "--view ap,lateral --size 48,40 --format nifti --no-report --rotation 0,0,5 --translation 1,2,3";
    place.line(&format!("drr ct.nii.gz {typed} --energy 60 -o b --device cpu")).expect(0);
    let record = json(&place, "a/result.json");
    assert_eq!(record["parameters"], parameters(&place, "b"));
    assert_eq!(record["images"][1]["name"], "lateral");
    let roles: Vec<_> =
        record["inputs"].as_array().unwrap().iter().map(|i| i["role"].clone()).collect();
    assert_eq!(roles, ["ct", "config"]);
    assert!(!place.path("a/report.html").exists());
    // A list that is typed takes the place of the file's, and what does not go with what is typed is left out.
    let line =
        "drr --config drr.toml -o c --view pa --format png --water 0.02 --report --device cpu";
    place.line(line).expect(0).says(&["drr.toml", "'energy' is left out"]);
    let record = json(&place, "c/result.json");
    assert_eq!(record["images"].as_array().unwrap().len(), 1);
    assert_eq!(record["images"][0]["files"], serde_json::json!(["pa.png"]));
    assert!(record["parameters"]["energy_kev"].is_null() && place.path("c/report.html").exists());
    place.write("arm.toml", "primary = 30\nsecondary = 5\n");
    place
        .line("drr ct.nii.gz --config arm.toml --view ap --size 9,9 -o d --no-report --device cpu")
        .expect(0)
        .says(&["'primary' is left out", "'secondary' is left out"]);
    for (text, said) in [
        ("secondary = 5", vec!["bad.toml", "--primary", "'secondary'"]),
        ("views = 'ap'", vec!["bad.toml", "unknown key 'views'", "'view'"]),
        ("view = 'up'", vec!["bad.toml", "--view", "lateral"]),
        ("pose = 'a.tfm'\nrotation = [1, 2, 3]", vec!["--pose", "'rotation' of 'bad.toml'"]),
    ] {
        place.write("bad.toml", text);
        place.line("drr ct.nii.gz --config bad.toml -o e --device cpu").expect(2).says(&said);
    }
    place.line("drr --config arm.toml -o e").expect(2).says(&["CT", "voxalign drr --help"]);
    place.line("drr ct.nii.gz").expect(2).says(&["-o DIR", "voxalign drr --help"]);
    assert!(!place.path("e").exists());

    // Two files of views, one of them for each image.
    let table = fs::read_to_string(place.path("a/views.toml")).unwrap();
    let (front, side) = table.split_once("\n\n").unwrap();
    place.write("front.toml", front);
    place.write("side.toml", side);
    place.write(
        "pose.toml",
        "ct = 'ct.nii.gz'\nxrays = ['a/ap.nii.gz', 'a/lateral.nii.gz']\ngeometry = ['front.toml', 'side.toml']\n\
         starts = 1\nrestarts = 0\nlevels = [8]\nreport = false\nregion = [4, 4, 40, 32]\nenergy = 60\n",
    );
    assert!(place.line("pose --config pose.toml -o f --device cpu").code < 2);
    let line =
        "pose ct.nii.gz a/ap.nii.gz a/lateral.nii.gz --geometry a/views.toml --region 4,4,40,32";
    assert!(place.line(&format!("{line} {QUICK} --energy 60 -o g")).code < 2);
    assert_eq!(parameters(&place, "f"), parameters(&place, "g"));
    let bytes = |folder: &str| fs::read(place.path(&format!("{folder}/affine.tfm"))).unwrap();
    assert!(bytes("f") == bytes("g"));
    // The views and images that are typed are all there are.
    let line = "pose ct.nii.gz a/ap.nii.gz --config pose.toml --geometry front.toml --range 5,5 --starts 4";
    assert!(place.line(&format!("{line} -o h --device cpu")).code < 2);
    let record = json(&place, "h/result.json");
    assert_eq!(record["views"].as_array().unwrap().len(), 1);
    assert_eq!(record["parameters"]["starts"], 4);
    place
        .line("pose --config arm.toml -o i")
        .expect(2)
        .says(&["arm.toml", "unknown key 'primary'"]);
}

/// The files in docs/ name every option, and give the defaults: with them and without them the results are the same.
#[test]
fn the_documented_configurations_are_complete_and_the_default() {
    let place = place();
    for (command, text) in [
        ("drr", include_str!("../../../../docs/drr.toml")),
        ("pose", include_str!("../../../../docs/pose.toml")),
    ] {
        let help = place.line(&format!("{command} --help")).expect(0).out;
        let options = help.lines().filter_map(|l| {
            let rest = l.trim_start().strip_prefix("-o, ").unwrap_or(l.trim_start());
            let rest = rest.strip_prefix("-q, ").or(rest.strip_prefix("-v, ")).unwrap_or(rest);
            rest.strip_prefix("--")?.split([' ', ',']).next()
        });
        for option in options.filter(|o| !["config", "help", "version"].contains(o)) {
            assert!(
                text.contains(&format!("{option} = ")),
                "{option} is not in docs/{command}.toml"
            );
        }
        place.write(&format!("{command}.toml"), text);
        let line = match command {
            "drr" => "drr ct.nii.gz --size 40,30",
            _ => {
                "pose ct.nii.gz drr1/ap.nii.gz --geometry drr1/views.toml --levels 16,8 --no-report"
            }
        };
        assert!(place.line(&format!("{line} -o {command}1")).code < 2);
        assert!(place.line(&format!("{line} -o {command}2 --config {command}.toml")).code < 2);
        assert_eq!(
            parameters(&place, &format!("{command}1")),
            parameters(&place, &format!("{command}2"))
        );
    }
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    for (one, other) in
        [("drr1/ap.nii.gz", "drr2/ap.nii.gz"), ("pose1/affine.tfm", "pose2/affine.tfm")]
    {
        assert!(bytes(one) == bytes(other), "{one}");
    }
}

/// `--region` is a part of the whole detector for both commands, whatever a table says.
#[test]
fn a_region_is_of_the_whole_detector() {
    let place = place();
    let drr = |more: &str| {
        place
            .line(&format!("drr ct.nii.gz --format nifti --device cpu --no-report {more}"))
            .expect(0);
        xray::read(place.path("a/ap.nii.gz")).unwrap()
    };
    let whole = drr("--view ap --size 48,40 -o a").values;
    let table = fs::read_to_string(place.path("a/views.toml")).unwrap();
    fs::copy(place.path("a/ap.nii.gz"), place.path("ap.nii.gz")).unwrap();
    place.write("views.toml", &(table + "region = [4, 6, 30, 28]\n"));
    let part = |[x, y, w, h]: [usize; 4]| -> Vec<f32> {
        whole.chunks(48).skip(y).take(h).flat_map(|row| row[x..x + w].to_vec()).collect()
    };
    for (options, region) in [("", [4, 6, 30, 28]), ("--region 10,2,36,30", [10, 2, 36, 30])] {
        let found = drr(&format!("--geometry views.toml {options} -o a"));
        assert_eq!(found.dims, [region[2], region[3]]);
        let off = found.values.iter().zip(part(region)).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1e-4, "{options}");
        let line = format!("pose ct.nii.gz ap.nii.gz --geometry views.toml {options} {QUICK} -o b");
        assert!(place.line(&line).code < 2);
        assert_eq!(json(&place, "b/result.json")["views"][0]["region"], serde_json::json!(region));
    }
    for line in ["drr ct.nii.gz", "pose ct.nii.gz ap.nii.gz"] {
        place
            .line(&format!("{line} --geometry views.toml --region 20,0,29,9 --device cpu -o c"))
            .expect(2)
            .says(&["--region", "48 x 40"]);
    }
}

/// A dry run says enough memory, and not much more.
#[test]
fn the_memory_that_is_said_is_enough() {
    let (place, ct) = (Place::new(), ct());
    // The same head in smaller voxels.
    let fine = Volume::from_fn(grid([132, 156, 120], 4.0 / 3.0), |x, y, z| {
        *ct.get(x / 3, y / 3, z / 3).unwrap()
    });
    place.image("ct.nii", &fine);
    place.write("poses.csv", "rotation_z\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n");
    for line in [
        "drr ct.nii --view ap,lateral --size 700,700 --step 8 --poses poses.csv --format png -o many",
        "drr ct.nii --view ap,lateral --size 700,700 --step 8 --format nifti,dicom -o x",
        "pose ct.nii x/ap.nii.gz x/lateral.nii.gz --geometry x/views.toml --starts 8 --restarts 1 -o p",
        "pose ct.nii x/ap.nii.gz x/lateral.nii.gz --geometry x/views.toml --starts 2 --restarts 0 \
         --sampling 1 --levels 4,2 -o q",
    ] {
        let line = format!("{line} --device cpu --threads 2 --json");
        let plan = place.line(&format!("{line} --dry-run")).expect(0).json();
        let run = place.line(&line);
        let said = plan["memory_bytes"].as_f64().unwrap();
        let taken = run.json()["peak_memory_bytes"].as_f64().unwrap();
        println!("{line}: said {said:.3e}, taken {taken:.3e}");
        assert!(taken < said && said < 3.0 * taken, "{line}: said {said:.3e}, taken {taken:.3e}");
    }
}

/// Texture units that are not there, coefficients that are not used, and starts that are rounded.
#[test]
fn the_record_says_what_was_done() {
    let place = place();
    let line = "drr ct.nii.gz --size 48,40 --format nifti --device cpu --no-report";
    place.line(&format!("{line} -o a")).expect(0);
    let run = place.line(&format!("{line} --rays texture -o b")).expect(0);
    run.says(&["no texture units", "--rays trilinear"]);
    assert_eq!(parameters(&place, "b"), parameters(&place, "a"));
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("a/ap.nii.gz") == bytes("b/ap.nii.gz"));
    for (options, used) in [
        ("", vec!["air_hu", "energy_kev", "water_per_mm"]),
        ("--water 0.02", vec!["air_hu", "water_per_mm"]),
        ("--units relative", vec!["dense_per_mm"]),
        ("--units attenuation", vec![]),
    ] {
        place.line(&format!("{line} {options} -o c")).expect(0);
        let all = parameters(&place, "c");
        let of_ct = ["air_hu", "dense_per_mm", "energy_kev", "water_per_mm"];
        let found: Vec<_> =
            of_ct.into_iter().filter(|key| !all.get(key).is_none_or(|v| v.is_null())).collect();
        assert_eq!(found, used, "{options}");
    }

    // A rotation that is exact to some digits: the nearest one is the start.
    let moved = "--rotation 3,-2,4 --translation 5,-4,3";
    place.line(&format!("{line} {moved} -o x")).expect(0);
    let pose = json(&place, "x/result.json")["images"][0]["pose"].clone();
    let number =
        |r: usize, c: usize, digits: usize| format!("{:.digits$}", pose[r][c].as_f64().unwrap());
    let start = |name: &str, digits: usize, scale: f64| {
        // ITK's world is LPS.
        let sign = |i: usize| if i < 2 { -1.0 } else { 1.0 };
        let value = |r: usize, c: usize| -> f64 {
            let v: f64 = number(r, c, digits).parse().unwrap();
            if c == 3 { v * sign(r) } else { v * sign(r) * sign(c) * scale }
        };
        let all = (0..3).flat_map(|r| (0..3).map(move |c| (r, c))).chain((0..3).map(|r| (r, 3)));
        let all: Vec<String> = all.map(|(r, c)| value(r, c).to_string()).collect();
        place.write(
            name,
            &format!(
                "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n\
                 Parameters: {}\nFixedParameters: 0 0 0\n",
                all.join(" ")
            ),
        );
    };
    start("rounded.tfm", 5, 1.0002);
    start("scaled.tfm", 9, 1.002);
    let line = format!("pose ct.nii.gz x/ap.nii.gz --geometry x/views.toml {QUICK}");
    assert!(place.line(&format!("{line} --init rounded.tfm -o d")).code < 2);
    let start = json(&place, "d/result.json")["start"].clone();
    let entry = |r: usize, c: usize| start[r][c].as_f64().unwrap();
    for (r, c) in (0..3).flat_map(|r| (0..3).map(move |c| (r, c))) {
        let dot: f64 = (0..3).map(|i| entry(i, r) * entry(i, c)).sum();
        assert!((dot - f64::from(u8::from(r == c))).abs() < 1e-12, "{start}");
    }
    let said = ["scaled.tfm", "changes lengths"];
    place.line(&format!("{line} --init scaled.tfm -o e")).expect(2).says(&said);
    place.line("drr ct.nii.gz --pose scaled.tfm -o e --device cpu").expect(2).says(&said);
    place
        .line("drr ct.nii.gz --pose rounded.tfm --size 48,40 --no-report -o e --device cpu")
        .expect(0);
    let image = json(&place, "e/result.json")["images"][0]["pose"].clone();
    for (r, c) in (0..3).flat_map(|r| (0..4).map(move |c| (r, c))) {
        let other = image[r][c].as_f64().unwrap();
        assert!((other - entry(r, c)).abs() < 1e-9, "{image} {start}");
    }
    // From where the CT is beside the detector no search begins.
    place.write(
        "beside.tfm",
        "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n\
         Parameters: 1 0 0 0 1 0 0 0 1 900 0 0\nFixedParameters: 0 0 0\n",
    );
    let said = ["x/ap.nii.gz", "the CT is outside the view where the search starts", "--init"];
    place.line(&format!("{line} --init beside.tfm -o f")).expect(2).says(&said);
}
