//! What ranks that are threads of one process have in common.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use voxalign_compute::comm::{CommError, Communicator, Result};

type Shelf = HashMap<u64, Arc<dyn Any + Send + Sync>>;

fn shelf() -> MutexGuard<'static, Shelf> {
    static SHELF: LazyLock<Mutex<Shelf>> = LazyLock::new(Mutex::default);
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that this process alone has.
fn process() -> u64 {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    *PROCESS
}

/// Whether all ranks are threads of one process.
pub(super) fn one_process(ranks: &Communicator) -> Result<bool> {
    let all = ranks.all_gather(&[process()])?;
    Ok(all.iter().all(|other| other[..] == [process()]))
}

/// That ranks do not reach each other's memory.
pub(super) fn unreachable() -> CommError {
    CommError::Unavailable(
        "ranks read each other's memory where they are threads of one process with devices of one kind, or processes of one machine; \
         use the strategy halo or list"
            .into(),
    )
}

/// Gives all ranks what each of them has, where they share memory.
pub(super) fn exchange<T: Any + Send + Sync>(
    ranks: &Communicator,
    own: &Arc<T>,
) -> Result<Vec<Arc<T>>> {
    let key = {
        let mut shelf = shelf();
        let key = (0..).find(|key| !shelf.contains_key(key)).unwrap_or(u64::MAX);
        shelf.insert(key, Arc::clone(own) as Arc<dyn Any + Send + Sync>);
        key
    };
    let found = ranks.all_gather(&[process(), key]).and_then(|keys| {
        let of = |key: &Vec<u64>| match key[..] {
            [other, key] if other == process() => {
                shelf().get(&key).cloned().and_then(|found| found.downcast().ok())
            }
            _ => None,
        };
        let all: Option<Vec<Arc<T>>> = keys.iter().map(of).collect();
        ranks.agree(all.ok_or_else(unreachable))
    });
    shelf().remove(&key);
    found
}
