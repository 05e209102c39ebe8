//! Values that are not in the memory of the host.

use crate::error::Result;
use std::any::Any;
use std::fmt::Debug;

/// Values, x fastest, in another memory than that of the host, such as that of a GPU. They do not change.
pub trait Elsewhere<T>: Debug + Send + Sync {
    /// By which whoever knows the memory finds its own.
    fn as_any(&self) -> &dyn Any;

    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// Memory that runs out, what fails where they are.
    fn bring(&self) -> Result<Vec<T>>;

    /// Whether they are these, of the same number; none where that cannot be found out without bringing them.
    fn holds(&self, values: &Values<'_, T>) -> Option<bool>;
}

/// Values to compare others with.
#[derive(Debug)]
pub enum Values<'a, T> {
    /// On the host.
    Here(&'a [T]),
    /// In another memory.
    Elsewhere(&'a dyn Elsewhere<T>),
}
