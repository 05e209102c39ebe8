//! A cellular nonlinear network, simulated: the machine of appendix B, on which an operation on images is a [`Template`].
//!
//! Each pixel is a cell with a state x, an input u and an output y = f(x) (equation B.2, from -1, white, to 1, black). Under a template
//! dx/dt = -x + Σ A y + Σ B u + z (B.1), the sums over the cell and its eight neighbours.
//!
//! Of table B.1 one value cannot be: a boundary of -1 for the erosion takes points at the border of the image from a set as if what is beyond were
//! outside, and puts them into the inner list, which (3.7) does not. It must be 1, as [`ERODE4`] has it.

use super::Machine;
use crate::error::{Result, SegmentError, same_length};
use crate::lattice::{Lattice, Neighbourhood};
use voxalign_image::memory;

/// One operation: values for a cell itself, its neighbours by a side, and those by a corner (equation B.3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Template {
    /// The weights of outputs.
    pub a: [f64; 3],
    /// The weights of inputs.
    pub b: [f64; 3],
    /// The bias.
    pub z: f64,
    /// The inputs and outputs beyond the border.
    pub boundary: f64,
}

/// Black where state and input are.
pub const AND: Template =
    Template { a: [2.0, 0.0, 0.0], b: [1.0, 0.0, 0.0], z: -1.0, boundary: 0.0 };
/// Black where the state is and the input is not.
pub const AND_NOT: Template =
    Template { a: [2.0, 0.0, 0.0], b: [-1.0, 0.0, 0.0], z: -1.0, boundary: 0.0 };
/// Black where state or input are.
pub const OR: Template = Template { a: [2.0, 0.0, 0.0], b: [1.0, 0.0, 0.0], z: 1.0, boundary: 0.0 };
/// Black where the input is, there or beside.
pub const DILATE4: Template = Template { a: [0.0; 3], b: [1.0, 1.0, 0.0], z: 4.0, boundary: -1.0 };
/// Black where the input is, there and beside.
pub const ERODE4: Template = Template { a: [0.0; 3], b: [1.0, 1.0, 0.0], z: -4.0, boundary: 1.0 };
/// [`DILATE4`] for eight neighbours.
pub const DILATE8: Template = Template { a: [0.0; 3], b: [1.0; 3], z: 8.0, boundary: -1.0 };
/// [`ERODE4`] for eight neighbours.
pub const ERODE8: Template = Template { a: [0.0; 3], b: [1.0; 3], z: -8.0, boundary: 1.0 };

/// How long an operation is given, in time constants of a cell: all templates come to their ends within it (section 3.8.1).
pub const TIME: f64 = 2.0;

/// How many steps the equation is solved in, by the midpoint rule.
const STEPS: usize = 32;

/// The network.
#[derive(Debug, Clone)]
pub struct Network {
    lattice: Lattice,
    margin: f64,
}

impl Network {
    /// For the images of a lattice in the plane.
    ///
    /// # Errors
    /// [`SegmentError::Neighbourhood`] for a volume.
    pub fn new(lattice: &Lattice) -> Result<Self> {
        if !lattice.is_2d() {
            let (neighbourhood, dims) = (Neighbourhood::Four, lattice.dims());
            return Err(SegmentError::Neighbourhood { neighbourhood, dims });
        }
        Ok(Self { lattice: lattice.clone(), margin: f64::INFINITY })
    }

    /// The least distance from 0 at which any cell has been read: what noise would have to exceed for another result.
    #[must_use]
    pub fn margin(&self) -> f64 {
        self.margin
    }

    /// The states of all cells after a time, from given states under given inputs: one value a pixel.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
    pub fn run(
        &self,
        template: &Template,
        state: &[f64],
        input: &[f64],
        time: f64,
    ) -> Result<Vec<f64>> {
        same_length("the state", state.len(), self.lattice.len())?;
        same_length("the input", input.len(), self.lattice.len())?;
        let mut states = memory::copied(state)?;
        let mut middle = memory::copied(state)?;
        let step = time / STEPS as f64;
        for _ in 0..STEPS {
            for (point, to) in middle.iter_mut().enumerate() {
                *to = states[point] + step / 2.0 * self.rate(template, &states, input, point);
            }
            let mut next = memory::room(states.len())?;
            next.extend(
                (0..states.len())
                    .map(|point| states[point] + step * self.rate(template, &middle, input, point)),
            );
            states = next;
        }
        Ok(states)
    }

    /// dx/dt of a cell.
    fn rate(&self, template: &Template, states: &[f64], input: &[f64], point: usize) -> f64 {
        let place = self.lattice.place(point);
        let mut rate = template.z - states[point];
        for y in -1isize..=1 {
            for x in -1isize..=1 {
                let kind = (x.abs() + y.abs()) as usize;
                let [output, input] = match self.lattice.moved(place, [x, y, 0]) {
                    Some(other) => [states[other].clamp(-1.0, 1.0), input[other]],
                    None => [template.boundary; 2],
                };
                rate += template.a[kind] * output + template.b[kind] * input;
            }
        }
        rate
    }

