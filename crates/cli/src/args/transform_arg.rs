//! Transforms of chains.

use std::path::PathBuf;
use std::str::FromStr;

/// A transform file, or the inverse of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransformArg {
    pub(crate) path: PathBuf,
    pub(crate) inverse: bool,
}

impl FromStr for TransformArg {
    type Err = String;

    /// `FILE`, `inverse:FILE`, and ANTs' `[FILE,0]` and `[FILE,1]`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (path, inverse) = if let Some(path) = text.strip_prefix("inverse:") {
            (path, true)
        } else if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            match inner.rsplit_once(',').map(|(p, flag)| (p.trim(), flag.trim())) {
                Some((path, "1")) => (path, true),
                Some((path, "0")) => (path, false),
                _ => return Err("use FILE, inverse:FILE or [FILE,1]".into()),
            }
        } else {
            (text, false)
        };
        if path.is_empty() {
            return Err("the file name is missing".into());
        }
        Ok(Self { path: path.into(), inverse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms() {
        let parse = |t: &str| t.parse::<TransformArg>().map(|a| (a.path, a.inverse));
        assert_eq!(parse("a.mat"), Ok(("a.mat".into(), false)));
        assert_eq!(parse("inverse:a.mat"), Ok(("a.mat".into(), true)));
        assert_eq!(parse("[a,b.mat,1]"), Ok(("a,b.mat".into(), true)));
        assert_eq!(parse("[a.mat, 0]"), Ok(("a.mat".into(), false)));
        for bad in ["", "inverse:", "[a.mat]", "[a.mat,2]", "[,1]"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
