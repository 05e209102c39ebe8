//! Streams that are late: nothing is done before somebody waits for it, by queues, or by the handle that made them.

use voxalign_compute::cuda::Late;

use crate::devices::emulated_late;

macro_rules! turns {
    ([] turns [$($check:ident)*] [$($results:ident)*]) => {
        /// What a stream does not wait for has not happened, and what it should have waited for before it went on
        /// happens too late.
        #[test]
        fn emulated_streams_that_are_late() {
            use voxalign_conformance::turns;
            for late in [Late::Forks, Late::First] {
                let Some(cuda) = emulated_late(late) else { return };
                $(turns::$check(&cuda);)*
                $(drop(turns::$results(&cuda));)*
            }
        }
    };
    ($($other:tt)*) => {};
}
voxalign_conformance::each!([turns]);