    /// An operation on images that are black and white, read after [`TIME`].
    fn apply(&mut self, template: &Template, state: &[f64], input: &[f64]) -> Result<Vec<f64>> {
        let mut states = self.run(template, state, input, TIME)?;
        for state in &mut states {
            self.margin = self.margin.min(state.abs());
            *state = if *state > 0.0 { 1.0 } else { -1.0 };
        }
        Ok(states)
    }

    fn is_four(&self) -> bool {
        self.lattice.neighbourhood() == Neighbourhood::Four
    }
}

impl Machine for Network {
    type Set = Vec<f64>;

    fn load(&mut self, set: &[bool]) -> Result<Vec<f64>> {
        same_length("the set", set.len(), self.lattice.len())?;
        Ok(memory::collected(set.iter().map(|s| if *s { 1.0 } else { -1.0 }))?)
    }

    fn store(&mut self, set: &Vec<f64>) -> Result<Vec<bool>> {
        Ok(memory::collected(set.iter().map(|s| *s > 0.0))?)
    }

    fn and(&mut self, a: &Vec<f64>, b: &Vec<f64>) -> Result<Vec<f64>> {
        self.apply(&AND, a, b)
    }

    fn or(&mut self, a: &Vec<f64>, b: &Vec<f64>) -> Result<Vec<f64>> {
        self.apply(&OR, a, b)
    }

    fn and_not(&mut self, a: &Vec<f64>, b: &Vec<f64>) -> Result<Vec<f64>> {
        self.apply(&AND_NOT, a, b)
    }

    fn dilated(&mut self, set: &Vec<f64>) -> Result<Vec<f64>> {
        let grey = memory::filled(set.len(), 0.0)?;
        self.apply(if self.is_four() { &DILATE4 } else { &DILATE8 }, &grey, set)
    }

    fn eroded(&mut self, set: &Vec<f64>) -> Result<Vec<f64>> {
        let grey = memory::filled(set.len(), 0.0)?;
        self.apply(if self.is_four() { &ERODE4 } else { &ERODE8 }, &grey, set)
    }

    fn is_empty(&mut self, set: &Vec<f64>) -> bool {
        set.iter().all(|s| *s < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    fn network(kind: Neighbourhood) -> Network {
        Network::new(&Lattice::new([9, 7, 1], kind).unwrap()).unwrap()
    }

    /// Every template does what its name says, and is far from the other answer when it is read.
    #[test]
    fn templates_are_the_operations_of_their_names() {
        let mut random = Random(5);
        for kind in [Neighbourhood::Four, Neighbourhood::Eight] {
            let mut network = network(kind);
            let lattice = network.lattice.clone();
            for _ in 0..8 {
                let [a, b]: [Vec<bool>; 2] =
                    [2, 3].map(|n| (0..lattice.len()).map(|_| random.below(n) == 0).collect());
                let [sa, sb] = [&a, &b].map(|s| network.load(s).unwrap());
                let near = |set: &[bool], p, is| lattice.neighbours(p).any(|n| set[n] == is);
                let all = [
                    network.and(&sa, &sb).unwrap(),
                    network.or(&sa, &sb).unwrap(),
                    network.and_not(&sa, &sb).unwrap(),
                    network.dilated(&sb).unwrap(),
                    network.eroded(&sa).unwrap(),
                ];
                for p in 0..lattice.len() {
                    let found = all.each_ref().map(|s| s[p] > 0.0);
                    let dilated = b[p] || near(&b, p, true);
                    let eroded = a[p] && !near(&a, p, false);
                    assert_eq!(found, [a[p] && b[p], a[p] || b[p], a[p] && !b[p], dilated, eroded]);
                }
            }
            assert!(network.margin() > 0.8, "{}", network.margin());
        }
    }

    /// A state of 1 under an input of -1 falls as 2 - eᵗ, and then towards -4.
    #[test]
    fn states_follow_the_equation() {
        let network = network(Neighbourhood::Four);
        let [black, white] = [vec![1.0; 63], vec![-1.0; 63]];
        let at = |time| network.run(&AND, &black, &white, time).unwrap()[10];
        assert!((at(1.0) - (2.0 - 1f64.exp())).abs() < 1e-3, "{}", at(1.0));
        let turn = 3f64.ln();
        let expected = -4.0 + 3.0 * (turn - 2.0).exp();
        assert!((at(2.0) - expected).abs() < 1e-2, "{}", at(2.0));
    }

    /// With the boundary of table B.1 the border of the image erodes a set that fills it.
    #[test]
    fn the_boundary_of_the_table_erodes_from_beyond_the_image() {
        let mut network = network(Neighbourhood::Four);
        let all = vec![1.0; 63];
        assert!(network.eroded(&all).unwrap().iter().all(|s| *s > 0.0));
        let given = Template { boundary: -1.0, ..ERODE4 };
        let eroded = network.apply(&given, &all, &all).unwrap();
        assert_eq!(eroded.iter().filter(|s| **s > 0.0).count(), 7 * 5);
        let volume = Lattice::new([4, 4, 4], Neighbourhood::Six).unwrap();
        assert!(Network::new(&volume).is_err());
    }
}
