// SPDX-License-Identifier: Apache-2.0
//! Types of samples in Driveline and in ROS 2.

use driveline_gateway::ros2::{Definitions, Form, LeftOut, Rule};
use driveline_rosidl::cdr::{self, CdrError};
use driveline_rosidl::{
    CDR_ENCODING, Catalog, DefinitionError, Layout, TypeHash, TypeName, parse_msg,
};
use driveline_types::{Plain, ProtobufMessage, Schema};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Messages of Driveline that the gateway converts to and from messages of ROS 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Image,
    CompressedImage,
    PointCloud,
    Imu,
    RadarScan,
    Detections2D,
    /// Only towards ROS.
    RunHealth,
}

/// Fields of these types, and of the types that they contain, in ROS 2: names and types, in order.
/// Type hashes and layouts are computed from them. `Clock` is the type of `/clock`.
const DEFINITIONS: [(&str, &str); 20] = [
    ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec\n"),
    ("rosgraph_msgs/msg/Clock", "builtin_interfaces/Time clock\n"),
    ("std_msgs/msg/Header", "builtin_interfaces/Time stamp\nstring frame_id\n"),
    (
        "sensor_msgs/msg/Image",
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 \
         is_bigendian\nuint32 step\nuint8[] data\n",
    ),
    ("sensor_msgs/msg/CompressedImage", "std_msgs/Header header\nstring format\nuint8[] data\n"),
    ("sensor_msgs/msg/PointField", "string name\nuint32 offset\nuint8 datatype\nuint32 count\n"),
    (
        "sensor_msgs/msg/PointCloud2",
        "std_msgs/Header header\nuint32 height\nuint32 width\nPointField[] fields\nbool \
         is_bigendian\nuint32 point_step\nuint32 row_step\nuint8[] data\nbool is_dense\n",
    ),
    ("geometry_msgs/msg/Quaternion", "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1\n"),
    ("geometry_msgs/msg/Vector3", "float64 x\nfloat64 y\nfloat64 z\n"),
    ("geometry_msgs/msg/Point", "float64 x\nfloat64 y\nfloat64 z\n"),
    ("geometry_msgs/msg/Pose", "Point position\nQuaternion orientation\n"),
    ("geometry_msgs/msg/PoseWithCovariance", "Pose pose\nfloat64[36] covariance\n"),
    (
        "sensor_msgs/msg/Imu",
        "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\nfloat64[9] \
         orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\nfloat64[9] \
         angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\nfloat64[9] \
         linear_acceleration_covariance\n",
    ),
    (
        "radar_msgs/msg/RadarReturn",
        "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 \
         amplitude\n",
    ),
    ("radar_msgs/msg/RadarScan", "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n"),
    ("vision_msgs/msg/ObjectHypothesis", "string class_id\nfloat64 score\n"),
    (
        "vision_msgs/msg/ObjectHypothesisWithPose",
        "ObjectHypothesis hypothesis\ngeometry_msgs/PoseWithCovariance pose\n",
    ),
    ("vision_msgs/msg/Point2D", "float64 x\nfloat64 y\n"),
    ("vision_msgs/msg/Pose2D", "vision_msgs/Point2D position\nfloat64 theta\n"),
    (
        "vision_msgs/msg/BoundingBox2D",
        "vision_msgs/Pose2D center\nfloat64 size_x\nfloat64 size_y\n",
    ),
];
const DIAGNOSTICS: [(&str, &str); 3] = [
    ("diagnostic_msgs/msg/KeyValue", "string key\nstring value\n"),
    (
        "diagnostic_msgs/msg/DiagnosticStatus",
        "byte OK=0\nbyte WARN=1\nbyte ERROR=2\nbyte STALE=3\nbyte level\nstring name\nstring \
         message\nstring hardware_id\nKeyValue[] values\n",
    ),
    ("diagnostic_msgs/msg/DiagnosticArray", "std_msgs/Header header\nDiagnosticStatus[] status\n"),
];
const DETECTIONS: [(&str, &str); 2] = [
    (
        "vision_msgs/msg/Detection2D",
        "std_msgs/Header header\nObjectHypothesisWithPose[] results\nBoundingBox2D bbox\nstring \
         id\n",
    ),
    (
        "vision_msgs/msg/Detection2DArray",
        "std_msgs/Header header\nvision_msgs/Detection2D[] detections\n",
    ),
];

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Image,
        Self::CompressedImage,
        Self::PointCloud,
        Self::Imu,
        Self::RadarScan,
        Self::Detections2D,
        Self::RunHealth,
    ];

    fn ros_name(self) -> &'static str {
        match self {
            Self::Image => "sensor_msgs/msg/Image",
            Self::CompressedImage => "sensor_msgs/msg/CompressedImage",
            Self::PointCloud => "sensor_msgs/msg/PointCloud2",
            Self::Imu => "sensor_msgs/msg/Imu",
            Self::RadarScan => "radar_msgs/msg/RadarScan",
            Self::Detections2D => "vision_msgs/msg/Detection2DArray",
            Self::RunHealth => "diagnostic_msgs/msg/DiagnosticArray",
        }
    }

    /// Returns its schema in Driveline.
    #[must_use]
    pub fn schema(self) -> Schema {
        match self {
            Self::Image => driveline_msgs::Image::schema(),
            Self::CompressedImage => driveline_msgs::CompressedImage::schema(),
            Self::PointCloud => driveline_msgs::PointCloud::schema(),
            Self::Imu => driveline_msgs::Imu::schema(),
            Self::RadarScan => driveline_msgs::RadarScan::schema(),
            Self::Detections2D => driveline_msgs::proto::Detections2D::schema(),
            Self::RunHealth => driveline_msgs::proto::RunHealth::schema(),
        }
    }

    /// Returns true if samples from ROS 2 are converted too. Diagnostics of ROS nodes have other
    /// content than the health of a run, and are not converted.
    fn comes_from_ros(self) -> bool {
        self != Self::RunHealth
    }

    /// Returns the kind to which samples of this ROS 2 type are converted.
    #[must_use]
    pub fn of_ros(name: &TypeName) -> Option<Self> {
        let name = name.to_string();
        Self::ALL.into_iter().find(|k| k.comes_from_ros() && k.ros_name() == name)
    }
}

