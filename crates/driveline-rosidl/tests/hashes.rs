// SPDX-License-Identifier: Apache-2.0
//! Type hashes that ROS 2 itself computed and that other projects published. The definitions are
//! those of ROS 2 Jazzy, without comments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use driveline_rosidl::{Catalog, TypeHash, parse_msg, parse_srv};

fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    for (name, text) in [
        ("std_msgs/String", "string data"),
        ("std_msgs/Char", "char data"),
        ("builtin_interfaces/Time", "int32 sec\nuint32 nanosec"),
        ("std_msgs/Header", "builtin_interfaces/Time stamp\nstring frame_id"),
        ("geometry_msgs/Vector3", "float64 x 0\nfloat64 y 0\nfloat64 z 0"),
        ("geometry_msgs/Twist", "Vector3  linear\nVector3  angular"),
        ("rosgraph_msgs/Clock", "builtin_interfaces/Time clock"),
        (
            "sensor_msgs/Range",
            "uint8 ULTRASOUND=0\nuint8 INFRARED=1\nstd_msgs/Header header\nuint8 \
             radiation_type\nfloat32 field_of_view\nfloat32 min_range\nfloat32 max_range\nfloat32 \
             range\nfloat32 variance",
        ),
    ] {
        let name = name.parse().unwrap();
        catalog.add_message(parse_msg(&name, "test", text).unwrap()).unwrap();
    }
    let name = "example_interfaces/srv/AddTwoInts".parse().unwrap();
    catalog
        .add_service(parse_srv(&name, "test", "int64 a\nint64 b\n---\nint64 sum\n").unwrap())
        .unwrap();
    catalog
}

#[test]
fn hashes_are_those_of_ros_2() {
    let catalog = catalog();
    for (name, hash) in [
        // Hashes from the design document of rmw_zenoh.
        ("std_msgs/msg/String", "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"),
        (
            "example_interfaces/srv/AddTwoInts",
            "e118de6bf5eeb66a2491b5bda11202e7b68f198d6f67922cf30364858239c81a",
        ),
        // Hashes from programs that communicate with ROS 2 without using it. The hash of Char shows
        // that a char of .msg is an uint8.
        ("std_msgs/msg/Char", "3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9"),
        (
            "geometry_msgs/msg/Twist",
            "9c45bf16fe0983d80e3cfe750d6835843d265a9a6c46bd2e609fcddde6fb8d2a",
        ),
        (
            "rosgraph_msgs/msg/Clock",
            "692f7a66e93a3c83e71765d033b60349ba68023a8c689a79e48078bcb5c58564",
        ),
        (
            "sensor_msgs/msg/Range",
            "b42b62562e93cbfe9d42b82fe5994dfa3d63d7d5c90a317981703f7388adff3a",
        ),
    ] {
        assert_eq!(
            catalog.type_hash(&name.parse().unwrap()).unwrap().to_string(),
            format!("RIHS01_{hash}"),
            "{name}"
        );
    }
}

#[test]
fn a_description_is_one_line_of_json_in_the_order_of_the_fields() {
    let expected = concat!(
        r#"{"type_description": {"type_name": "std_msgs/msg/Header", "fields": ["#,
        concat!(
            r#"{"name": "stamp", "type": {"type_id": 1, "capacity": 0, "string_capacity": 0, "#,
            r#""nested_type_name": "builtin_interfaces/msg/Time"}}, "#,
        ),
        concat!(
            r#"{"name": "frame_id", "type": {"type_id": 17, "capacity": 0, "string_capacity": 0,"#,
            r#" "nested_type_name": ""}}]}, "#,
        ),
        concat!(
            r#""referenced_type_descriptions": [{"type_name": "builtin_interfaces/msg/Time", "#,
            r#""fields": ["#,
        ),
        concat!(
            r#"{"name": "sec", "type": {"type_id": 6, "capacity": 0, "string_capacity": 0, "#,
            r#""nested_type_name": ""}}, "#,
        ),
        concat!(
            r#"{"name": "nanosec", "type": {"type_id": 7, "capacity": 0, "string_capacity": 0, "#,
            r#""nested_type_name": ""}}]}]}"#,
        ),
    );
    assert_eq!(
        catalog().type_description(&"std_msgs/msg/Header".parse().unwrap()).unwrap(),
        expected
    );
}

