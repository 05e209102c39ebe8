//! Every kernel of the GPU, emulated on the host: one test a family, which fails if a kernel of its files has not run.

use voxalign_compute::cuda::Cuda;
use voxalign_conformance::support::assert_same_bits;

use crate::devices::emulated;

/// Files of kernels, with their text: a test binary that was built elsewhere has no files.
type Files = &'static [(&'static str, &'static str)];

macro_rules! files {
    ($($family:ident: $($file:literal),*;)*) => {
        /// All of them, by the family whose checks run them.
        const FILES: &[(&str, Files)] = &[$(
            (stringify!($family), &[$((
                $file,
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels/", $file)),
            )),*]),
        )*];

        // Each is a family.
        const _: () = {
            #[allow(unused_imports)]
            use voxalign_conformance::{$($family),*};
        };
    };
}
// Families that are not here have kernels that are written as they are needed, or none.
files! {
    reduce: "check/check.cu", "reduce/reduce.cu";
    resample: "resample/resample.cu", "resample/spline.cu";
    fields: "resample/fields.cu";
    labels: "resample/labels.cu";
    stencil: "stencil/stencil.cu";
    filter: "filter/filter.cu", "filter/recursive.cu", "filter/smooth.cu";
    fourier: "fourier/fourier.cu";
    front: "front/front.cu", "front/signs.cu";
    regions: "regions/regions.cu";
    elastic: "elastic/elastic.cu";
    flow: "flow/flow.cu", "flow/force.cu", "flow/force_at.cu", "flow/halves.cu", "flow/norms.cu";
    contexts: "similarity/contexts.cu";
    similarity: "similarity/correlation.cu", "similarity/map.cu", "similarity/means.cu", "similarity/pair.cu";
    weights: "similarity/pair.cu";
    histogram: "histogram/samples.cu", "histogram/histogram.cu", "histogram/joint.cu";
    schemes: "histogram/baselines/sums.cu", "histogram/baselines/joint.cu", "histogram/baselines/ungrouped.cu";
    joint: "joint/joint.cu", "joint/messages.cu";
    sort: "sort/sort.cu";
    accumulate: "accumulate/accumulate.cu";
    splat: "splat/splat.cu";
    simplices: "simplices/simplices.cu";
    points: "points/points.cu", "points/carry.cu";
    pairwise: "pairwise/pairwise.cu";
    sparse: "sparse/product.cu", "sparse/sparse.cu";
    tetrahedra: "tetrahedra/locate.cu", "tetrahedra/samples.cu", "tetrahedra/covectors.cu", "tetrahedra/gather.cu", "tetrahedra/nodes.cu", "tetrahedra/strain.cu";
    values: "values/values.cu";
    raycast: "raycast/raycast.cu", "raycast/adjoint.cu";
}

/// Fails if a kernel of the files of a family has not run on the device.
fn assert_all_ran(cuda: &Cuda, family: &str) {
    let ran = cuda.launched();
    let of_family = FILES.iter().filter(|(name, _)| *name == family);
    for (file, text) in of_family.flat_map(|(_, files)| *files) {
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("KERNEL(") else { continue };
            let name = rest.split(',').next().unwrap_or_default().trim();
            assert!(ran.contains(name), "{file}: no check has run the kernel {name}");
        }
    }
}

macro_rules! emulated_tests {
    ([] $family:ident [$($check:ident)*] [$($results:ident)*]) => {
        #[test]
        fn $family() {
            use voxalign_conformance::$family;
            let Some(cuda) = emulated() else { return };
            $($family::$check(&cuda);)*
            $(assert_same_bits(&cuda, &$family::$results(&cuda), &$family::$results(&cuda));)*
            assert_all_ran(&cuda, stringify!($family));
        }
    };
}
voxalign_conformance::each!([emulated_tests]);
voxalign_conformance::each_baseline!([emulated_tests]);

/// A new file of kernels has to be in the list.
#[test]
fn every_file_is_in_the_list() {
    let kernels = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/kernels");
    let all = found(&kernels);
    if all.is_empty() {
        eprintln!("skipped: the sources are not on this machine");
    }
    for path in all {
        let name = path.strip_prefix(&kernels).unwrap().display().to_string();
        let mut listed = FILES.iter().flat_map(|(_, files)| *files);
        assert!(listed.any(|(file, _)| *file == name), "{name} is in no list of kernels");
    }
}

/// The files of kernels in a folder and those in it.
fn found(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let of = |path: std::path::PathBuf| match path.is_dir() {
        true => found(&path),
        false => vec![path],
    };
    entries.flat_map(of).filter(|path| path.extension().is_some_and(|e| e == "cu")).collect()
}