/// Conversion of samples of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// Name of the type in ROS 2.
    pub ros: TypeName,
    /// Hash of the type in ROS 2; `None` if its definition is not complete.
    pub hash: Option<TypeHash>,
    /// Schema in Driveline.
    pub schema: Schema,
    /// Kind of conversion; `None` if samples pass unchanged.
    pub kind: Option<Kind>,
    /// Layout of samples in ROS 2; `None` if it is unknown, or if implementations of ROS 2 differ
    /// in it (`wchar`).
    pub layout: Option<Layout>,
}

impl Crossing {
    fn converted(kind: Kind, ros: TypeName, known: &Catalog) -> Self {
        Self {
            hash: known.type_hash(&ros).ok(),
            schema: kind.schema(),
            kind: Some(kind),
            layout: known.layout(&ros).ok(),
            ros,
        }
    }

    /// Creates the crossing for a schema that contains the definition.
    fn of_cdr(schema: &Schema) -> Result<Self, TypeError> {
        let (ros, catalog) = Catalog::from_schema(schema)?;
        Ok(Self {
            hash: catalog.type_hash(&ros).ok(),
            schema: schema.clone(),
            kind: None,
            layout: catalog.layout(&ros).ok(),
            ros,
        })
    }

    /// Checks that a sample of ROS 2 has this type, as far as the layout is known.
    ///
    /// # Errors
    /// The first fault in the sample.
    pub fn check(&self, sample: &[u8]) -> Result<(), CdrError> {
        self.layout.as_ref().map_or(Ok(()), |layout| cdr::check(layout, sample))
    }
}

