//! What the file of an anatomy can say.

use super::*;
use voxalign_options::text;

fn of(text: &str) -> Result<Vec<Part>> {
    // A table of names that is in no file.
    let names = |table: &Path| match table == Path::new("folder/names.csv") {
        true => {
            Ok([(17, "Left-Hippocampus"), (53, "Right-Hippocampus"), (4, "Twice"), (5, "Twice")]
                .map(|(label, name)| (label, name.to_owned()))
                .into())
        }
        false => Err(Error::input(text!("'{}' is not there", table.display()))),
    };
    parse(text, Path::new("folder"), &names)
}

#[test]
fn all_that_can_be_said() {
    let parts = of("
        [[probability]]
        name = 'white'
        image = ['a.nii.gz', 'b.nii.gz']
        weight = 2
        [[probability]]
        name = 'grey'
        image = 'all.nii.gz'
        volume = [0, 3]
        [[probability]]
        name = 'csf'
        labels = '/labels.nii.gz'
        label = [4, 43]
        sigma = 1.5
        [[image]]
        name = 't1'
        image = 't1.nii.gz'
        volume = 1
        similarity = 'mi'
        bins = 32
        [[surface]]
        name = 'left'
        mesh = 'left.stl'
        space = 'lps'
        oriented = false
        kernel = 'cauchy'
        width = 4.0
        [[curve]]
        name = 'sulcus'
        mesh = 'sulcus.vtk'
        [[points]]
        name = 'cloud'
        points = 'cloud.csv'
        [[landmarks]]
        name = 'marks'
        points = 'marks.csv'
        space = 'lps'
        weight = 0.001
    ")
    .unwrap();
    let kinds: Vec<_> = parts.iter().map(|p| p.kind.name()).collect();
    assert_eq!(
        kinds,
        [
            "probability",
            "probability",
            "probability",
            "image",
            "surface",
            "curve",
            "points",
            "landmarks"
        ]
    );
    let paths = |i: usize| parts[i].source.paths().to_vec();
    assert_eq!(paths(0), [Path::new("folder/a.nii.gz"), Path::new("folder/b.nii.gz")]);
    let Source::Images(volumes) = &parts[1].source else { panic!() };
    assert_eq!(volumes.iter().map(|v| v.1).collect::<Vec<_>>(), [Some(0), Some(3)]);
    assert_eq!(
        parts[2].source,
        Source::Labels {
            path: "/labels.nii.gz".into(),
            labels: vec![4, 43],
            sigma: 1.5,
            names: None
        }
    );
    let similarity = parts[3].given.similarity.unwrap();
    assert_eq!((similarity.name(), similarity.bins()), ("mi", Some(32)));
    assert_eq!(parts[4].given.oriented, Some(false));
    assert_eq!(parts[4].given.kernel, Some(KernelShape::Cauchy));
    assert_eq!(parts[4].source, Source::Mesh("folder/left.stl".into(), Some(MeshSpace::Lps)));
    let list = Source::List("folder/marks.csv".into(), Some(PointConvention::Lps));
    assert_eq!((&parts[7].source, parts[7].given.weight), (&list, Some(0.001)));
    // Labels are smoothed by a millimetre where nothing is said.
    let parts = of("[[probability]]\nname='a'\nlabels='l.nii'\nlabel=3").unwrap();
    assert!(matches!(parts[0].source, Source::Labels { sigma: 1.0, .. }));
}

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let surface = "[[surface]]\nname = 'a'\nmesh = 'a.gii'\n";
    let labels = "[[surface]]\nname = 'a'\nlabels = 'l.nii'\n";
    for (text, said) in [
        (String::new(), "anatomy of nothing"),
        ("[[surfaces]]\nname = 'a'".into(), "line 1: unknown field 'surfaces'"),
        (format!("{surface}widht = 3"), "line 4: unknown field 'widht'"),
        (format!("{surface}width = 0"), "[[surface]] 'a': 'width' is 0"),
        (format!("{surface}weight = nan"), "'weight' is NaN"),
        (format!("{surface}kernel = 'box'"), "give gaussian or cauchy"),
        (format!("{surface}space = 'tkras'"), "give ras or lps"),
        (format!("{surface}oriented = 'no'"), "line 4"),
        (format!("{surface}similarity = 'ssd'"), "unknown field 'similarity'"),
        ("[[surface]]\nname = 'a'".into(), "give 'mesh', a file, or 'labels'"),
        ("[[surface]]\nname = 'a/b'\nmesh = 'a'".into(), "give a name of letters"),
        ("[[surface]]\nname = '.a'\nmesh = 'a'".into(), "begins with a letter"),
        (
            format!("{surface}[[curve]]\nname = 'A'\nmesh = 'b.vtk'"),
            "[[surface]] 'a' and [[curve]] 'A' have the same name",
        ),
        ("[[probability]]\nname = 'a'".into(), "give 'image'"),
        ("[[probability]]\nname = 'a'\nimage = []".into(), "an empty list"),
        ("[[probability]]\nname = 'a'\nimage = 3".into(), "line 3: give one value, or a list"),
        ("[[probability]]\nname = 'a'\nimage = 'b'\nsigma = 1".into(), "'sigma' is for 'labels'"),
        (
            "[[probability]]\nname = 'a'\nimage = ['b', 'c']\nvolume = 1".into(),
            "'volume' has 1 numbers, 'image' 2 files",
        ),
        ("[[probability]]\nname = 'a'\nimage = 'b'\nlabels = 'c'".into(), "give one of them"),
        ("[[probability]]\nname = 'a'\nlabels = 'c'".into(), "label = [2, 41]"),
        (
            "[[probability]]\nname = 'a'\nlabels = 'c'\nlabel = 1\nsigma = -1".into(),
            "'sigma' is -1",
        ),
        ("[[image]]\nname = 'a'\nimage = 'b'\nsimilarity = 'cr'".into(), "give one of"),
        (
            "[[image]]\nname = 'a'\nimage = 'b'\nsimilarity = 'ssd'\nbins = 3".into(),
            "'bins' is not a parameter",
        ),
        (
            "[[image]]\nname = 'a'\nimage = 'b'\nbins = 3".into(),
            "not a parameter of the similarity lncc",
        ),
        (format!("{surface}labels = 'l.nii'"), "several of 'mesh', 'labels' and 'image'"),
        (format!("{surface}label = 3"), "'label' is for 'labels'"),
        (format!("{surface}keep = 0.5"), "'keep' is for 'labels' or 'image'"),
        (format!("{surface}level = 3"), "'level' is for 'image'"),
        (labels.into(), "'labels' needs 'label'"),
        (format!("{labels}label = 0"), "'label' is 0"),
        (format!("{labels}label = [3, 0]"), "'label' is 0"),
        (format!("{labels}label = []"), "'labels' needs 'label'"),
        (format!("{labels}label = 1.5"), "line 4: give one value, or a list"),
        (format!("{labels}label = 3\nlevel = 1"), "'level' is for 'image'"),
        (format!("{labels}label = 3\nspace = 'ras'"), "'space' is for 'mesh'"),
        (format!("{labels}label = 3\nsigma = 1"), "unknown field 'sigma'"),
        (format!("{labels}label = 3\nkeep = 2"), "'keep' is 2"),
        (format!("{labels}label = 3\nsmoothing = 5000"), "'smoothing' is 5000"),
        (format!("{labels}label = 3\nkeep = 0.5\ntriangles = 50"), "both 'triangles' and 'keep'"),
        (format!("{labels}label = 'Left-Hippocampus'"), "name their table by 'label_names'"),
        (format!("{labels}label = 3\nlabel_names = 'names.csv'"), "'label_names' is for labels"),
        (format!("{labels}label = 'x'\nlabel_names = 'no.csv'"), "folder/no.csv' is not there"),
        (
            format!("{labels}label = 'Thalamus'\nlabel_names = 'names.csv'"),
            "has no label 'Thalamus'; it has Twice, Left-Hippocampus, Right-Hippocampus",
        ),
        (format!("{labels}label = 'twice'\nlabel_names = 'names.csv'"), "name of 4, 5"),
        ("[[surface]]\nname = 'a'\nimage = 'p.nii'".into(), "such as level = 0.5"),
        ("[[surface]]\nname = 'a'\nimage = 'p.nii'\nlevel = nan".into(), "'level' is NaN"),
        (
            "[[image]]\nname = 'a'\nimage = 'b'\nsimilarity = 'mi'\nbins = 1000".into(),
            "'bins' is 1000",
        ),
        ("[[points]]\nname = 'a'".into(), "give 'points'"),
        ("[[image]\nname = 'a'".into(), "line 1"),
    ] {
        let error = of(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}\n{error}");
        assert!(!error.contains('`'), "{error}");
    }
}

