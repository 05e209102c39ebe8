//! What documentation says.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The first paragraph, as one line without a full stop at its end.
pub(crate) fn summary(attributes: &[Attribute]) -> String {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        let Meta::NameValue(is) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &is.value else { continue };
        let line = line.value();
        let line = line.trim();
        if line.is_empty() && !words.is_empty() {
            break;
        }
        if !line.is_empty() {
            words.push(line.to_owned());
        }
    }
    let text = words.join(" ");
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}
