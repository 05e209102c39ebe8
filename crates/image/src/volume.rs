//! Scalar volumes and label maps.

use crate::elsewhere::{Brought, Compared, Elsewhere, same};
use crate::error::{ImageError, Result};
use crate::grid::Grid;
use crate::memory;
use std::sync::Arc;

/// A scalar image: one contiguous array, x fastest, unpadded, with its [`Grid`].
///
/// The values may be [elsewhere](Elsewhere), such as in the memory of a GPU. They are brought to the host where they are
/// asked for here; [`bring`](Self::bring) does so before, with an error where that fails.
#[derive(Debug, Clone)]
pub struct Volume<T> {
    grid: Grid,
    store: Store<T>,
}

/// Where values are.
#[derive(Debug, Clone)]
enum Store<T> {
    Here(Vec<T>),
    /// With what was brought of them, which copies share.
    Elsewhere(Arc<dyn Elsewhere<T>>, Arc<Brought<T>>),
}

/// An image whose values name regions; 0 is the background.
pub type LabelMap = Volume<i32>;

/// The end of whoever needs values that [`Volume::bring`] does not bring.
fn not_brought<V>(why: &ImageError) -> V {
    panic!("an image was needed on the host: {why}")
}

/// Values that are elsewhere are compared there; where that cannot be done, the images are not the same.
impl<T: PartialEq> PartialEq for Volume<T> {
    fn eq(&self, other: &Self) -> bool {
        self.grid == other.grid && same(self.compared(), other.compared())
    }
}

impl<T> Volume<T> {
    /// An image from its grid and its values, x fastest.
    ///
    /// # Errors
    /// [`ImageError::LengthMismatch`] where the number of values is not that of the grid.
    pub fn new(grid: Grid, data: Vec<T>) -> Result<Self> {
        if grid.len() != data.len() {
            return Err(ImageError::LengthMismatch { expected: grid.len(), found: data.len() });
        }
        Ok(Self { grid, store: Store::Here(data) })
    }

    /// An image from its grid and its values, x fastest, which are elsewhere.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn of_elsewhere(grid: Grid, values: Arc<dyn Elsewhere<T>>) -> Result<Self> {
        if grid.len() != values.len() {
            return Err(ImageError::LengthMismatch { expected: grid.len(), found: values.len() });
        }
        Ok(Self { grid, store: Store::Elsewhere(values, Brought::nothing()) })
    }

    /// The values where they are, unless that is the host.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere<T>>> {
        match &self.store {
            Store::Here(_) => None,
            Store::Elsewhere(values, _) => Some(values),
        }
    }

    /// Brings the values to the host, unless they are there. They stay where they are as well.
    ///
    /// # Errors
    /// Memory that runs out, what fails where they are.
    pub fn bring(&self) -> Result<&[T]> {
        match &self.store {
            Store::Here(data) => Ok(data),
            Store::Elsewhere(values, brought) => brought.all(&**values),
        }
    }

    /// Where its values are, to be compared.
    pub(crate) fn compared(&self) -> Compared<'_, T> {
        match &self.store {
            Store::Here(data) => (Some(data), None),
            Store::Elsewhere(values, brought) => (brought.here(), Some(values)),
        }
    }

    /// The geometry.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.grid.dims()
    }

    /// The values, x fastest.
    ///
    /// # Panics
    /// Where they are elsewhere and cannot be brought; [`bring`](Self::bring) tells.
    #[must_use]
    pub fn data(&self) -> &[T] {
        self.bring().unwrap_or_else(|e| not_brought(&e))
    }

    /// The values on the host, where they are from now on alone.
    fn settled(&mut self) -> &mut Vec<T> {
        if let Store::Elsewhere(values, brought) = &mut self.store {
            let data = Brought::taken(brought).map_or_else(|| values.bring(), Ok);
            self.store = Store::Here(data.unwrap_or_else(|e| not_brought(&e)));
        }
        match &mut self.store {
            Store::Here(data) => data,
            Store::Elsewhere(..) => unreachable!("the values were brought"),
        }
    }

    /// The values for writing.
    ///
    /// # Panics
    /// As of [`data`](Self::data).
    pub fn data_mut(&mut self) -> &mut [T] {
        self.settled()
    }

    /// Grid and values.
    ///
    /// # Panics
    /// As of [`data`](Self::data).
    #[must_use]
    pub fn into_parts(mut self) -> (Grid, Vec<T>) {
        let data = std::mem::take(self.settled());
        (self.grid, data)
    }

    /// The same values on another grid of the same sizes (a corrected or moved header).
    ///
    /// # Errors
    /// [`ImageError::GridMismatch`] where the sizes differ.
    pub fn with_grid(self, grid: Grid) -> Result<Self> {
        if grid.dims() != self.grid.dims() {
            let (first, second) = (self.grid.to_string(), grid.to_string());
            return Err(ImageError::GridMismatch { first, second });
        }
        Ok(Self { grid, ..self })
    }

    /// The value at an index, or `None` outside.
    #[must_use]
    pub fn get(&self, x: usize, y: usize, z: usize) -> Option<&T> {
        let [nx, ny, nz] = self.dims();
        (x < nx && y < ny && z < nz).then(|| &self.data()[(z * ny + y) * nx + x])
    }

    /// A new image with `f` of every value.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_map<U>(&self, f: impl FnMut(&T) -> U) -> Result<Volume<U>> {
        let data = memory::collected(self.bring()?.iter().map(f))?;
        Volume::new(self.grid.clone(), data)
    }

    /// A new image with `f` of every value; [`try_map`](Self::try_map) where memory may run out.
    pub fn map<U>(&self, f: impl FnMut(&T) -> U) -> Volume<U> {
        let data = self.data().iter().map(f).collect();
        Volume { grid: self.grid.clone(), store: Store::Here(data) }
    }
}

