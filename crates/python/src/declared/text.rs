//! What is declared, as text: signatures, documentation, stubs.

use super::{Declared, Kind, Parameter};
use std::fmt::Write as _;

/// What `progress` is, which no command line has.
const PROGRESS: &str = "True for a bar, or a function that is called with a dict for each step: its `kind` is `stage`, \
                        `step`, `end`, `frame` or `line`";

/// By which a job tells what it would do.
const DRY_RUN: &str = "dry_run";
/// The same with its type, where the job is done, and where it is not.
const RUNS: &str = "dry_run: Literal[False] = False";
const PLANS: &str = "dry_run: Literal[True]";
/// What a function raises, and when.
const RAISES: [(&str, &str); 4] = [
    ("OptionError", "A keyword argument that is unknown, out of its range, or would be ignored."),
    ("InputError", "An image, a file or another input that cannot be used."),
    ("DeviceError", "A device that is not there, or that failed."),
    ("VoxalignError", "What else goes wrong, such as memory that runs out."),
];

impl Parameter {
    /// The default as it is written in a signature.
    pub(super) fn written(&self) -> &'static str {
        match self.kind {
            Kind::Switch(true) => "True",
            Kind::Switch(false) => "False",
            _ => "None",
        }
    }

    /// The type of its values.
    fn hint(&self) -> String {
        let of = match &self.kind {
            Kind::Switch(_) => return "bool".to_owned(),
            Kind::Names(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                format!("Literal[{}]", names.join(", "))
            }
            Kind::Path => "PathLike".to_owned(),
            Kind::Paths => "PathLike | Sequence[Any]".to_owned(),
            Kind::Image => "ImageLike".to_owned(),
            Kind::Transforms => "TransformLike | Sequence[TransformLike]".to_owned(),
            Kind::Integer => "int".to_owned(),
            Kind::Value => "Value".to_owned(),
        };
        if self.required { of } else { format!("{of} | None") }
    }

    /// What stands in a list of parameters; with types in stubs.
    fn listed(&self, with_type: bool) -> String {
        if with_type && self.name == DRY_RUN {
            return RUNS.to_owned();
        }
        match (with_type, self.required) {
            (false, true) => self.name.clone(),
            (false, false) => format!("{}={}", self.name, self.written()),
            (true, true) => format!("{}: {}", self.name, self.hint()),
            (true, false) => format!("{}: {} = {}", self.name, self.hint(), self.written()),
        }
    }
}

impl Declared {
    /// All parameters in their order, those by name alone after a star.
    fn listed(&self, with_type: bool) -> Vec<String> {
        let of = |positional: bool| self.shown().filter(move |p| p.positional == positional);
        let progress = match with_type {
            true => "progress: bool | Callable[[dict[str, Any]], object] | None = None",
            false => "progress=None",
        };
        // What is required by its place stands before what is not.
        let (needed, other): (Vec<_>, Vec<_>) = of(true).partition(|p| p.required);
        let places = needed.into_iter().chain(other).map(|p| p.listed(with_type));
        let names = of(false).map(|p| p.listed(with_type));
        places.chain(["*".to_owned()]).chain(names).chain([progress.to_owned()]).collect()
    }

    /// The signature, after which a documentation may follow; `before` stands before the first parameter.
    pub(crate) fn signature(&self, before: &str) -> String {
        format!("{}({before}{})", self.name, self.listed(false).join(", "))
    }

    /// The documentation.
    pub(crate) fn documentation(&self) -> String {
        let mut text = format!("{}.\n\nParameters\n----------\n", self.about);
        let places = self.shown().filter(|p| p.positional);
        for p in places.chain(self.shown().filter(|p| !p.positional)) {
            let default =
                p.default.as_ref().map_or_else(String::new, |d| format!(" [default: {d}]"));
            let alias = p.alias.as_ref().map_or_else(String::new, |a| format!(" (also `{a}`)"));
            let _ = write!(text, "{} : {}\n    {}{alias}{default}\n", p.name, p.hint(), p.help);
        }
        let _ = write!(text, "progress : bool or callable\n    {PROGRESS}\n");
        let (of, what) = self.gives;
        let _ = write!(text, "\nReturns\n-------\n{of}\n    {what}\n\nRaises\n------\n");
        let has_device = self.parameters.iter().any(|p| p.name == "device");
        for (error, when) in RAISES {
            if error != "DeviceError" || has_device {
                let _ = write!(text, "{error}\n    {when}\n");
            }
        }
        text
    }

    /// The function in a stub file.
    pub(crate) fn stub(&self) -> String {
        let parameters: Vec<_> =
            self.listed(true).into_iter().map(|p| format!("    {p},\n")).collect();
        let text = self.documentation();
        let text: Vec<_> = text
            .lines()
            .map(|line| match line {
                "" => String::new(),
                line => format!("    {line}"),
            })
            .collect();
        let text = text.join("\n").trim_start().to_owned();
        let whole = format!(
            "def {}(\n{}) -> {}:\n    r\"\"\"{text}\n    \"\"\"\n",
            self.name,
            parameters.concat(),
            self.gives.0
        );
        if self.named(DRY_RUN).is_none() {
            return whole;
        }
        let parameters = parameters.concat().replace(RUNS, PLANS);
        let plan = format!("def {}(\n{parameters}) -> dict[str, Any]: ...\n", self.name);
        format!("@overload\n{plan}@overload\n{whole}")
    }
}
