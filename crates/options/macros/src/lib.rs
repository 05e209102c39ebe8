//! The derive macros of `voxalign-options`, which documents them.

mod choice;
mod docs;
mod message;
mod parameters;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// `voxalign_options::Choice` for an enumeration.
#[proc_macro_derive(Choice, attributes(choice))]
pub fn choice(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    choice::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// `voxalign_options::Parameters` for a struct, and its `Default`.
#[proc_macro_derive(Parameters, attributes(parameter, parameters))]
pub fn parameters(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    parameters::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A `voxalign_options::Text` of a format string and its arguments, as of `format!`; names in backticks, such as
/// `` `search_angles` `` or `` `model = lddmm` ``, become options.
#[proc_macro]
pub fn text(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as message::Message);
    message::expand(&input).into()
}
