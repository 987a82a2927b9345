// SPDX-License-Identifier: Apache-2.0
//! The two macros.

use crate::options::Options;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, ItemStruct, LitStr, Path, Type,
    parse_quote, parse2,
};

pub(crate) fn plain_type(options: TokenStream, item: TokenStream) -> TokenStream {
    match expand(options, item.clone()) {
        Ok(tokens) => tokens,
        // Returns the struct as well, without the derives of this macro: they would report the same
        // mistake again.
        Err(e) => {
            let error = e.into_compile_error();
            quote!(#item #error)
        }
    }
}

fn expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut parsed = Options::default();
    let inner = options.clone();
    syn::meta::parser(|meta| parsed.read(&meta)).parse2(options)?;
    let mut input: DeriveInput = parse2(item.clone())?;
    if !input.attrs.iter().any(|a| a.path().is_ident("repr")) {
        input.attrs.push(parse_quote!(#[repr(C)]));
    }
    check(&input, &parsed)?;
    let item: ItemStruct = parse2(item)?;
    let types = parsed.types()?;

    let have = derived(&item.attrs)?;
    let zerocopy = quote!(#types::zerocopy);
    let derives = [
        // First, because its error messages explain most.
        ("Plain", quote!(#types::Plain)),
        ("Clone", quote!(::core::clone::Clone)),
        ("Copy", quote!(::core::marker::Copy)),
        ("FromBytes", quote!(#zerocopy::FromBytes)),
        ("IntoBytes", quote!(#zerocopy::IntoBytes)),
        ("Immutable", quote!(#zerocopy::Immutable)),
        ("KnownLayout", quote!(#zerocopy::KnownLayout)),
    ];
    let derives =
        derives.iter().filter(|(name, _)| !have.iter().any(|h| h == name)).map(|(_, path)| path);
    let zerocopy_path = LitStr::new(&zerocopy.to_string().replace(' ', ""), Span::call_site());
    let repr = (!item.attrs.iter().any(|a| a.path().is_ident("repr"))).then(|| quote!(#[repr(C)]));
    Ok(quote! {
        #[derive(#(#derives),*)]
        #[zerocopy(crate = #zerocopy_path)]
        #repr
        #[plain(#inner)]
        #item
    })
}

/// Names of the traits in the item's own `derive` attributes.
fn derived(attrs: &[Attribute]) -> syn::Result<Vec<String>> {
    let mut names = Vec::new();
    for attr in attrs.iter().filter(|a| a.path().is_ident("derive")) {
        let paths = attr.parse_args_with(
            syn::punctuated::Punctuated::<Path, syn::Token![,]>::parse_terminated,
        )?;
        names.extend(paths.iter().filter_map(|p| p.segments.last()).map(|s| s.ident.to_string()));
    }
    Ok(names)
}

/// Checks everything that can be checked without knowledge of types.
fn check(input: &DeriveInput, options: &Options) -> syn::Result<Vec<NamedField>> {
    let fields = named_fields(input)?;
    check_repr(input)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "plain types cannot be generic: a name stands for one layout",
        ));
    }
    if options.name.is_none() {
        return Err(Error::new(
            input.ident.span(),
            "the type needs a name that both ends know: name = \"package/Type\"",
        ));
    }
    for field in &fields {
        check_type(&field.field.ty, "a field")?;
    }
    if let Some((_, ty)) = &options.tail {
        check_type(ty, "an element of a trailing array")?;
    }
    Ok(fields)
}

pub(crate) fn derive_plain(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = parse2(item)?;
    let mut options = Options::default();
    for attr in input.attrs.iter().filter(|a| a.path().is_ident("plain")) {
        attr.parse_nested_meta(|meta| options.read(&meta))?;
    }
    let fields = check(&input, &options)?;
    let types = options.types()?;
    let name = &options.name;

    let ident = &input.ident;
    let describes = fields.iter().map(|field| {
        let (f, ty, text) = (&field.field.ident, &field.field.ty, &field.name);
        quote_spanned! {ty.span()=>
            <#ty as #types::plain::PlainField>::describe_field(
                &::std::format!("{prefix}{}", #text),
                base + ::core::mem::offset_of!(#ident, #f),
                out);
        }
    });
    let counts = fields.iter().map(|f| {
        let ty = &f.field.ty;
        quote_spanned! {ty.span()=> <#ty as #types::plain::PlainField>::FIELD_COUNT }
    });
    let (tail, tail_name) = match &options.tail {
        None => (quote!(#types::plain::NoTail), None),
        Some((tail_name, ty)) => {
            let text = tail_name.unraw().to_string();
            (
                ty.to_token_stream(),
                Some(quote!(
                    const TAIL_NAME: ::core::option::Option<&'static str> =
                        ::core::option::Option::Some(#text);
                )),
            )
        }
    };
    let layout_checks = layout_checks(ident, &fields, &tail, &types);
    Ok(quote! {
        #layout_checks
        #[automatically_derived]
        impl #types::plain::Plain for #ident {
            type Tail = #tail;
            const NAME: &'static str = #name;
            #tail_name
            const FIELD_COUNT: usize = 0 #(+ #counts)*;
            fn describe(
                prefix: &str,
                base: usize,
                out: &mut ::std::vec::Vec<#types::plain::Field>,
            ) {
                #(#describes)*
            }
        }
    })
}

/// Generates checks whose errors point at the field that causes them. zerocopy's own error gives
/// only a number of bytes.
fn layout_checks(
    ident: &Ident,
    fields: &[NamedField],
    tail: &TokenStream,
    types: &Path,
) -> TokenStream {
    let mut checks = Vec::new();
    let mut end = quote!(0);
    for field in fields {
        let (f, ty) = (&field.field.ident, &field.field.ty);
        let empty = format!("field '{}' of a plain type is an array of length 0", field.name);
        checks.push(quote_spanned! {ty.span()=>
            const _: () = #types::plain::no_padding_before::<{
                ::core::mem::offset_of!(#ident, #f) - (#end)
            }>();
            const _: () = ::core::assert!(::core::mem::size_of::<#ty>() != 0, #empty);
        });
        end = quote!(::core::mem::offset_of!(#ident, #f) + ::core::mem::size_of::<#ty>());
    }
    quote_spanned! {ident.span()=>
        #(#checks)*
        const _: () = #types::plain::no_padding_at_end::<{
            ::core::mem::size_of::<#ident>() - (#end)
        }>();
        const _: () = {
            ::core::assert!(::core::mem::align_of::<#ident>() <= #types::plain::TAIL_ALIGN
                && ::core::mem::align_of::<#tail>() <= #types::plain::TAIL_ALIGN, "plain types are \
                     aligned to at most 64 bytes");
            ::core::assert!(
                <#ident as #types::plain::Plain>::FIELD_COUNT <= #types::plain::MAX_FIELDS,
                "a plain type has more than 256 fields, counting each element of arrays of \
                 structs: use a trailing array");
        };
    }
}

struct NamedField {
    field: Field,
    name: String,
}

fn named_fields(input: &DeriveInput) -> syn::Result<Vec<NamedField>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "plain types are structs with named fields; enums and unions are not plain, because a \
             peer can send any bit pattern",
        ));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new(
            input.ident.span(),
            "plain types have named fields: the names are part of the type's identity",
        ));
    };
    if named.named.is_empty() {
        return Err(Error::new(input.ident.span(), "a plain type has at least one field"));
    }
    let name = |f: &Field| f.ident.as_ref().map(|i| i.unraw().to_string()).unwrap_or_default();
    Ok(named.named.iter().map(|f| NamedField { name: name(f), field: f.clone() }).collect())
}

fn check_repr(input: &DeriveInput) -> syn::Result<()> {
    let mut c = false;
    for attr in input.attrs.iter().filter(|a| a.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            c |= meta.path.is_ident("C");
            if meta.path.is_ident("packed") {
                return Err(meta.error(
                    "plain types cannot be packed: their fields are referred to \
                     in place; add explicit padding fields",
                ));
            }
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if c {
        Ok(())
    } else {
        Err(Error::new(
            input.ident.span(),
            "a plain type needs #[repr(C)]: only then is its layout the same in C++",
        ))
    }
}

/// Refuses types that users often try first, with an explanation. The trait bound refuses the rest.
fn check_type(ty: &Type, what: &str) -> syn::Result<()> {
    let refuse = |why: &str| {
        Err(Error::new(
            ty.span(),
            format!("{what} of a plain type cannot be `{}`: {why}", ty.to_token_stream()),
        ))
    };
    match ty {
        Type::Array(array) => check_type(&array.elem, what),
        Type::Paren(inner) => check_type(&inner.elem, what),
        Type::Group(inner) => check_type(&inner.elem, what),
        Type::Ptr(_) | Type::Reference(_) | Type::BareFn(_) => {
            refuse("an address means nothing in another process")
        }
        Type::Tuple(_) => refuse("its layout is not defined; declare a plain struct"),
        Type::Slice(_) => refuse("an array of variable length is declared with tail(NAME: TYPE)"),
        Type::Path(path) => match path.path.segments.last().map(|s| s.ident.to_string()).as_deref()
        {
            Some("bool") => refuse("a peer can send other bytes than 0 and 1; use u8, and != 0"),
            Some("char") => refuse("not every bit pattern is a character; use u8, [u8; N] or u32"),
            Some("usize" | "isize") => refuse("its size depends on the machine; use u64 or i64"),
            Some("u128" | "i128") => refuse("C++ has no such standard type; use [u64; 2]"),
            Some("String" | "str") => {
                refuse("text lies elsewhere in memory; use [u8; N] and fixed_text(), or protobuf")
            }
            Some("Vec") => refuse(
                "its elements lie elsewhere in memory; declare the array with tail(NAME: TYPE)",
            ),
            Some("Box" | "Rc" | "Arc") => refuse("an address means nothing in another process"),
            Some("Option") => refuse(
                "not every bit pattern is valid; use a value that stands for 'none', such as NaN \
                 or 0",
            ),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "derive_tests.rs"]
mod tests;
