// SPDX-License-Identifier: Apache-2.0
use super::*;

fn refused(options: TokenStream, item: TokenStream) -> String {
    expand(options, item.clone()).expect_err(&item.to_string()).to_string()
}

#[test]
fn field_types_that_peers_could_break_are_explained() {
    let cases = [
        (quote!(bool), "`bool`: a peer can send other bytes than 0 and 1; use u8"),
        (quote!([bool; 4]), "`bool`: a peer can send"),
        (quote!(char), "not every bit pattern is a character"),
        (quote!([[char; 4]; 2]), "not every bit pattern is a character"),
        (quote!(usize), "size depends on the machine; use u64"),
        (quote!(core::primitive::isize), "size depends on the machine; use u64 or i64"),
        (quote!(u128), "use [u64; 2]"),
        (quote!(*const u8), "an address means nothing in another process"),
        (quote!(&'static str), "an address means nothing"),
        (quote!(Box<u8>), "an address means nothing"),
        (quote!(fn()), "an address means nothing"),
        (quote!(String), "text lies elsewhere in memory; use [u8; N]"),
        (quote!(std::vec::Vec<f32>), "declare the array with tail(NAME: TYPE)"),
        (quote!(Option<f32>), "not every bit pattern is valid"),
        (quote!((f32, f32)), "declare a plain struct"),
        (quote!([u8]), "tail(NAME: TYPE)"),
    ];
    for (ty, words) in cases {
        let e = refused(quote!(name = "a/B"), quote!(struct T { good: u32, field: #ty }));
        assert!(e.starts_with("a field of a plain type cannot be") && e.contains(words), "{e}");
        let e = refused(
            quote!(name = "a/B", tail(data: #ty)),
            quote!(
                struct T {
                    good: u32,
                }
            ),
        );
        assert!(e.starts_with("an element of a trailing array") && e.contains(words), "{e}");
    }
}

#[test]
fn shapes_that_are_no_plain_struct_are_explained() {
    let cases = [
        (
            quote!(
                enum T {
                    A,
                }
            ),
            "enums and unions are not plain",
        ),
        (quote!(union T { a: u8 }), "enums and unions are not plain"),
        (
            quote!(
                struct T(u32);
            ),
            "have named fields",
        ),
        (
            quote!(
                struct T;
            ),
            "have named fields",
        ),
        (
            quote!(
                struct T {}
            ),
            "at least one field",
        ),
        (
            quote!(
                struct T<const N: usize> {
                    a: [u8; N],
                }
            ),
            "cannot be generic",
        ),
        (
            quote!(
                #[repr(C, packed)]
                struct T {
                    a: u32,
                }
            ),
            "cannot be packed",
        ),
        (
            quote!(
                #[repr(packed(2), C)]
                struct T {
                    a: u32,
                }
            ),
            "cannot be packed",
        ),
        (
            quote!(
                #[repr(transparent)]
                struct T {
                    a: u32,
                }
            ),
            "needs #[repr(C)]",
        ),
    ];
    for (item, words) in cases {
        let e = refused(quote!(name = "a/B"), item);
        assert!(e.contains(words), "{e}");
    }
    let e = derive_plain(quote!(
        #[plain(name = "a/B")]
        struct T {
            a: u32,
        }
    ))
    .unwrap_err()
    .to_string();
    assert!(e.contains("needs #[repr(C)]"), "{e}");
}

#[test]
fn options_that_are_wrong_are_explained() {
    let cases = [
        (quote!(), "needs a name that both ends know"),
        (quote!(name = "T"), "\"package/Type\""),
        (quote!(name = "a/b/C"), "\"package/Type\""),
        (quote!(name = "/T"), "\"package/Type\""),
        (quote!(name = "a/T x"), "\"package/Type\""),
        (quote!(name = "a/B", name = "a/C"), "given twice"),
        (quote!(name = "a/B", tial(data: u8)), "unknown option"),
        (quote!(name = "a/B", tail(data: u8), tail(more: u8)), "one trailing array at most"),
        (quote!(name = "a/B", tail(data: u8, more: u8)), "one trailing array at most"),
    ];
    for (options, words) in cases {
        let e = expand(
            options.clone(),
            quote!(
                struct T {
                    a: u32,
                }
            ),
        )
        .expect_err(&options.to_string())
        .to_string();
        assert!(e.contains(words), "{options}: {e}");
    }
}

#[test]
fn a_mistake_leaves_the_struct_without_derives() {
    let item = quote!(
        struct T {
            a: bool,
        }
    );
    let tokens = plain_type(quote!(name = "a/B"), item.clone()).to_string();
    assert!(
        tokens.starts_with(&item.to_string()) && tokens.contains("compile_error !"),
        "{tokens}"
    );
    assert!(!tokens.contains("derive"), "{tokens}");
}

#[test]
fn derives_that_are_there_are_not_repeated() {
    let item = quote!(
        #[derive(Debug, Clone, zerocopy::FromBytes)]
        #[repr(C)]
        struct T {
            a: u32,
        }
    );
    let tokens = expand(quote!(name = "a/B"), item).unwrap().to_string();
    for name in ["Clone", "FromBytes"] {
        assert_eq!(tokens.matches(name).count(), 1, "{name}: {tokens}");
    }
    assert_eq!(tokens.matches("repr").count(), 1, "{tokens}");
    assert!(
        tokens.contains("IntoBytes") && tokens.contains(":: driveline_types :: Plain"),
        "{tokens}"
    );
}