#[test]
fn idl_and_msg_of_a_type_have_one_hash() {
    let mut idl = Catalog::new();
    let text = "module p { module msg {\n typedef double double__3[3];\n typedef p::msg::In \
         p__msg__In;\n typedef p__msg__In p__msg__In__2[2];\n module M_Constants { const uint8 A = \
         1; };\n struct M {\n @verbatim (language=\"comment\", text=\"about\" \" it\")\n @unit \
         (value=\"m\")\n double__3 v;\n p__msg__In__2 pair;\n sequence<string<4>, 5> names;\n \
         @default (value=TRUE)\n boolean on;\n unsigned long long n, m;\n wstring<3> w;\n octet \
         o;\n char c;\n };\n}; };";
    let name = idl.add_idl("M.idl", text).unwrap();
    idl.add_idl("In.idl", "module p { module msg { struct In { long x; }; }; };").unwrap();
    let message = idl.message(&name).unwrap();
    assert_eq!(message.fields[0].comment, ["about it"]);
    assert_eq!(message.constants[0].name, "A");
    let mut msg = Catalog::new();
    let text = "float64[3] v\nIn[2] pair\nstring<=4[<=5] names\nbool on true\nuint64 n\nuint64 \
         m\nwstring<=3 w\nbyte o\nchar c\n";
    msg.add_message(parse_msg(&name, "M.msg", text).unwrap()).unwrap();
    let inner = "p/In".parse().unwrap();
    msg.add_message(parse_msg(&inner, "In.msg", "int32 x\n").unwrap()).unwrap();
    let (a, b) = (idl.type_description(&name).unwrap(), msg.type_description(&name).unwrap());
    // A char of IDL has its own type id; a char of .msg is an uint8.
    assert_eq!(a.replace("\"type_id\": 13", "\"type_id\": 3"), b);
    assert_ne!(idl.type_hash(&name).unwrap(), msg.type_hash(&name).unwrap());
    assert_eq!(idl.type_hash(&inner).unwrap(), msg.type_hash(&inner).unwrap());
    // Only IDL can express this message.
    let schema = idl.schema(&name).unwrap();
    assert!(schema.definition.starts_with("====") && schema.definition.contains("IDL: p/msg/M\n"));
    let (_, again) = Catalog::from_schema(&schema).unwrap();
    assert_eq!(again.type_hash(&name).unwrap(), idl.type_hash(&name).unwrap());
}