#[test]
fn surfaces_of_voxels() {
    let parts = of("
        [[surface]]
        name = 'left'
        labels = 'l.nii.gz'
        label = ['left-hippocampus', 54]
        label_names = 'names.csv'
        keep = 0.25
        smoothing = 5
        [[surface]]
        name = 'white'
        image = '/p.nii.gz'
        volume = 2
        level = 0.5
        below = true
        fill_holes = true
        largest_component = true
        triangles = 1000
        [[curve]]
        name = 'disc'
        labels = 'flat.png'
        label = 3
        [[probability]]
        name = 'right'
        labels = 'l.nii.gz'
        label = 'Right-Hippocampus'
        label_names = 'names.csv'
    ")
    .unwrap();
    let table = Some(PathBuf::from("folder/names.csv"));
    let Source::Labels { labels, names, .. } = &parts[0].source else { panic!() };
    assert_eq!((&**labels, names), (&[53][..], &table));
    let all: Vec<_> = parts[1..]
        .iter()
        .map(|p| match &p.source {
            Source::Voxels(of) => &**of,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((&*all[0].object.label, &all[0].names), (&[17, 54][..], &table));
    assert_eq!((all[0].shape.keep, all[0].shape.smoothing), (Some(0.25), Some(5)));
    assert_eq!((&*all[1].path, all[1].volume), (Path::new("/p.nii.gz"), Some(2)));
    let object = &all[1].object;
    assert_eq!((object.level, object.below, object.fill_holes), (Some(0.5), true, true));
    assert_eq!((object.largest_component, all[1].shape.triangles), (true, Some(1000)));
    assert_eq!((parts[3].kind, &*all[2].object.label), (Kind::Curve, &[3][..]));
}

/// Files that somebody damaged are read or refused; nothing else happens.
#[test]
fn damaged_files_are_errors() {
    let whole = include_str!("seed.toml");
    let damages: usize =
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below.max(1)
    };
    assert_eq!(of(whole).unwrap().len(), 9);
    let words: Vec<&str> = whole.split_inclusive([' ', '\n', ',', '[', ']', '\'', '=']).collect();
    let odd = [
        "nan",
        "-inf",
        "1e999",
        "-1",
        "9223372036854775808",
        "''",
        "[",
        "]]",
        "\u{0}",
        "{}",
        "0x7",
        "\"\"\"",
    ];
    let mut counts = [0usize; 2];
    for _ in 0..damages {
        let mut parts = words.clone();
        for _ in 0..1 + next(4) {
            let at = next(parts.len());
            if parts.is_empty() {
                break;
            }
            match next(5) {
                0 => drop(parts.remove(at)),
                1 => parts[at] = odd[next(odd.len())],
                2 => parts.insert(at, words[next(words.len())]),
                3 => parts.truncate(at.max(1)),
                _ => {
                    let other = next(parts.len());
                    parts.swap(at, other);
                }
            }
        }
        let text = parts.concat();
        let found = of(&text);
        counts[usize::from(found.is_err())] += 1;
        if let Err(error) = found {
            let said = error.to_string();
            assert!(matches!(error, Error::Input(_)), "{said}");
            assert!(!said.contains('`') && said.len() < 1500, "{said}");
        }
    }
    println!("{} read, {} refused", counts[0], counts[1]);
    assert!(counts.iter().all(|n| *n > damages / 100), "{counts:?}");
}
