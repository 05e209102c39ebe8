//! Procedural macros of `voxalign-compute`: [`macro@forwarded`] implements a trait of operators for a device
//! chosen at run time, from the declaration of the trait alone.

use proc_macro::TokenStream;
use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Error, FnArg, GenericParam, Item, ItemStruct, ItemTrait, Pat, Result, ReturnType, TraitItem,
    TraitItemFn, Type, parse_macro_input,
};

/// Put before a family of operators, or before a structure of buffers that they take, in `voxalign-compute`.
///
/// A **trait** is implemented for `AnyDevice` as well: each method calls that of the backend behind. Arguments whose
/// types name `Self` are turned into what the backend has in their place, which fails where another backend made
/// them; all others pass as they are. What comes back and names `Self` is wrapped again. An associated
/// type `X` becomes `AnyX`.
///
/// A **structure** with one type parameter, the device, can be copied, and is turned field by field where an operator
/// takes one. Its fields are plain, references to buffers, or such structures, or `Option`s of these.
#[proc_macro_attribute]
pub fn forwarded(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as Item);
    let added = match &item {
        _ if !arguments.is_empty() => Err(Error::new_spanned(&item, "it takes no arguments")),
        Item::Trait(family) => of_trait(family),
        Item::Struct(lent) => of_struct(lent),
        other => Err(Error::new_spanned(other, "only traits and structures are forwarded")),
    };
    let added = added.unwrap_or_else(Error::into_compile_error);
    quote!(#item #added).into()
}

/// Whether a type names a device, as `Self` or as a parameter.
fn names(of: &impl ToTokens, device: &str) -> bool {
    fn within(tokens: Tokens, device: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == device,
            TokenTree::Group(group) => within(group.stream(), device),
            _ => false,
        })
    }
    within(of.to_token_stream(), device)
}

/// The family of a device that was chosen at run time.
fn of_trait(family: &ItemTrait) -> Result<Tokens> {
    let name = &family.ident;
    let items = family.items.iter().map(|item| match item {
        TraitItem::Fn(method) => of_method(method),
        TraitItem::Type(own) => {
            let (name, any) = (&own.ident, format_ident!("Any{}", own.ident));
            Ok(quote!(type #name = crate::select::#any;))
        }
        other => Err(Error::new_spanned(other, "only methods and types are forwarded")),
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #[allow(clippy::too_many_arguments)]
        impl #name for crate::select::AnyDevice { #(#items)* }
    })
}

fn of_method(method: &TraitItemFn) -> Result<Tokens> {
    let signature = &method.sig;
    let name = &signature.ident;
    let (mut turned, mut given) = (Vec::new(), Vec::new());
    for argument in signature.inputs.iter().skip(1) {
        let FnArg::Typed(argument) = argument else { continue };
        let Pat::Ident(pattern) = &*argument.pat else {
            return Err(Error::new_spanned(&argument.pat, "an argument needs a name"));
        };
        let argument_name = &pattern.ident;
        if !names(&argument.ty, "Self") {
            given.push(quote!(#argument_name));
            continue;
        }
        // What is behind a reference may be made for the call, and is lent then.
        let (binding, lent) = match &*argument.ty {
            Type::Reference(reference) if reference.mutability.is_some() => {
                (quote!(mut #argument_name), quote!(&mut #argument_name))
            }
            Type::Reference(_) => (quote!(#argument_name), quote!(&#argument_name)),
            _ => (quote!(#argument_name), quote!(#argument_name)),
        };
        turned.push(quote! {
            let #binding = crate::select::Behind::<Backend>::behind(#argument_name)?;
        });
        given.push(lent);
    }
    if signature.receiver().is_none() {
        return Err(Error::new_spanned(signature, "only what a device does is forwarded"));
    }
    let wrapped = match &signature.output {
        ReturnType::Type(_, output) if names(output, "Self") => quote!(.map(Into::into)),
        _ => quote!(),
    };
    let backend = (!turned.is_empty()).then(|| quote!(: Backend));
    Ok(quote! {
        #signature {
            crate::select::behind!(self, |device #backend| {
                #(#turned)*
                device.#name(#(#given),*) #wrapped
            })
        }
    })
}

/// A structure of buffers, as the backend behind takes it.
fn of_struct(lent: &ItemStruct) -> Result<Tokens> {
    let name = &lent.ident;
    let mut devices = lent.generics.type_params().map(|parameter| &parameter.ident);
    let (Some(device), None) = (devices.next(), devices.next()) else {
        return Err(Error::new_spanned(&lent.generics, "the device is its one type"));
    };
    let with = |device: Tokens| {
        let arguments = lent.generics.params.iter().map(|parameter| match parameter {
            GenericParam::Lifetime(lifetime) => lifetime.lifetime.to_token_stream(),
            _ => device.clone(),
        });
        quote!(#name<#(#arguments),*>)
    };
    let (any, behind) = (with(quote!(crate::select::AnyDevice)), with(quote!(B)));
    let lifetimes: Vec<_> = lent.generics.lifetimes().collect();
    let fields = lent.fields.iter().map(|field| {
        let name = field.ident.as_ref().ok_or(Error::new_spanned(field, "a field needs a name"))?;
        Ok(match names(&field.ty, &device.to_string()) {
            true => quote!(#name: crate::select::Behind::<B>::behind(self.#name)?),
            false => quote!(#name: self.#name),
        })
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let (generics, own, bounds) = lent.generics.split_for_impl();
    Ok(quote! {
        impl #generics Clone for #name #own #bounds {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl #generics Copy for #name #own #bounds {}

        impl<#(#lifetimes,)* B: crate::select::Backend> crate::select::Behind<B> for #any {
            type Own = #behind;

            fn behind(self) -> crate::error::Result<Self::Own> {
                Ok(#name { #(#fields),* })
            }
        }
    })
}