/// Publishers and subscriptions compare these texts literally: see `docs/protocols/ros2-schema.md`.
#[test]
fn schemas_are_written_as_their_protocol_says() {
    let catalog = catalog();
    let schema = catalog.schema(&"sensor_msgs/msg/Range".parse().unwrap()).unwrap();
    let separator = "=".repeat(80);
    let expected = format!(
        "std_msgs/Header header\nuint8 radiation_type\nfloat32 field_of_view\nfloat32 \
         min_range\nfloat32 max_range\nfloat32 range\n\
         float32 variance\n{separator}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 \
         nanosec\n{separator}\nMSG: std_msgs/Header\n\
         builtin_interfaces/Time stamp\nstring frame_id\n"
    );
    assert_eq!(
        (&*schema.name, &*schema.encoding, &*schema.definition),
        ("sensor_msgs/msg/Range", "cdr", expected.as_str())
    );
    let request =
        catalog.schema(&"example_interfaces/srv/AddTwoInts_Request".parse().unwrap()).unwrap();
    assert_eq!(
        (&*request.name, &*request.definition),
        ("example_interfaces/srv/AddTwoInts_Request", "int64 a\nint64 b\n")
    );
    let mut demo = Catalog::new();
    let note = "module demo { module msg { struct Note { char mark; double position[3]; \
         sequence<string<10>> words; sequence<demo::msg::Part, 4> parts; }; }; };";
    let name = demo.add_idl("Note.idl", note).unwrap();
    demo.add_idl("Part.idl", "module demo { module msg { struct Part { }; }; };").unwrap();
    let example =
        include_str!("../../../docs/protocols/ros2-schema.md").split("```\n").nth(1).unwrap();
    let part = format!(
        "{separator}\nIDL: demo/msg/Part\nmodule demo {{\n  module msg {{\n    struct Part \
         {{\n      \
         uint8 structure_needs_at_least_one_member;\n    }};\n  }};\n}};\n"
    );
    assert_eq!(demo.schema(&name).unwrap().definition, format!("{example}{part}"));
    // Names that only IDL allows, and a member that resembles the placeholder of ROS 2.
    let name = demo
        .add_idl("Odd.idl", "module demo { module msg { struct Odd { long egoSpeed; }; }; };")
        .unwrap();
    assert!(demo.ros2msg(&name, driveline_rosidl::Detail::Full).unwrap().is_none());
    assert!(demo.schema(&name).unwrap().definition.contains("int32 egoSpeed;"));
    let name = "demo/Fake".parse().unwrap();
    demo.add_message(
        parse_msg(&name, "Fake.msg", "string structure_needs_at_least_one_member\n").unwrap(),
    )
    .unwrap();
    assert_eq!(
        demo.schema(&name).unwrap().definition,
        "string structure_needs_at_least_one_member\n"
    );
    let mut other = schema;
    other.encoding = "json".into();
    assert!(Catalog::from_schema(&other).unwrap_err().to_string().contains("'json', not cdr"));
}

#[test]
fn idl_features_that_ros_2_lacks_are_reported_with_their_line() {
    for (member, says) in [
        ("long double x;", "2: the type 'long double'"),
        ("sequence<sequence<long>> x;", "2: a sequence of arrays or of sequences"),
        ("long x[2][3];", "2: 'x' is an array of arrays"),
        ("Other x;", "2: the type 'Other' is not defined here"),
        ("long x; long x;", "2: 'x' is defined twice"),
        ("string<0> x;", "2: the length 0"),
        ("string<LONG> x;", "2: the length 'LONG' is no number"),
        ("@optional long x;", "2: the annotation @optional"),
        ("@default (value=300) uint8 x;", "2: the default of 'x' 300 is not between 0 and 255"),
        ("map<long, long> x;", "2: the type 'map'"),
        (
            "}; module M_Constants { const long A = 1; const long A = 1; }; struct N { long x;",
            "2: a constant that is defined twice",
        ),
        ("}; enum E { A };", "2: the keyword 'enum'"),
        ("}; struct B { long x; }; struct C { long x;", "more than two structs"),
        ("}; struct B { long x;", "two structs that are no service"),
    ] {
        let text = format!("module p {{ module msg {{ struct M {{\n{member} }}; }}; }};");
        let error = driveline_rosidl::parse_idl("M.idl", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{member}: {error}");
    }
    let wchar = "module p { module msg { struct M { wchar x; }; }; };";
    let mut catalog = Catalog::new();
    let name = catalog.add_idl("M.idl", wchar).unwrap();
    assert!(catalog.layout(&name).unwrap_err().to_string().contains("two or in four bytes"));
    assert!(catalog.type_hash(&name).is_ok());
}

#[test]
fn hashes_read_and_write_alike() {
    let text = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18";
    assert_eq!(text.parse::<TypeHash>().unwrap().to_string(), text);
    for bad in [
        "",
        "TypeHashNotSupported",
        "RIHS02_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
        "RIHS01_df",
        &text.to_uppercase(),
    ] {
        assert!(bad.parse::<TypeHash>().is_err(), "{bad}");
    }
}
