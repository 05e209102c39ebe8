//! Structs of parameters.

use crate::docs::summary;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, LitStr, Result, Type};

/// What attributes say of a field.
#[derive(Default)]
struct Of {
    default: Option<Expr>,
    unit: Option<String>,
    above: Option<Expr>,
    below: Option<Expr>,
    least: Option<Expr>,
    most: Option<Expr>,
    what: Option<String>,
    remedy: Option<String>,
    says: Option<Expr>,
    heading: String,
    flatten: bool,
    skip: bool,
}

fn of(field: &Field) -> Result<Of> {
    let mut of = Of::default();
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("parameter")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let text = || Ok::<_, Error>(meta.value()?.parse::<LitStr>()?.value());
            let expression = || meta.value()?.parse::<Expr>();
            match name.as_str() {
                "default" => of.default = Some(expression()?),
                "above" => of.above = Some(expression()?),
                "below" => of.below = Some(expression()?),
                "least" => of.least = Some(expression()?),
                "most" => of.most = Some(expression()?),
                "unit" => of.unit = Some(text()?),
                "what" => of.what = Some(text()?),
                "remedy" => of.remedy = Some(text()?),
                "says" => of.says = Some(expression()?),
                "heading" => of.heading = text()?,
                "flatten" => of.flatten = true,
                "skip" => of.skip = true,
                _ => return Err(meta.error("an attribute that is not known")),
            }
            Ok(())
        })?;
    }
    Ok(of)
}

/// Whether a type is `Option<...>`.
fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|s| s.ident == "Option")
}

