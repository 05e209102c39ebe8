//! Messages that name options.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeMap;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Result, Token};

/// A format string with its arguments.
pub(crate) struct Message {
    format: LitStr,
    places: Vec<Expr>,
    names: Vec<(Ident, Expr)>,
}

impl Parse for Message {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let format = input.parse()?;
        let (mut places, mut names) = (Vec::new(), Vec::new());
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            if input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                let name = input.parse()?;
                input.parse::<Token![=]>()?;
                names.push((name, input.parse()?));
            } else {
                places.push(input.parse()?);
            }
        }
        Ok(Self { format, places, names })
    }
}

/// A piece of a format string.
enum Piece {
    Words(String),
    Option(String, Option<String>),
}

/// The option that stands in backticks, with a value where one is meant; none for what is no option.
fn option(quoted: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match quoted.split_once(" = ") {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (quoted, None),
    };
    let shape = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let placeholder = name.starts_with('{') && name.ends_with('}');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    (placeholder || (begins && name.chars().all(shape))).then(|| (name.to_owned(), value))
}

fn pieces(format: &str) -> Vec<Piece> {
    let mut parts = format.split('`');
    let mut words = parts.next().unwrap_or_default().to_owned();
    let mut all = Vec::new();
    while let Some(quoted) = parts.next() {
        let Some(rest) = parts.next() else {
            words.push('`');
            words.push_str(quoted);
            break;
        };
        match option(quoted) {
            Some((name, value)) => {
                all.push(Piece::Words(std::mem::take(&mut words)));
                all.push(Piece::Option(name, value));
            }
            None => {
                words.push('`');
                words.push_str(quoted);
                words.push('`');
            }
        }
        words.push_str(rest);
    }
    all.push(Piece::Words(words));
    all
}

/// Gives places that have no number theirs, and all of them names; tells which names are used.
fn numbered(format: &str, next: &mut usize, used: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter);
        if letter != '{' {
            continue;
        }
        if letters.peek() == Some(&'{') {
            out.extend(letters.next());
            continue;
        }
        let mut name = String::new();
        while let Some(&c) = letters.peek().filter(|c| !matches!(c, '}' | ':')) {
            name.push(c);
            letters.next();
        }
        if name.is_empty() {
            name = next.to_string();
            *next += 1;
        }
        if name.chars().all(|c| c.is_ascii_digit()) {
            name = format!("place{name}");
        }
        out.push_str(&name);
        used.push(name);
    }
    out
}

pub(crate) fn expand(message: &Message) -> TokenStream {
    let span = message.format.span();
    let mut bound: BTreeMap<String, (Ident, &Expr)> = BTreeMap::new();
    for (i, place) in message.places.iter().enumerate() {
        bound.insert(
            format!("place{i}"),
            (format_ident!("place{}", i, span = Span::mixed_site()), place),
        );
    }
    for (name, value) in &message.names {
        bound.insert(
            name.to_string(),
            (format_ident!("named_{}", name, span = Span::mixed_site()), value),
        );
    }
    let mut next = 0;
    let mut formatted = |text: &str| {
        let mut used = Vec::new();
        let text = numbered(text, &mut next, &mut used);
        used.sort();
        used.dedup();
        let given = used.iter().filter_map(|name| {
            let (ident, _) = bound.get(name)?;
            let name = Ident::new(name, Span::call_site());
            Some(quote!(#name = #ident))
        });
        let literal = LitStr::new(&text, span);
        quote!(::std::format!(#literal #(, #given)*))
    };
    let parts: Vec<_> = pieces(&message.format.value())
        .into_iter()
        .filter(|piece| !matches!(piece, Piece::Words(words) if words.is_empty()))
        .map(|piece| match piece {
            Piece::Words(words) => {
                let words = formatted(&words);
                quote!(::voxalign_options::Part::Words(#words))
            }
            Piece::Option(name, value) => {
                let name = formatted(&name);
                let value = match value {
                    Some(value) => {
                        let value = formatted(&value);
                        quote!(::std::option::Option::Some(#value))
                    }
                    None => quote!(::std::option::Option::None),
                };
                quote!(::voxalign_options::Part::Option { name: #name, value: #value })
            }
        })
        .collect();
    let idents: Vec<_> = bound.values().map(|(ident, _)| ident).collect();
    let values: Vec<_> = bound.values().map(|(_, value)| value).collect();
    // A binding that lives as long as the whole, as the arguments of `format!` do.
    quote! {
        match (#(&#values,)*) {
            (#(#idents,)*) => ::voxalign_options::Text::new(::std::vec![#(#parts),*]),
        }
    }
}
