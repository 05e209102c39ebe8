//! Distribution of images over devices, and the number of nodes that pays (Ha 2011, section 2.3.8.3).
//!
//! Images are shared among devices, not among nodes, as nodes may have different numbers of devices.
//! Every device waits for the one with the most images, so that more nodes help only until they cost
//! more in the network than they save on the devices.

use std::ops::Range;

use crate::error::{ComputeError, Result};

/// The most images that one of `members` devices has: ⌈images / members⌉.
#[must_use]
pub fn images_per_member(images: usize, members: usize) -> usize {
    images.div_ceil(members.max(1))
}

/// The images of one of `members` devices: neighbours, and with those of all others every image once.
/// No device has more than one image above another, and the first have the more. Empty for a device
/// that there is not.
#[must_use]
pub fn share(images: usize, members: usize, member: usize) -> Range<usize> {
    if member >= members {
        return images..images;
    }
    let (each, more) = (images / members, images % members);
    let first = |m: usize| m * each + m.min(more);
    first(member)..first(member + 1)
}

/// The time of one iteration, in seconds, as measured in a dry run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The step of one image on one device, `T_GPU`.
    pub per_image: f64,
    /// The sum over the devices of a node, `T_CPU`; the same for any number of nodes.
    pub node: f64,
}

/// A job that is to be put on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The number of images.
    pub images: usize,
    /// Devices of a node.
    pub devices_per_node: usize,
    /// Available nodes.
    pub most_nodes: usize,
}

/// The expected time of one iteration on a number of nodes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The nodes.
    pub nodes: usize,
    /// The most images that a device has.
    pub images_per_device: usize,
    /// `T_GPU` times these images.
    pub devices: f64,
    /// `T_CPU`.
    pub node: f64,
    /// `T_Network`.
    pub network: f64,
}

impl Prediction {
    /// `T = T_GPU n + T_CPU + T_Network`.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.devices + self.node + self.network
    }
}

/// The predictions for every number of nodes, and the best of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// For 1, 2, … nodes; up to one image a device, as more nodes would have nothing to do.
    pub table: Vec<Prediction>,
    /// The least total; that of the fewest nodes, where several have it.
    pub best: Prediction,
}

/// Predicts the time of an iteration for every number of nodes that could be used, and chooses the best. `network`
/// gives the seconds of a sum over a number of nodes, such as [`Network::seconds`].
///
/// # Errors
/// [`ComputeError::Argument`] for no images, devices or nodes, and for times that are below zero or
/// not finite.
pub fn plan(job: &Job, times: &Times, network: impl Fn(usize) -> f64) -> Result<Plan> {
    let Job { images, devices_per_node, most_nodes } = *job;
    for (what, value) in [
        ("the number of images", images),
        ("the number of devices of a node", devices_per_node),
        ("the number of nodes", most_nodes),
    ] {
        if value == 0 {
            return Err(ComputeError::argument(what, value, "at least 1"));
        }
    }
    let time = |what, value: f64| {
        let valid = value.is_finite() && value >= 0.0;
        let expected = "a number of seconds, at least 0";
        if valid { Ok(value) } else { Err(ComputeError::argument(what, value, expected)) }
    };
    let per_image = time("the time of an image on a device", times.per_image)?;
    let node = time("the time of the sum over the devices of a node", times.node)?;
    let useful = images.div_ceil(devices_per_node).min(most_nodes);
    let mut table = Vec::with_capacity(useful);
    for nodes in 1..=useful {
        let most = images_per_member(images, nodes * devices_per_node);
        table.push(Prediction {
            nodes,
            images_per_device: most,
            devices: per_image * most as f64,
            node,
            network: time("the time of the network", network(nodes))?,
        });
    }
    let best = table.iter().copied().reduce(|a, b| if b.total() < a.total() { b } else { a });
    let best =
        best.ok_or_else(|| ComputeError::argument("the number of nodes", 0, "at least 1"))?;
    Ok(Plan { table, best })
}

/// The time of a sum over nodes, which grows linearly with their number (Ha 2011, figure 2.12); one
/// node needs no network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Seconds that do not depend on the number of nodes.
    pub latency: f64,
    /// Seconds for each node.
    pub per_node: f64,
}

impl Network {
    /// From one measurement, proportional to the number of nodes.
    #[must_use]
    pub fn proportional(nodes: usize, seconds: f64) -> Self {
        Self { latency: 0.0, per_node: seconds / nodes.max(1) as f64 }
    }

    /// The line through several measurements, numbers of nodes and seconds, that has the least
    /// squared error; none if they are all of one number of nodes.
    #[must_use]
    pub fn fit(measured: &[(usize, f64)]) -> Option<Self> {
        let count = measured.len() as f64;
        let mean = |f: &dyn Fn(&(usize, f64)) -> f64| measured.iter().map(f).sum::<f64>() / count;
        let (nodes, seconds) = (mean(&|m| m.0 as f64), mean(&|m| m.1));
        let spread = mean(&|m| (m.0 as f64 - nodes).powi(2));
        let product = mean(&|m| (m.0 as f64 - nodes) * (m.1 - seconds));
        let per_node = product / spread;
        let line = Self { latency: seconds - per_node * nodes, per_node };
        (spread > 0.0 && line.latency.is_finite()).then_some(line)
    }

