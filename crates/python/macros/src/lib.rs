//! The attribute [`macro@guarded`] of `voxalign-python`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{
    Block, Error, ImplItem, Item, ReturnType, Signature, Type, parse_macro_input, parse_quote,
};

/// Put before `#[pymethods]` and `#[pyfunction]`: what panics there raises `InternalError`, which is a `VoxalignError`,
/// where it would be an exception that no `except Exception` meets. Each function gives a `PyResult` then, whose body is
/// within `crate::error::guard`.
#[proc_macro_attribute]
pub fn guarded(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    let done = match &mut item {
        _ if !arguments.is_empty() => Err("it takes no arguments"),
        Item::Fn(function) => {
            guard(&mut function.sig, &mut function.block);
            Ok(())
        }
        Item::Impl(methods) => {
            for method in &mut methods.items {
                if let ImplItem::Fn(method) = method {
                    guard(&mut method.sig, &mut method.block);
                }
            }
            Ok(())
        }
        _ => Err("only functions and methods are guarded"),
    };
    match done {
        Ok(()) => quote!(#item),
        Err(what) => Error::new_spanned(&item, what).into_compile_error(),
    }
    .into()
}

/// Puts a guard around the body.
fn guard(signature: &mut Signature, body: &mut Block) {
    let (given, value): (Type, Tokens) = match &signature.output {
        ReturnType::Type(_, of) if is_result(of) => ((**of).clone(), quote!(#body)),
        ReturnType::Type(_, of) => {
            let body = quote!({ let value: #of = #body; Ok(value) });
            (parse_quote!(::pyo3::PyResult<#of>), body)
        }
        ReturnType::Default => (parse_quote!(::pyo3::PyResult<()>), quote!({ #body; Ok(()) })),
    };
    signature.output = parse_quote!(-> #given);
    *body = parse_quote!({ crate::error::guard(|| #value) });
}

/// Whether a type is a `PyResult`.
fn is_result(of: &Type) -> bool {
    matches!(of, Type::Path(of) if of.path.segments.last().is_some_and(|s| s.ident == "PyResult"))
}
