//! Values of options that are chosen by name: similarities, models, solvers.

/// A set of alternatives, each with one name, the same at the command line, in records and in reports.
///
/// ```
/// use voxalign_register::Choice;
/// use voxalign_register::diffeo::DeformModel;
///
/// assert_eq!(DeformModel::named("lddmm"), Some(DeformModel::Lddmm));
/// assert!(DeformModel::ALL.iter().any(|c| c.name() == "greedy"));
/// ```
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All alternatives, in the order in which they are listed.
    const ALL: &'static [Self];

    /// The name.
    fn name(self) -> &'static str;

    /// What it is, in one line.
    fn summary(self) -> &'static str;

    /// The alternative of a name.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.name() == name)
    }
}

/// Implements [`Choice`]: `Variant "name" "summary"` for every variant.
#[macro_export]
macro_rules! choices {
    ($type:ident: $($variant:ident $name:literal $summary:literal),+ $(,)?) => {
        impl $crate::Choice for $type {
            const ALL: &'static [Self] = &[$($type::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name),+
                }
            }

            fn summary(self) -> &'static str {
                match self {
                    $($type::$variant => $summary),+
                }
            }
        }
    };
}
pub(crate) use choices;