/// Types of a service on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceTypes {
    /// Name of the service type in ROS 2.
    pub ros: TypeName,
    /// Hash in ROS 2: of request, response and event together.
    pub hash: Option<TypeHash>,
    /// Schema of requests in Driveline.
    pub request: Schema,
    /// Schema of responses in Driveline.
    pub response: Schema,
}

/// Reason why a type cannot cross.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TypeError {
    /// The type's definition is missing or has a mistake.
    #[error("{0}")]
    Definition(#[from] DefinitionError),
    /// The DDS type is not a message of ROS 2.
    #[error("its type '{0}' is no message of ROS 2")]
    NotRos(String),
    /// The Driveline type has no counterpart.
    #[error(
        "its type '{name}' ({encoding}) has no counterpart in ROS 2; publish a message of \
         `driveline_msgs`, or CDR with the ROS 2 type's schema"
    )]
    NoCounterpart {
        /// Name of the schema.
        name: String,
        /// Encoding of the schema.
        encoding: String,
    },
    /// The Driveline type has the expected name, but another definition.
    #[error("its type '{0}' is of another release of Driveline: build both from one")]
    OtherLayout(String),
}

/// Definitions of types: built-in ones, and those of packages.
#[derive(Debug)]
pub struct Types {
    known: Catalog,
    packages: Definitions,
}

impl Types {
    /// Reads the definitions of packages in these directories. A definition with a mistake is
    /// skipped. Blocks on files.
    ///
    /// # Errors
    /// The first mistake that [`Definitions::unusable`] returns, such as a directory without
    /// definitions.
    pub fn new(packages: &[PathBuf]) -> Result<Self, DefinitionError> {
        let mut known = Catalog::new();
        for (name, text) in DEFINITIONS.iter().chain(&DETECTIONS).chain(&DIAGNOSTICS) {
            // A test makes sure that the built-in definitions have no mistakes.
            if let Ok(name) = name.parse() {
                known.add_message(parse_msg(&name, "built in", text)?)?;
            }
        }
        let packages = Definitions::read(packages, Path::new(""));
        let unusable = packages.unusable().next().map(|(_, error)| error.clone());
        unusable.map_or(Ok(Self { known, packages }), Err)
    }

    /// Returns the messages of the packages that rules could carry from ROS 2, but that have
    /// mistakes.
    #[must_use]
    pub fn left_out(&self, rules: &[Rule]) -> Vec<LeftOut> {
        self.packages.left_out(rules)
    }

    /// Returns the conversion of a DDS type from ROS 2.
    ///
    /// # Errors
    /// [`TypeError`]
    pub fn from_ros(&self, dds_type: &str, form: Form) -> Result<Crossing, TypeError> {
        let ros = TypeName::from_dds(dds_type)
            .map_err(|_| TypeError::NotRos(dds_type.chars().take(80).collect()))?;
        match Kind::of_ros(&ros).filter(|_| form == Form::Converted) {
            Some(kind) => Ok(Crossing::converted(kind, ros, &self.known)),
            None => {
                // A type that is in no package is taken from the built-in definitions, if they
                // have it.
                if self.packages.has(&ros) || self.known.message(&ros).is_none() {
                    let schema = self.packages.message(&ros)?;
                    return Crossing::of_cdr(&schema);
                }
                Crossing::of_cdr(&self.known.schema(&ros)?)
            }
        }
    }

    /// Returns the types of a service's requests and responses on both sides.
    ///
    /// # Errors
    /// Missing or wrong parts of the definition, or an invalid name.
    pub fn service(&self, ros_type: &str) -> Result<ServiceTypes, DefinitionError> {
        let (ros, request, response) = self.packages.service(ros_type)?;
        Ok(ServiceTypes { hash: self.packages.type_hash(&ros), ros, request, response })
    }