impl<T: Clone> Volume<T> {
    /// An image of one value everywhere.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_filled(grid: Grid, value: T) -> Result<Self> {
        let data = memory::filled(grid.len(), value)?;
        Self::new(grid, data)
    }

    /// A copy; values that are elsewhere are shared, and what is brought of them.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self> {
        match &self.store {
            Store::Here(data) => Self::new(self.grid.clone(), memory::copied(data)?),
            Store::Elsewhere(values, brought) => {
                let store = Store::Elsewhere(Arc::clone(values), Arc::clone(brought));
                Ok(Self { grid: self.grid.clone(), store })
            }
        }
    }

    /// An image of one value everywhere; [`try_filled`](Self::try_filled) where memory may run out.
    #[must_use]
    pub fn filled(grid: Grid, value: T) -> Self {
        let data = vec![value; grid.len()];
        Self { grid, store: Store::Here(data) }
    }
}

impl<T> Volume<T> {
    /// An image whose values are a function of the index (x, y, z).
    pub fn from_fn(grid: Grid, mut f: impl FnMut(usize, usize, usize) -> T) -> Self {
        let [nx, ny, nz] = grid.dims();
        let mut data = Vec::with_capacity(grid.len());
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    data.push(f(x, y, z));
                }
            }
        }
        Self { grid, store: Store::Here(data) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Values;
    use std::any::Any;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn x_is_fastest() {
        let grid = Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap();
        let v = Volume::from_fn(grid.clone(), |x, y, z| 100 * z + 10 * y + x);
        assert_eq!(v.data()[1], 1);
        assert_eq!(v.data()[3], 10);
        assert_eq!(v.data()[12], 100);
        assert_eq!(v.get(2, 3, 4), Some(&432));
        assert_eq!(v.get(3, 0, 0), None);
        assert!(Volume::new(grid, vec![0; 59]).is_err());
        assert_eq!(v.map(|a| a * 2).data()[1], 2);
    }

    /// Values of another place, which counts how often they were brought.
    #[derive(Debug)]
    struct Away(Vec<i32>, AtomicUsize, bool);

    impl Elsewhere<i32> for Away {
        fn as_any(&self) -> &dyn Any {
            self
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn bring(&self) -> Result<Vec<i32>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            match self.2 {
                true => Ok(self.0.clone()),
                false => Err(ImageError::Elsewhere("it is gone".into())),
            }
        }

        fn holds(&self, values: &Values<'_, i32>) -> Option<bool> {
            match values {
                Values::Here(values) => Some(*values == self.0),
                Values::Elsewhere(_) => None,
            }
        }
    }

    #[test]
    fn values_that_are_elsewhere_are_brought_once_and_only_where_they_are_needed() {
        let grid = Grid::axis_aligned([3, 2, 1], [1.0; 3]).unwrap();
        let here = Volume::new(grid.clone(), (0..6).collect()).unwrap();
        let away = Arc::new(Away((0..6).collect(), AtomicUsize::new(0), true));
        let brought = || away.1.load(Ordering::Relaxed);
        let there = Volume::of_elsewhere(grid.clone(), away.clone()).unwrap();
        assert_eq!([there == here, here == there], [true; 2]);
        assert_eq!(there.grid(), here.grid());
        let copy = there.try_clone().unwrap();
        assert_eq!(brought(), 0);
        assert_eq!((there.data(), there.get(1, 1, 0)), (here.data(), Some(&4)));
        assert_eq!(brought(), 1);
        // Copies share what was brought, and are one in the other memory.
        assert!(there == copy && copy.data() == here.data());
        assert_eq!(brought(), 1);
        let mut changed = copy.try_clone().unwrap();
        changed.data_mut()[0] = 7;
        assert!(changed != here && changed.elsewhere().is_none() && copy == here);
        assert_eq!(brought(), 2);
        drop(copy);
        assert_eq!(there.into_parts().1, here.data());
        assert_eq!(brought(), 2);
        assert!(
            Volume::of_elsewhere(grid.clone(), Arc::new(Away(vec![1], 0.into(), true))).is_err()
        );
        let gone = Volume::of_elsewhere(grid, Arc::new(Away(vec![0; 6], 0.into(), false))).unwrap();
        assert!(gone.bring().is_err() && gone.try_map(|v| *v).is_err());
    }

    #[test]
    fn nothing_is_brought_to_be_compared() {
        let grid = Grid::axis_aligned([3, 2, 1], [1.0; 3]).unwrap();
        let values = [false, true]
            .map(|is_there| Arc::new(Away((0..6).collect(), AtomicUsize::new(0), is_there)));
        let of = |i: usize| Volume::of_elsewhere(grid.clone(), values[i].clone()).unwrap();
        // Nobody compares two that are elsewhere, unless they are one.
        assert!(of(0) == of(0) && of(0) != of(1) && of(1) != of(0));
        assert!(of(0) == Volume::new(grid.clone(), (0..6).collect()).unwrap());
        assert!(values.iter().all(|v| v.1.load(Ordering::Relaxed) == 0));
    }
}
