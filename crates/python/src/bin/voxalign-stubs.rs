//! Writes the stub file of the Python module to standard output.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(voxalign_native::stubs::text().as_bytes())
}