    /// The seconds of a sum over this many nodes; never below zero.
    #[must_use]
    pub fn seconds(&self, nodes: usize) -> f64 {
        if nodes <= 1 { 0.0 } else { (self.latency + self.per_node * nodes as f64).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_image_has_one_device(images in 0usize..500, members in 1usize..70) {
            let shares: Vec<_> = (0..members).map(|m| share(images, members, m)).collect();
            prop_assert!(shares.iter().cloned().flatten().eq(0..images));
            let most = shares.iter().map(Range::len).max().unwrap();
            let least = shares.iter().map(Range::len).min().unwrap();
            prop_assert!(most - least <= 1);
            prop_assert_eq!(most, images_per_member(images, members));
            prop_assert!(share(images, members, members).is_empty());
        }

        #[test]
        fn the_best_is_the_least_of_the_table(
            images in 1usize..400, per_node in 1usize..9, most_nodes in 1usize..65,
            per_image in 0.0..10.0, node in 0.0..5.0, latency in 0.0..2.0, derivative in 0.0..2.0,
        ) {
            let job = Job { images, devices_per_node: per_node, most_nodes };
            let network = Network { latency, per_node: derivative };
            let found = plan(&job, &Times { per_image, node }, |n| network.seconds(n)).unwrap();
            // One after the other, as the formula stands.
            let time = |nodes: usize| {
                let images = images.div_ceil(nodes * per_node) as f64;
                let wire = if nodes > 1 { latency + derivative * nodes as f64 } else { 0.0 };
                per_image * images + node + wire
            };
            for nodes in 1..=most_nodes {
                prop_assert!(found.best.total() <= time(nodes) + 1e-9, "{} nodes", nodes);
            }
            for (i, row) in found.table.iter().enumerate() {
                prop_assert_eq!(row.nodes, i + 1);
                prop_assert!((row.total() - time(i + 1)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_slow_network_asks_for_few_nodes() {
        // 40 images on nodes of two devices; an image takes a second.
        let job = Job { images: 40, devices_per_node: 2, most_nodes: 32 };
        let times = Times { per_image: 1.0, node: 0.25 };
        let of = |seconds| {
            let network = Network::proportional(10, seconds);
            plan(&job, &times, |n| network.seconds(n)).unwrap()
        };
        assert_eq!(of(0.0).best.nodes, 20);
        assert_eq!(of(0.0).best.images_per_device, 1);
        assert_eq!(of(0.0).table.len(), 20);
        // 20 / n + n: 4 nodes have 5 images a device and 4 s, 5 nodes 4 and 5 s.
        let found = of(10.0);
        assert_eq!((found.best.nodes, found.best.images_per_device), (4, 5));
        assert_eq!(found.best.total(), 5.0 + 0.25 + 4.0);
        assert_eq!(of(1e6).best.nodes, 1);
        // 11 nodes and 19 have 2 images a device alike: the fewer are taken.
        let found = plan(&Job { most_nodes: 19, ..job }, &times, |_| 0.0).unwrap();
        assert_eq!(found.best.nodes, 10);
        assert_eq!(found.table.last().unwrap().nodes, 19);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let (job, times) = (
            Job { images: 3, devices_per_node: 1, most_nodes: 4 },
            Times { per_image: 1.0, node: 0.0 },
        );
        let refused = |job: Job, times: Times, network: f64, named: &str| {
            let error = plan(&job, &times, |_| network).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        };
        refused(Job { images: 0, ..job }, times, 0.0, "images");
        refused(Job { devices_per_node: 0, ..job }, times, 0.0, "devices");
        refused(Job { most_nodes: 0, ..job }, times, 0.0, "nodes");
        refused(job, Times { per_image: f64::NAN, ..times }, 0.0, "NaN");
        refused(job, Times { node: -1.0, ..times }, 0.0, "-1");
        refused(job, times, f64::INFINITY, "network");
        assert!(plan(&job, &times, |_| 0.0).is_ok());
    }

    #[test]
    fn the_network_is_a_line() {
        let network = Network::fit(&[(2, 1.5), (4, 2.5), (8, 4.5)]).unwrap();
        assert!((network.latency - 0.5).abs() < 1e-12 && (network.per_node - 0.5).abs() < 1e-12);
        assert_eq!(network.seconds(1), 0.0);
        assert!((network.seconds(16) - 8.5).abs() < 1e-12);
        assert_eq!(Network::fit(&[(4, 1.0), (4, 2.0)]), None);
        assert_eq!(Network::fit(&[]), None);
        assert_eq!(Network::proportional(8, 4.0).seconds(4), 2.0);
        assert_eq!(Network { latency: -5.0, per_node: 1.0 }.seconds(2), 0.0);
    }
}
