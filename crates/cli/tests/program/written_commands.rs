//! Every command that README, the pages of docs and the help show is run, with inputs made up for the names in it.

use crate::common::{Place, grid, head};
use crate::help::COMMANDS;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use voxalign_image::{
    Affine, Displacement, LabelMap, Mesh, TetraMesh, Transform, Vector3, VectorField, Volume,
};
use voxalign_io::transform::{Geometry, write};

/// A command, and where it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    words: Vec<String>,
    place: String,
}

/// The commands of a text: lines that begin with the program's name, in blocks of code and in help, and code within
/// sentences.
fn commands(text: &str, place: &str, found: &mut BTreeSet<Shown>) {
    let is_help = place.ends_with("--help");
    let mut keep = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default();
        let line = line.split(" > ").next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        if words.first().is_some_and(|word| word == "voxalign") {
            found.insert(Shown { words: words[1..].to_vec(), place: place.to_owned() });
        }
    };
    let joined = text.replace("\\\n", " ");
    for (i, part) in joined.split("```").enumerate() {
        if is_help || i % 2 == 1 {
            part.lines().for_each(&mut keep);
        }
        if is_help || i % 2 == 0 {
            part.split('`').skip(1).step_by(2).for_each(&mut keep);
        }
    }
}

/// All commands that are shown anywhere.
fn shown(place: &Place) -> BTreeSet<Shown> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    files.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "md")) {
        let name = file.file_name().unwrap().to_string_lossy();
        commands(&fs::read_to_string(file).unwrap(), &name, &mut found);
    }
    for command in COMMANDS {
        let help = place.run(&[command, "--help"]).expect(0).out;
        commands(&help, &format!("{command} --help"), &mut found);
    }
    found
}