/// The check of a field's range; what is not given is in it.
fn check(name: &syn::Ident, ty: &Type, of: &Of) -> TokenStream {
    let bounds = [
        (&of.above, quote!(>), "above"),
        (&of.least, quote!(>=), "from"),
        (&of.below, quote!(<), "below"),
        (&of.most, quote!(<=), "to"),
    ];
    let bounds: Vec<_> =
        bounds.into_iter().filter_map(|(b, is, word)| Some((b.as_ref()?, is, word))).collect();
    let fits = bounds.iter().map(|(bound, is, _)| quote!(*value #is #bound));
    let what = of.what.clone().unwrap_or_else(|| "number".to_owned());
    // A remedy says all where there is one.
    let remedy = match (&of.remedy, bounds.as_slice()) {
        (Some(remedy), _) => quote!(#remedy.to_owned()),
        (None, [(a, _, "from")]) => {
            quote!(::std::format!("give a {} of {} or more", #what, #a))
        }
        (None, [(a, _, "above"), (b, _, "to")]) => {
            quote!(::std::format!("give a {} above {} and up to {}", #what, #a, #b))
        }
        (None, [(a, _, first), (b, _, second)]) => {
            quote!(::std::format!("give a {} {} {} {} {}", #what, #first, #a, #second, #b))
        }
        (None, [(a, _, first), ..]) => quote!(::std::format!("give a {} {} {}", #what, #first, #a)),
        (None, []) => quote!(remedy),
    };
    let text = name.to_string();
    let values = match is_option(ty) {
        true => quote!(self.#name.iter()),
        false => quote!([&self.#name]),
    };
    quote! {
        for value in #values {
            let usable = ::voxalign_options::Value::usable(value).err();
            let outside = !(true #(&& #fits)*);
            if let ::std::option::Option::Some(remedy) =
                usable.or_else(|| outside.then(::std::string::String::new))
            {
                let _ = &remedy;
                let value = ::voxalign_options::Value::text(value);
                let error = ::voxalign_options::OptionError::value(#text, value, #remedy);
                return ::std::result::Result::Err(error);
            }
        }
    }
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields.named.iter().collect(),
            Fields::Unit => Vec::new(),
            Fields::Unnamed(_) => return Err(Error::new_spanned(input, "name the fields")),
        },
        _ => return Err(Error::new_spanned(input, "Parameters is for structs")),
    };
    let kind = &input.ident;
    let value = quote!(::voxalign_options::Value);
    let nested = quote!(::voxalign_options::Parameters);
    let (mut defaults, mut listed) = (Vec::new(), Vec::new());
    let (mut gets, mut sets, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut in_nested, mut to_nested) = (Vec::new(), Vec::new());
    // Values that can be made while the program is compiled, which those of alternatives must be.
    let constant = !input.attrs.iter().any(|a| a.path().is_ident("parameters"));
    for field in fields {
        let Some(name) = &field.ident else { continue };
        let (of, ty) = (of(field)?, &field.ty);
        let default = match &of.default {
            Some(default) => quote!(#default),
            None if of.flatten && constant => quote!(<#ty>::USUAL),
            None if is_option(ty) => quote!(::std::option::Option::None),
            None => quote!(::std::default::Default::default()),
        };
        defaults.push(quote!(#name: #default));
        if of.skip {
            continue;
        }
        if of.flatten {
            listed.push(quote!(all.extend(#nested::parameters(&self.#name));));
            in_nested.push(quote!(.or_else(|| #nested::get(&self.#name, name))));
            to_nested.push(quote!(#nested::set(&mut self.#name, name, text)?));
            checks.push(quote!(#nested::check(&self.#name)?;));
            continue;
        }
        let text = name.to_string();
        let (help, heading) = (summary(&field.attrs), &of.heading);
        let unit = match &of.unit {
            Some(unit) => quote!(#unit),
            None => quote!(<#ty as #value>::UNIT),
        };
        let says = match &of.says {
            Some(says) => quote!(::std::string::String::from(#says)),
            None => quote!(#value::text(&self.#name)),
        };
        let is_switch = matches!(ty, syn::Type::Path(path) if path.path.is_ident("bool"));
        let switch = if is_switch {
            quote!(::std::option::Option::Some(self.#name))
        } else {
            quote!(::std::option::Option::None)
        };
        listed.push(quote! {
            all.push(::voxalign_options::Parameter {
                name: #text,
                help: #help,
                unit: #unit,
                default: #says,
                switch: #switch,
                heading: #heading,
                alternatives: <#ty as #value>::alternatives(),
                hyphens: <#ty as #value>::HYPHENS,
                negative: <#ty as #value>::NEGATIVE,
                list: <#ty as #value>::LIST,
                parse: |text| <#ty as #value>::parse(text).map(|v| #value::text(&v)),
                json: |text| <#ty as #value>::parse(text).map_or(
                    ::voxalign_options::private::serde_json::Value::Null,
                    |v| #value::json(&v),
                ),
            });
        });
        gets.push(quote!(#text => ::std::option::Option::Some(#value::text(&self.#name))));
        sets.push(quote! {
            #text => self.#name = <#ty as #value>::parse(text)
                .map_err(|remedy| ::voxalign_options::OptionError::value(#text, text, remedy))?
        });
        checks.push(check(name, ty, &of));
    }
    let usual = constant.then(|| {
        quote! {
            impl #kind {
                /// The usual values.
                pub const USUAL: Self = Self { #(#defaults),* };
            }
        }
    });
    let default = if constant { quote!(Self::USUAL) } else { quote!(Self { #(#defaults),* }) };
    let error = quote!(::voxalign_options::OptionError);
    Ok(quote! {
        #usual

        impl ::std::default::Default for #kind {
            fn default() -> Self {
                #default
            }
        }

        impl ::voxalign_options::Parameters for #kind {
            #[allow(unused_mut)]
            fn parameters(&self) -> ::std::vec::Vec<::voxalign_options::Parameter> {
                let mut all = ::std::vec::Vec::new();
                #(#listed)*
                all
            }

            fn get(&self, name: &str) -> ::std::option::Option<::std::string::String> {
                match name {
                    #(#gets,)*
                    _ => ::std::option::Option::None #(#in_nested)*,
                }
            }

            #[allow(unreachable_code)]
            fn set(&mut self, name: &str, text: &str) -> ::std::result::Result<bool, #error> {
                let _ = text;
                match name {
                    #(#sets,)*
                    _ => return ::std::result::Result::Ok(false #(|| #to_nested)*),
                }
                ::std::result::Result::Ok(true)
            }

            fn check(&self) -> ::std::result::Result<(), #error> {
                #(#checks)*
                ::std::result::Result::Ok(())
            }
        }
    })
}
