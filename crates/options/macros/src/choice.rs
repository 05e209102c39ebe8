//! Alternatives.

use crate::docs::summary;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Variant};

/// What attributes say of the enumeration.
#[derive(Default)]
struct Of {
    option: String,
    heading: String,
    snake_case: bool,
    each: Option<Ident>,
}

fn of(input: &DeriveInput) -> Result<Of> {
    let mut of = Of::default();
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("choice")) {
        attribute.parse_nested_meta(|meta| {
            let text = || Ok::<_, Error>(meta.value()?.parse::<LitStr>()?.value());
            if meta.path.is_ident("option") {
                of.option = text()?;
            } else if meta.path.is_ident("heading") {
                of.heading = text()?;
            } else if meta.path.is_ident("snake_case") {
                of.snake_case = true;
            } else if meta.path.is_ident("each") {
                of.each = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("not option, heading, snake_case or each"));
            }
            Ok(())
        })?;
    }
    Ok(of)
}

/// The name of a variant.
fn name(variant: &Variant, snake_case: bool) -> Result<String> {
    let mut name = None;
    for attribute in variant.attrs.iter().filter(|a| a.path().is_ident("choice")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("not name"));
            }
            name = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
    }
    Ok(name.unwrap_or_else(|| words(&variant.ident, if snake_case { '_' } else { '-' })))
}

/// The words of a name in lower case.
fn words(ident: &Ident, between: char) -> String {
    let mut words = String::new();
    for letter in ident.to_string().chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(between);
        }
        words.extend(letter.to_lowercase());
    }
    words
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(input, "Choice is for enumerations"));
    };
    let (kind, Of { option, heading, snake_case, each }) = (&input.ident, of(input)?);
    let help = summary(&input.attrs);
    let variants: Vec<_> = data.variants.iter().collect();
    let names = variants.iter().map(|v| name(v, snake_case)).collect::<Result<Vec<_>>>()?;
    let summaries = variants.iter().map(|v| summary(&v.attrs));
    let (mut all, mut patterns) = (Vec::new(), Vec::new());
    let (mut constants, mut arms) = (Vec::new(), Vec::new());
    let (mut listed, mut gets, mut sets, mut checks) = (vec![], vec![], vec![], vec![]);
    for variant in &variants {
        let ident = &variant.ident;
        match &variant.fields {
            Fields::Unit => {
                all.push(quote!(#kind::#ident));
                patterns.push(quote!(#kind::#ident));
                arms.push(quote!(#kind::#ident => {
                    use self::#ident as $kind;
                    $body
                }));
                listed.push(quote!(#kind::#ident => ::std::vec::Vec::new()));
                gets.push(quote!(#kind::#ident => ::std::option::Option::None));
                sets.push(quote!(#kind::#ident => ::std::result::Result::Ok(false)));
                checks.push(quote!(#kind::#ident => ::std::result::Result::Ok(())));
            }
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let of = &fields.unnamed[0].ty;
                let parameters = quote!(::voxalign_options::Parameters);
                let constant = Ident::new(&words(ident, '_').to_uppercase(), ident.span());
                constants.push(quote! {
                    /// With its usual parameters.
                    pub const #constant: Self = Self::#ident(<#of>::USUAL);
                });
                arms.push(quote!(#kind::#ident($kind) => $body));
                all.push(quote!(#kind::#constant));
                patterns.push(quote!(#kind::#ident(_)));
                listed.push(quote!(#kind::#ident(of) => #parameters::parameters(of)));
                gets.push(quote!(#kind::#ident(of) => #parameters::get(of, name)));
                sets.push(quote!(#kind::#ident(of) => #parameters::set(of, name, text)));
                checks.push(quote!(#kind::#ident(of) => #parameters::check(of)));
            }
            _ => {
                return Err(Error::new_spanned(
                    variant,
                    "a kind has one struct of parameters, or none",
                ));
            }
        }
    }
    // From what a variant holds, where no other one holds the same.
    let held = |v: &Variant| v.fields.iter().next().map(|f| f.ty.clone());
    let mut from = Vec::new();
    for variant in &variants {
        let Some(of) = held(variant) else { continue };
        if variants.iter().filter(|v| held(v).as_ref() == Some(&of)).count() == 1 {
            let ident = &variant.ident;
            from.push(quote! {
                impl ::std::convert::From<#of> for #kind {
                    fn from(of: #of) -> Self {
                        Self::#ident(of)
                    }
                }
            });
        }
    }
    let error = quote!(::voxalign_options::OptionError);
    let alone = variants.iter().all(|v| matches!(v.fields, Fields::Unit));
    let value = alone.then(|| values(kind));
    let constants = (!constants.is_empty()).then(|| quote!(impl #kind { #(#constants)* }));
    let each = each.map(|each| {
        quote! {
            macro_rules! #each {
                ($choice:expr, $kind:ident => $body:expr) => {
                    match $choice { #(#arms),* }
                };
            }
        }
    });
    Ok(quote! {
        #constants
        #each
        #(#from)*

        impl ::voxalign_options::Choice for #kind {
            const ALL: &'static [Self] = &[#(#all),*];
            const OPTION: &'static str = #option;
            const HELP: &'static str = #help;
            const HEADING: &'static str = #heading;

            fn name(self) -> &'static str {
                match self { #(#patterns => #names),* }
            }

            fn summary(self) -> &'static str {
                match self { #(#patterns => #summaries),* }
            }

            fn parameters(&self) -> ::std::vec::Vec<::voxalign_options::Parameter> {
                match self { #(#listed),* }
            }

            fn get(&self, name: &str) -> ::std::option::Option<::std::string::String> {
                let _ = name;
                match self { #(#gets),* }
            }

            fn set(&mut self, name: &str, text: &str) -> ::std::result::Result<bool, #error> {
                let _ = (name, text);
                match self { #(#sets),* }
            }

            fn check(&self) -> ::std::result::Result<(), #error> {
                match self { #(#checks),* }
            }
        }

        #value

        ::voxalign_options::value_enum!(#kind);
    })
}

/// What alternatives are that have no parameters: values of parameters, data, and arguments.
fn values(kind: &syn::Ident) -> TokenStream {
    let choice = quote!(::voxalign_options::Choice);
    let serde = quote!(::voxalign_options::private::serde);
    quote! {
        impl ::voxalign_options::Value for #kind {
            const UNIT: &'static str = "NAME";

            fn parse(text: &str) -> ::std::result::Result<Self, ::std::string::String> {
                let known = || {
                    let names = <Self as #choice>::ALL.iter().map(|c| #choice::name(*c));
                    names.collect::<::std::vec::Vec<_>>().join(", ")
                };
                let found = <Self as #choice>::named(text);
                found.ok_or_else(|| ::std::format!("'{text}' is not one of {}", known()))
            }

            fn text(&self) -> ::std::string::String {
                #choice::name(*self).to_owned()
            }

            fn alternatives() -> ::std::vec::Vec<(&'static str, &'static str)> {
                let all = <Self as #choice>::ALL.iter();
                all.map(|c| (#choice::name(*c), #choice::summary(*c))).collect()
            }
        }

        impl #serde::Serialize for #kind {
            fn serialize<S: #serde::Serializer>(
                &self,
                to: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                to.serialize_str(#choice::name(*self))
            }
        }

        impl<'de> #serde::Deserialize<'de> for #kind {
            fn deserialize<D: #serde::Deserializer<'de>>(
                from: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let text = <::std::string::String as #serde::Deserialize>::deserialize(from)?;
                ::voxalign_options::Value::parse(&text).map_err(#serde::de::Error::custom)
            }
        }

    }
}
