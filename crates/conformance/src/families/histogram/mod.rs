//! The `histogram` family against naive double-precision references.

mod binned;
mod joint;
mod samples;

use voxalign_compute::AffineMap;
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{
    Binning, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme, Terms,
};

use crate::cases::{BINNING, COLUMNS, OPTIONS, cases, halves, with_device};
use crate::support::Results;
pub(crate) use binned::{binned_sums_match, gradients_match};
pub(crate) use joint::{joint_matches, several_tiles_match};
pub(crate) use samples::{samples_are_grouped, values_are_counted};

pub(crate) fn bad_input_is_an_error<D: Histogram>(device: &D) {
    let case = &cases()[1];
    with_device(device, case, |samples, view| {
        let mut map = case.map;
        map[1][2] = f64::NAN;
        let sums = |view: &MovingView<'_, D>, map: &AffineMap| {
            device.binned_sums(Terms::Ratio, Scheme::ConflictFree, samples, view, &[*map])
        };
        assert!(sums(view, &map).is_err());
        let wrong = MovingView { dims: [29, 21, 12], ..*view };
        assert!(sums(&wrong, &case.map).is_err());
        let thin = MovingView { dims: [1, 29 * 21, 11], ..*view };
        assert!(sums(&thin, &case.map).is_err());
        let border = MovingView { border: [f64::NAN; 3], ..*view };
        assert!(sums(&border, &case.map).is_err());
        let few = |_: usize, _: &[f64]| vec![1.0; 2];
        let scheme = Scheme::ConflictFree;
        let found = device.binned_gradient(Terms::Ratio, scheme, samples, view, &[case.map], &few);
        assert!(found.is_err());
        let maps = [case.map];
        assert!(device.joint_gradient(samples, view, &COLUMNS, &maps, &[]).is_err());
        assert!(device.joint_gradient(samples, view, &COLUMNS, &maps, &[vec![0.0; 3]]).is_err());
        let few = ParzenBins { count: 4, ..COLUMNS };
        assert!(device.joint_histogram(JointScheme::Default, samples, view, &few, &maps).is_err());
        // More entries than a table may have.
        let options = LayoutOptions { binning: Binning { bins: 300, ..BINNING }, ..OPTIONS };
        let fixed = device.upload(&case.fixed).unwrap();
        let samples = &device.group_samples(&fixed, case.fixed_dims, None, &options).unwrap();
        let many = ParzenBins { count: 1 << 16, ..COLUMNS };
        let message = device
            .joint_histogram(JointScheme::Default, samples, view, &many, &maps)
            .unwrap_err()
            .to_string();
        assert!(message.contains("at most 2^24"), "{message}");
        let found = device.joint_gradient(samples, view, &many, &maps, &[vec![]]);
        assert!(found.unwrap_err().to_string().contains("at most 2^24"));
    });
}

pub(crate) fn bits<D: Histogram>(device: &D) -> Results {
    let mut results = Results::new();
    for case in [&cases()[3], &cases()[7]] {
        with_device(device, case, |samples, view| {
            let mut add = |name: &str, numbers: &[f64]| {
                results.push((format!("{name} {:?}", case.fixed_dims), halves(numbers)));
            };
            let maps = [case.map];
            let squares = |_: usize, sums: &[f64]| sums.to_vec();
            for terms in [Terms::Ratio, Terms::Moments] {
                let scheme = Scheme::ConflictFree;
                let found =
                    device.binned_gradient(terms, scheme, samples, view, &maps, &squares).unwrap();
                add("sums", &found[0].0);
                add("gradient", &found[0].1);
            }
            let joint = device
                .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                .unwrap();
            let gradient = device.joint_gradient(samples, view, &COLUMNS, &maps, &joint).unwrap();
            add("joint", &joint[0]);
            add("joint gradient", &gradient[0]);
        });
    }
    results
}
