//! What all kinds of record have in common.

/// The text of a record.
macro_rules! json {
    ($record:ident) => {
        impl $record {
            /// The record as indented JSON with a newline at its end.
            #[must_use]
            pub fn to_json(&self) -> String {
                // All keys are strings or whole numbers and no field's serialiser fails, so there is always a text.
                serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
            }
        }
    };
}

/// Operations of records that end with a verdict.
macro_rules! judged {
    ($record:ident) => {
        json!($record);

        impl $crate::record::Judged for $record {
            fn measured(
                &mut self,
                timings: std::collections::BTreeMap<String, f64>,
                peak_memory_bytes: Option<u64>,
            ) {
                (self.timings, self.peak_memory_bytes) = (timings, peak_memory_bytes);
            }

            fn wrote(&mut self, outputs: Vec<$crate::record::OutputRecord>) {
                self.outputs = outputs;
            }

            fn verdict(&self) -> &voxalign_register::Verdict {
                &self.verdict
            }

            fn text(&self) -> String {
                self.to_json()
            }
        }
    };
}

/// A record that begins with where its result is from and ends with a verdict: its own fields stand between the
/// parameters and the timings, those of a second list before the outputs.
macro_rules! record {
    ($(#[$about:meta])* $record:ident { $($own:tt)* } $({ $($late:tt)* })?) => {
        $(#[$about])*
        pub struct $record {
            /// Program, command, machine and inputs.
            #[serde(flatten)]
            pub provenance: $crate::record::Provenance,
            /// All parameters, also those left at their default.
            pub parameters: serde_json::Value,
            $($own)*
            /// Wall time of each part in seconds.
            pub timings: std::collections::BTreeMap<String, f64>,
            /// The peak memory of the process, bytes, where the system reports it.
            pub peak_memory_bytes: Option<u64>,
            $($($late)*)?
            /// The files that were written.
            pub outputs: Vec<$crate::record::OutputRecord>,
            /// Whether the result can be used, and why.
            pub verdict: voxalign_register::Verdict,
        }

        judged!($record);

        impl $record {
            /// The common part, from which the sections of all pages are made.
            pub(crate) fn run(&self) -> $crate::record::RunRecord {
                $crate::record::RunRecord {
                    parameters: self.parameters.clone(),
                    timings: self.timings.clone(),
                    peak_memory_bytes: self.peak_memory_bytes,
                    outputs: self.outputs.clone(),
                    verdict: self.verdict.clone(),
                    ..self.provenance.clone().into_run()
                }
            }
        }
    };
}

/// A record that begins with a run and its grid.
macro_rules! begun {
    ($record:ident $($field:ident: $value:expr)?) => {
        impl $record {
            /// A record that begins with program, machine, inputs and parameters of another, and has no results.
            #[must_use]
            pub fn new(
                mut run: $crate::record::RunRecord,
                grid: $crate::record::GridRecord,
            ) -> Self {
                let parameters = std::mem::take(&mut run.parameters);
                let provenance = $crate::record::Provenance::from(run);
                Self { provenance, parameters, grid, $($field: $value,)? ..Self::default() }
            }
        }
    };
}