    /// Returns the conversion of a schema to ROS 2.
    ///
    /// # Errors
    /// [`TypeError`]
    pub fn to_ros(&self, schema: &Schema) -> Result<Crossing, TypeError> {
        if schema.encoding == CDR_ENCODING {
            return Crossing::of_cdr(schema);
        }
        let Some(kind) = Kind::ALL.into_iter().find(|k| k.schema().name == schema.name) else {
            return Err(TypeError::NoCounterpart {
                name: schema.name.to_string(),
                encoding: schema.encoding.to_string(),
            });
        };
        if kind.schema().hash() != schema.hash() {
            return Err(TypeError::OtherLayout(schema.name.to_string()));
        }
        let ros: TypeName =
            kind.ros_name().parse().map_err(|_| TypeError::NotRos(kind.ros_name().into()))?;
        Ok(Crossing::converted(kind, ros, &self.known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_crosses_both_ways_and_has_a_hash() {
        let from_ros = Kind::ALL.into_iter().filter(|k| k.comes_from_ros());
        let names: Vec<_> = from_ros.clone().map(Kind::ros_name).collect();
        assert_eq!(names, driveline_gateway::ros2::CONVERTED);
        let types = Types::new(&[]).unwrap();
        for kind in from_ros {
            let to = types.to_ros(&kind.schema()).unwrap();
            assert_eq!((to.kind, to.hash.is_some()), (Some(kind), true), "{kind:?}");
            assert_eq!(types.from_ros(&to.ros.dds(), Form::Converted).unwrap(), to);
            let cdr = types.from_ros(&to.ros.dds(), Form::Cdr).unwrap();
            assert_eq!((cdr.kind, cdr.hash, cdr.schema.encoding.as_ref()), (None, to.hash, "cdr"));
            assert_eq!(types.to_ros(&cdr.schema).unwrap(), cdr);
        }
    }

    #[test]
    fn health_is_sent_as_diagnostics_and_diagnostics_of_ros_pass_unchanged() {
        let types = Types::new(&[]).unwrap();
        let to = types.to_ros(&Kind::RunHealth.schema()).unwrap();
        assert_eq!((to.kind, to.hash.is_some()), (Some(Kind::RunHealth), true));
        let back = types.from_ros("diagnostic_msgs::msg::dds_::DiagnosticArray_", Form::Converted);
        let back = back.unwrap();
        assert_eq!((back.kind, back.hash, back.schema.encoding.as_ref()), (None, to.hash, "cdr"));
    }

    /// Hashes that `ros2 topic info --verbose` of Jazzy shows.
    #[test]
    fn type_hashes_equal_those_of_ros_2() {
        let types = Types::new(&[]).unwrap();
        let hash = |kind: Kind| types.to_ros(&kind.schema()).unwrap().hash.unwrap().to_string();
        assert_eq!(
            hash(Kind::Image),
            "RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47"
        );
    }

    /// The test `rosbags` of driveline-rosidl checks the definitions of Humble and of Jazzy for the
    /// same hashes.
    #[test]
    fn built_in_definitions_are_those_of_humble_and_jazzy() {
        let known = include_str!("../../driveline-rosidl/tests/upstream_hashes.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        let types = Types::new(&[]).unwrap();
        let built_in = |name: &str| {
            format!("{name} {}", types.known.type_hash(&name.parse().unwrap()).unwrap())
        };
        let all: Vec<_> =
            DEFINITIONS.iter().chain(&DETECTIONS).map(|(name, _)| built_in(name)).collect();
        assert_eq!(all, known.collect::<Vec<_>>());
    }

    #[test]
    fn a_service_has_two_schemas_and_a_hash_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("example_interfaces");
        std::fs::create_dir_all(package.join("srv")).unwrap();
        std::fs::write(package.join("srv/AddTwoInts.srv"), "int64 a\nint64 b\n---\nint64 sum\n")
            .unwrap();
        let types = Types::new(&[package]).unwrap();
        let of = types.service("example_interfaces/srv/AddTwoInts").unwrap();
        assert_eq!(
            (&*of.request.name, &*of.request.definition),
            ("example_interfaces/srv/AddTwoInts_Request", "int64 a\nint64 b\n")
        );
        assert_eq!(
            (&*of.response.name, &*of.response.encoding),
            ("example_interfaces/srv/AddTwoInts_Response", "cdr")
        );
        // The hash has the form that rmw_zenoh of Jazzy writes in its keys.
        assert_eq!(
            of.hash.unwrap().to_string(),
            "RIHS01_e118de6bf5eeb66a2491b5bda11202e7b68f198d6f67922cf30364858239c81a"
        );
        let reported = types.service("nav_msgs/srv/GetMap").unwrap_err().to_string();
        assert!(
            reported.contains("nav_msgs/srv/GetMap: is not defined")
                && reported.contains("`types`"),
            "{reported}"
        );
        let reported = types.service("example_interfaces/srv/AddTwoInt").unwrap_err().to_string();
        assert!(
            reported.contains("did you mean `example_interfaces/srv/AddTwoInts`?"),
            "{reported}"
        );
    }

    /// `driveline validate` reports the same mistakes earlier.
    #[test]
    fn a_mistake_in_a_definition_leaves_out_that_type_alone() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("demo_msgs");
        std::fs::create_dir_all(package.join("msg")).unwrap();
        std::fs::write(package.join("msg/Bad.msg"), "int33 x\n").unwrap();
        std::fs::write(package.join("msg/Good.msg"), "int32 x\n").unwrap();
        std::fs::write(package.join("msg/Far.msg"), "far_msgs/X x\n").unwrap();
        let types = Types::new(&[package]).unwrap();
        assert!(types.from_ros("demo_msgs::msg::dds_::Good_", Form::Converted).is_ok());
        let reported = |name: &str| {
            types
                .from_ros(&format!("demo_msgs::msg::dds_::{name}_"), Form::Converted)
                .unwrap_err()
                .to_string()
        };
        assert!(reported("Bad").contains("demo_msgs/msg/Bad.msg:1: "), "{}", reported("Bad"));
        assert!(reported("Far").contains(
            "Far.msg:1: the type far_msgs/msg/X of 'x' is not defined; add \
                 the directory of the package far_msgs"
        ));
        let left: Vec<_> = types
            .left_out(&[Rule::new("/a", driveline_gateway::ros2::Direction::FromRos)])
            .iter()
            .map(LeftOut::what)
            .collect();
        assert_eq!(
            left,
            [
                "the message type demo_msgs/msg/Bad is left out",
                "the message type demo_msgs/msg/Far is left out"
            ]
        );
    }

    #[test]
    fn types_that_cannot_be_converted_are_reported_with_the_remedy() {
        let types = Types::new(&[]).unwrap();
        let reported = types
            .from_ros("tf2_msgs::msg::dds_::TFMessage_", Form::Converted)
            .unwrap_err()
            .to_string();
        assert!(
            reported.contains("tf2_msgs/msg/TFMessage")
                && reported.contains("add the directory of the package tf2_msgs"),
            "{reported}"
        );
        assert!(
            types
                .from_ros("ShapeType", Form::Converted)
                .unwrap_err()
                .to_string()
                .contains("no message of ROS 2")
        );
        let reported =
            types.to_ros(&driveline_msgs::proto::LaneMarkings::schema()).unwrap_err().to_string();
        assert!(
            reported.contains("LaneMarkings") && reported.contains("no counterpart"),
            "{reported}"
        );
        let other = Schema { definition: "".into(), ..Kind::Image.schema() };
        assert!(types.to_ros(&other).unwrap_err().to_string().contains("another release"));
        let none = Types::new(&["/nowhere/at_all".into()]).unwrap_err().to_string();
        assert!(
            none.contains("/nowhere/at_all") && none.contains("directory of a package"),
            "{none}"
        );
    }
}
