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

/// Words apart from places without a format, which are the second of each pair.
fn apart(words: &str) -> Vec<(String, Option<String>)> {
    let (mut all, mut before, mut rest) = (Vec::new(), String::new(), words);
    while let Some(open) = rest.find('{') {
        let (words, place) = rest.split_at(open);
        before.push_str(words);
        let close = place.find('}').map_or(place.len(), |end| end + 1);
        match &place[..close] {
            // Two stand for one that is none of a place.
            _ if place.starts_with("{{") => {
                before.push_str("{{");
                rest = &place[2..];
                continue;
            }
            one if one.contains(':') => before.push_str(one),
            one => all.push((std::mem::take(&mut before), Some(one.to_owned()))),
        }
        rest = &place[close..];
    }
    before.push_str(rest);
    all.push((before, None));
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
    let made = Ident::new("made", Span::mixed_site());
    let next = std::cell::Cell::new(0);
    let numbered = |text: &str, used: &mut Vec<String>| {
        let mut count = next.get();
        let text = numbered(text, &mut count, used);
        next.set(count);
        text
    };
    let formatted = |text: &str| {
        let mut used = Vec::new();
        let text = numbered(text, &mut used);
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
    let words = |(words, place): (String, Option<String>)| {
        let before = (!words.is_empty()).then(|| {
            let words = formatted(&words);
            quote!(#made = #made.and(#words);)
        });
        let place = place.map(|place| {
            let mut used = Vec::new();
            numbered(&place, &mut used);
            let argument = match used.first().and_then(|name| bound.get(name)) {
                Some((ident, _)) => quote!(&#ident),
                None => {
                    let name = Ident::new(used.first().map_or("_", String::as_str), span);
                    quote!(&#name)
                }
            };
            quote! {
                #made = #made.and((&::voxalign_options::private::Argument(#argument)).part_of());
            }
        });
        quote!(#before #place)
    };
    let parts: Vec<_> = pieces(&message.format.value())
        .into_iter()
        .map(|piece| match piece {
            Piece::Words(text) => {
                let all = apart(&text).into_iter().map(&words);
                quote!(#(#all)*)
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
                quote! {
                    #made = #made.and(::voxalign_options::Text::new(::std::vec![
                        ::voxalign_options::Part::Option { name: #name, value: #value }
                    ]));
                }
            }
        })
        .collect();
    let idents: Vec<_> = bound.values().map(|(ident, _)| ident).collect();
    let values: Vec<_> = bound.values().map(|(_, value)| value).collect();
    // A binding that lives as long as the whole, as the arguments of `format!` do.
    quote! {
        match (#(&#values,)*) {
            (#(#idents,)*) => {
                #[allow(unused_imports)]
                use ::voxalign_options::private::{Nested as _, Shown as _};
                #[allow(unused_mut)]
                let mut #made = ::voxalign_options::Text::default();
                #(#parts)*
                #made
            }
        }
    }
}
