// SPDX-License-Identifier: Apache-2.0
//! Options in `#[plain(...)]` and `#[plain_type(...)]`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span};
use syn::meta::ParseNestedMeta;
use syn::{LitStr, Path, Type, parenthesized, parse_quote};

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) tail: Option<(Ident, Type)>,
    types: Option<Path>,
}

impl Options {
    pub(crate) fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("name") {
            let name: LitStr = meta.value()?.parse()?;
            check_name(&name)?;
            if self.name.replace(name).is_some() {
                return Err(meta.error("'name' is given twice"));
            }
        } else if meta.path.is_ident("tail") {
            let content;
            parenthesized!(content in meta.input);
            let field: Ident = content.parse()?;
            content.parse::<syn::Token![:]>()?;
            let ty: Type = content.parse()?;
            if !content.is_empty() {
                return Err(
                    content.error("a plain type has one trailing array at most: tail(NAME: TYPE)")
                );
            }
            if self.tail.replace((field, ty)).is_some() {
                return Err(meta.error("a plain type has one trailing array at most"));
            }
        } else if meta.path.is_ident("crate") {
            self.types = Some(meta.value()?.call(Path::parse_mod_style)?);
        } else {
            return Err(meta.error(
                "unknown option; there are name = \"package/Type\", tail(NAME: \
                 TYPE) and crate = PATH",
            ));
        }
        Ok(())
    }

    /// The path of `driveline_types` as the caller's crate sees it.
    pub(crate) fn types(&self) -> syn::Result<Path> {
        if let Some(path) = &self.types {
            return Ok(path.clone());
        }
        let external = |found, own: &str| match found {
            FoundCrate::Itself => Ident::new(own, Span::call_site()),
            FoundCrate::Name(name) => Ident::new(&name, Span::call_site()),
        };
        if let Ok(found) = crate_name("driveline-types") {
            let krate = external(found, "driveline_types");
            return Ok(parse_quote!(::#krate));
        }
        if let Ok(found) = crate_name("driveline") {
            let krate = external(found, "driveline");
            return Ok(parse_quote!(::#krate::types));
        }
        Err(syn::Error::new(
            Span::call_site(),
            "neither 'driveline' nor 'driveline-types' is a dependency of this crate: add one, or \
             say where it is with crate = PATH",
        ))
    }
}

fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let good = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match text.split_once('/') {
        Some((package, ty)) if good(package) && good(ty) && text.len() <= 200 => Ok(()),
        _ => Err(syn::Error::new(
            name.span(),
            "a plain type's name is \"package/Type\", of letters, digits and '_', at most 200 \
             bytes",
        )),
    }
}