/// Whether it stands for several commands: a name alone, or words that a reader replaces.
fn is_pattern(shown: &Shown) -> bool {
    let replaced = |word: &String| {
        let word = word.trim_end_matches("...");
        let bare = word.trim_end_matches(".toml").trim_end_matches(".nii.gz");
        word.starts_with(['<', '['])
            || !bare.is_empty() && bare.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let named = shown.words.len() == 2 && shown.words[1].starts_with("--");
    let alone = named && shown.words[1] == "--stream"
        || shown.words.len() < 2
            && shown.words.first().is_none_or(|w| !["demo", "devices"].contains(&w.as_str()));
    alone || shown.words.iter().any(replaced)
}

/// The options of every command that is shown are those of its help.
#[test]
fn options_are_those_of_the_help() {
    let place = Place::new();
    let mut seen = 0;
    for shown in shown(&place) {
        let Some(command) = shown.words.first().filter(|w| COMMANDS.contains(&w.as_str())) else {
            continue;
        };
        let mut asked = vec![command.as_str()];
        let part = shown
            .words
            .get(1)
            .filter(|w| command == "bench" && w.chars().all(|c| c.is_ascii_lowercase()));
        let part = part.or(shown.words.get(1).filter(|_| command == "stack" || command == "demo"));
        asked
            .extend(part.filter(|w| w.chars().all(|c| c.is_ascii_lowercase())).map(String::as_str));
        asked.push("--help");
        let help = place.run(&asked).expect(0).out;
        for option in shown.words.iter().filter(|w| w.starts_with("--")) {
            let named =
                help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n"));
            assert!(named, "{}: `voxalign {}` has no {option}", shown.place, shown.words.join(" "));
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} options were looked at");
}

/// Folders of DICOM files that commands read.
const FOLDERS: [&str; 3] = ["dicom_folder", "old_mr", "dicom"];

/// Files that a star stands for.
const SOME: usize = 15;

/// Makes up a file or folder for a name, as small as it can be.
fn make(place: &Place, name: &str) {
    let path = place.path(name);
    if path.exists() || name.is_empty() {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // What the command is decides what some of the names are.
    let line = fs::read_to_string(place.path("command")).unwrap();
    let base = path.file_name().unwrap().to_string_lossy().into_owned();
    let has = |parts: &[&str]| parts.iter().any(|part| base.contains(part));
    let ends = |ends: &[&str]| ends.iter().any(|end| base.ends_with(end));
    let dims = if base.starts_with("slice") { [16, 18, 1] } else { [16, 18, 14] };
    let small = grid(dims, 8.0);
    let affine = Transform::Affine(Affine::translation(Vector3::new(1.0, 2.0, 0.0)));
    let mut image = head(&small, &Affine::identity());
    if let Some((folder, _)) = name.split_once('*') {
        for i in 0..SOME {
            make(place, &name.replace('*', &format!("s{i}")));
        }
        return assert!(place.path(folder).exists());
    }
    if ends(&[".nii.gz", ".nrrd", ".hdr", ".nii"]) {
        let field = has(&["arp", "composite"]) && !has(&["warped"])
            || line.contains("--transforms") && has(&["other"]);
        if field {
            let field = VectorField::from_world_fn(small.clone(), |p| {
                Vector3::new((p[1] / 40.0).sin(), 0.0, 0.0)
            });
            let field = Transform::Displacement(Displacement::new(field));
            return write(path, &field, &Geometry::default()).unwrap();
        }
        let labels = has(&["label", "bones", "slice", "mask", "lesion", "brain."])
            || line.contains("--labels a");
        if labels {
            let values = [47, 48, 3, 4, 17, 53, 1];
            let each = |x: usize, y: usize, z: usize| {
                if x * y * z % 5 == 9 { 0 } else { values[(x / 3 + y / 9) % 7] }
            };
            let inner = |i: usize, n: usize| n == 1 || (2..n - 2).contains(&i);
            let map: LabelMap = Volume::from_fn(small, |x, y, z| {
                let inside = inner(x, dims[0]) && inner(y, dims[1]) && inner(z, dims[2]);
                if inside { each(x, y, z) } else { 0 }
            });
            return place.labels(name, &map);
        }
        if base.starts_with("ct") {
            image.data_mut().iter_mut().for_each(|v| *v = *v * 14.0 - 1000.0);
        } else if has(&["white"]) {
            image.data_mut().iter_mut().for_each(|v| *v /= 100.0);
        } else if has(&["bold"]) {
            return ten_volumes(place, name, &image);
        }
        return place.image(name, &image);
    }
    if name == "study.toml" {
        return place.write(name, "dof = 6\n");
    }
    if name == "job.toml" {
        let files = match line.split(' ').next().unwrap_or_default() {
            "atlas" => "images = ['t1/s0.nii.gz', 't1/s1.nii.gz']\n",
            "drr" => "ct = 'ct.nii.gz'\nview = ['ap']\n",
            "pose" => {
                "ct = 'ct.nii.gz'\nxrays = ['front.png', 'side.png']\ngeometry = ['views.toml']\n"
            }
            "segment" => "force = 'geodesic-regions'\n",
            "surface" => "label = [47]\n",
            _ => "fixed = 'template.nii.gz'\nmoving = 'scan.nii.gz'\n",
        };
        files
            .split('\'')
            .skip(1)
            .step_by(2)
            .filter(|file| file.contains('.'))
            .for_each(|file| make(place, file));
        return place.write(name, files);
    }
    if ends(&["flirt.mat", ".fsl.mat"]) {
        return place.write(name, "1 0 0 1\n0 1 0 2\n0 0 1 0\n0 0 0 1\n");
    }
    if base == "in_plane.tfm" {
        let shift = Transform::Affine(Affine::translation(Vector3::new(3.0, -2.0, 0.0)));
        return write(path, &shift, &Geometry::default()).unwrap();
    }
    if ends(&[".ome.zarr", ".svs"]) {
        crate::apply_pyramids::section(
            place,
            "made.tif",
            &crate::apply_pyramids::lps([24, 20, 1], 1.0),
            1,
        );
        if name.ends_with(".svs") {
            return fs::rename(place.path("made.tif"), path).unwrap();
        }
        place.line(&format!("apply -i made.tif -r made.tif -o {name}")).expect(0);
        return;
    }
    if ends(&[".tfm", ".mat"]) {
        return write(path, &affine, &Geometry::default()).unwrap();
    }
    if base == "bone.csv" {
        return place.write(name, "label,x,y,z\na,1,2,3\nb,30,2,3\nc,5,32,3\nd,5,2,-33\n");
    }
    if base == "seen.csv" {
        let rows =
            (0..2).flat_map(|view| ["a", "b", "c", "d"].map(|l| format!("{l},{view},10,9\n")));
        return place.write(name, &format!("label,view,column,row\n{}", rows.collect::<String>()));
    }
    if base == "subjects.csv" {
        let mut table = "path,age\n".to_owned();
        for i in 0..SOME {
            make(place, &format!("listed/s{i}.nii.gz"));
            table.push_str(&format!("listed/s{i}.nii.gz,{}\n", 60 + 2 * i));
        }
        return place.write(name, &table);
    }
    if base == "names.csv" {
        return place.write(name, "label,name\n47,a\n48,b\n");
    }
    if base == "views.toml" {
        make(place, "ct.nii.gz");
        let names = if name.contains('/') { ["ap", "lateral"] } else { ["front", "side"] };
        let two = ["cam2.tif", names[1]].iter().any(|part| line.contains(part))
            || line.contains(".toml -o") && !line.contains(names[0]);
        let count = if two { 2 } else { 1 };
        let views = ["0.0", "90.0"].iter().zip(names).take(count).map(|(angle, name)| {
            format!(
                "[[view]]\nname = '{name}'\nsize = [24, 20]\nsource_to_isocentre = 800.0\nsource_to_detector = 1200.0\n\
                 isocentre = [0.0, 0.0, 0.0]\npixel = 12.0\nprimary = {angle}\nsecondary = 0.0\n"
            )
        });
        return place.write(name, &views.collect::<String>());
    }
    if ends(&[".png", ".tif"]) {
        let (width, height) = (24, 20);
        let values: Vec<f32> = (0..width * height).map(|i| (i % 7) as f32).collect();
        let image = voxalign_io::xray::XrayToWrite::new(&values, [width, height]);
        voxalign_io::xray::write(path, &image).unwrap();
        return;
    }
    if ends(&[".toml"]) {
        if line.contains("--spacing 1") {
            make(place, "lh.pial.gii");
            return place.write(name, "[[surface]]\nname = 'lh'\nmesh = 'lh.pial.gii'\n");
        }
        for file in ["t1.nii.gz", "marks.csv"] {
            make(place, &name.replace(&base, file));
        }
        let text = "[[image]]\nname = 't1'\nimage = 't1.nii.gz'\n\n[[landmarks]]\nname = 'marks'\npoints = 'marks.csv'\n";
        return place.write(name, text);
    }
    if ends(&[".mrk.json", ".fcsv", ".tag"]) {
        make(place, "made.csv");
        if base == "pairs.tag" {
            return place.write(
                name,
                "MNI Tag Point File\nVolumes = 2;\n\nPoints =\n 1 2 3 2 3 4 \"a\"\n 10 2 3 12 3 4 \"b\"\n 5 12 3 6 13 4 \"c\";\n",
            );
        }
        place.line(&format!("convert made.csv {name}")).expect(0);
        return;
    }
    if ends(&[".csv"]) {
        return place.write(name, "x,y,z,name\n1,2,3,a\n11,2,3,b\n5,12,3,c\n5,2,-13,d\n");
    }
    if ends(&[".gii", ".vtk", ".stl", ".vtp", ".pial"]) {
        crate::meshes::ball(place, "ball.vtk");
        place.line(&format!("convert ball.vtk {name}")).expect(0);
        return;
    }
    if ends(&[".msh", ".vtu"]) {
        let corners = [[0., 0., 0.], [9., 0., 0.], [0., 9., 0.], [0., 0., 9.]];
        let mesh = TetraMesh::new(corners.map(Vector3::from).into(), vec![[0, 1, 2, 3]]).unwrap();
        // What is in it says the format.
        let vtu = path.with_extension("vtu");
        voxalign_io::tetra::write(&vtu, &mesh, &Default::default()).unwrap();
        return fs::rename(vtu, path).unwrap();
    }
    if ends(&[".txt"]) {
        return place.write(
            name,
            "image size\n24,20\n\ncamera matrix\n100,0,11.5\n0,100,9.5\n0,0,1\n\nrotation\n1,0,0\n0,0,-1\n0,1,0\n\n\
             translation\n0\n0\n800\n",
        );
    }
    if ends(&[".yml"]) {
        return place.write(
            name,
            "%YAML:1.0\n---\nK: [ 100, 0, 11.5, 0, 100, 9.5, 0, 0, 1 ]\nR: [ 1, 0, 0, 0, 0, -1, 0, 1, 0 ]\nT: [ 0, 0, 800 ]\n",
        );
    }
    if ends(&[".dcm"]) {
        make(place, "ct.nii.gz");
        let line =
            "drr ct.nii.gz --view ap --size 24,20 --pixel 12 --format dicom --no-report -o made";
        place.line(line).expect(0);
        fs::copy(place.path("made/ap.dcm"), path).unwrap();
        return;
    }
    if ["front/", "side/"].contains(&name) {
        for i in 0..3 {
            make(place, &format!("{name}{i}.png"));
        }
        return;
    }
    if ends(&[".trk", ".tck"]) {
        let places: Vec<_> = (0..9).map(|i| Vector3::new(f64::from(i), 2.0, 3.0)).collect();
        let line =
            Mesh::new(places, Vec::new()).unwrap().with_lines(vec![9], (0..9).collect()).unwrap();
        return crate::anatomy::write(place, name, &line);
    }
    if name == "sim" {
        make(place, "ct.nii.gz");
        let line = "drr ct.nii.gz --view ap,lateral --size 24,20 --pixel 12 --no-report -o sim";
        place.line(line).expect(0);
        return;
    }
    if FOLDERS.contains(&name) || name.ends_with('/') {
        image.data_mut().iter_mut().for_each(|v| *v = v.round());
        return crate::dicom::write_series(place, name.trim_end_matches('/'), "1.2.3", &image);
    }
    panic!("nothing is made up for '{name}'");
}

/// Ten volumes of an image in one NIfTI file.
fn ten_volumes(place: &Place, name: &str, image: &Volume<f32>) {
    place.image("one.nii", image);
    let mut bytes = fs::read(place.path("one.nii")).unwrap();
    bytes[40..42].copy_from_slice(&4i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&10i16.to_le_bytes());
    let one = bytes[352..].to_vec();
    (1..10).for_each(|_| bytes.extend(&one));
    fs::write(place.path(name), bytes).unwrap();
}

/// Whether the word after an option is a file that it writes, or no file at all.
fn is_no_input(option: &str, word: &str) -> bool {
    ["-o", "--output", "--csv", "--html", "--scratch"].contains(&option)
        || !word.contains(['.', '/'])
}

/// The words as a shell gives them: with the files that stars stand for.
fn expanded(words: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for word in words {
        match word.split_once('*') {
            Some((before, after)) => all.extend((0..SOME).map(|i| format!("{before}s{i}{after}"))),
            None => all.push(word.clone()),
        }
    }
    all
}

/// Makes up all inputs of a command.
fn make_inputs(place: &Place, words: &[String]) {
    let known = [
        ".nii.gz",
        ".nrrd",
        ".hdr",
        ".nii",
        ".csv",
        ".tfm",
        ".mat",
        ".toml",
        ".gii",
        ".vtk",
        ".stl",
        ".vtp",
        ".pial",
        ".msh",
        ".vtu",
        ".trk",
        ".fcsv",
        ".tag",
        ".json",
        ".png",
        ".tif",
        ".ome.zarr",
        ".svs",
        ".dcm",
        ".txt",
        ".yml",
        "dicom_folder",
        "old_mr",
        "sim",
        "/",
    ];
    // The last file of `convert` before its options is written.
    let files = words.iter().position(|w| w.starts_with('-')).unwrap_or(words.len());
    for (i, word) in words.iter().enumerate() {
        let before = if i > 0 { words[i - 1].as_str() } else { "" };
        let written = words[0] == "convert" && i + 1 == files;
        if written
            || is_no_input(before, word) && !FOLDERS.contains(&word.as_str()) && word != "sim"
        {
            continue;
        }
        for part in word.split(',') {
            let name = part.rsplit_once(':').map_or(part, |(_, name)| name);
            if known.iter().any(|end| name.ends_with(end)) && !name.starts_with('-') {
                make(place, name);
            }
        }
    }
}

/// Every command that is shown does what it is shown for. Jobs are planned (`--dry-run`): that they run is tested elsewhere.
#[test]
fn every_command_that_is_shown_runs() {
    let start = Place::new();
    let (mut ran, mut wrong) = (0, Vec::new());
    for shown in shown(&start) {
        if is_pattern(&shown) || shown.words[0] == "bench" || shown.words[0] == "demo" {
            continue;
        }
        let place = Place::new();
        place.write("command", &shown.words.join(" "));
        make_inputs(&place, &shown.words);
        let mut words = expanded(&shown.words);
        let at = words.iter().position(|w| w == "--device");
        if let Some(at) = at {
            words.drain(at..at + 2);
        }
        let scratch = words.iter_mut().find(|word| word.ends_with("/scratch"));
        if let Some(scratch) = scratch {
            *scratch = ".".to_owned();
        }
        let job = [
            "affine", "deform", "elastic", "anatomy", "atlas", "drr", "pose", "segment", "surface",
        ]
        .contains(&words[0].as_str());
        if job && !words.iter().any(|w| w == "--dry-run") {
            words.push("--dry-run".to_owned());
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let run = place.run(&words);
        if run.code > 1 {
            wrong.push(format!("{}: `voxalign {}`: {}", shown.place, words.join(" "), run.err));
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 100, "{ran} commands were run");
}
