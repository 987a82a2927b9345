# SPDX-License-Identifier: Apache-2.0
"""Stands in for a ROS 2 node with rmw_cyclonedds: Python's cyclonedds with the types of ROS 2.

  peer.py pub TOPIC string|image SIZE COUNT PERIOD_US QOS   like peer.c
  peer.py sub TOPIC string|image QOS                        like peer.c, without the stamp
  peer.py echo FROM TO TYPE                                 decodes samples, encodes them again and
                                                            publishes them; TYPE: cloud, imu,
                                                            radar or detections
"""

import os
import select
import sys
import time
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, float32, float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str


@dataclass
class String(IdlStruct, typename="std_msgs::msg::dds_::String_"):
    data: str


@dataclass
class Image(IdlStruct, typename="sensor_msgs::msg::dds_::Image_"):
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@dataclass
class PointField(IdlStruct, typename="sensor_msgs::msg::dds_::PointField_"):
    name: str
    offset: uint32
    datatype: uint8
    count: uint32


@dataclass
class PointCloud2(IdlStruct, typename="sensor_msgs::msg::dds_::PointCloud2_"):
    header: Header
    height: uint32
    width: uint32
    fields: sequence[PointField]
    is_bigendian: bool
    point_step: uint32
    row_step: uint32
    data: sequence[uint8]
    is_dense: bool


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs::msg::dds_::Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs::msg::dds_::Vector3_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Imu(IdlStruct, typename="sensor_msgs::msg::dds_::Imu_"):
    header: Header
    orientation: Quaternion
    orientation_covariance: array[float64, 9]
    angular_velocity: Vector3
    angular_velocity_covariance: array[float64, 9]
    linear_acceleration: Vector3
    linear_acceleration_covariance: array[float64, 9]


@dataclass
class RadarReturn(IdlStruct, typename="radar_msgs::msg::dds_::RadarReturn_"):
    range: float32
    azimuth: float32
    elevation: float32
    doppler_velocity: float32
    amplitude: float32


@dataclass
class RadarScan(IdlStruct, typename="radar_msgs::msg::dds_::RadarScan_"):
    header: Header
    returns: sequence[RadarReturn]


@dataclass
class Point(IdlStruct, typename="geometry_msgs::msg::dds_::Point_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Pose(IdlStruct, typename="geometry_msgs::msg::dds_::Pose_"):
    position: Point
    orientation: Quaternion


@dataclass
class PoseWithCovariance(IdlStruct, typename="geometry_msgs::msg::dds_::PoseWithCovariance_"):
    pose: Pose
    covariance: array[float64, 36]


@dataclass
class ObjectHypothesis(IdlStruct, typename="vision_msgs::msg::dds_::ObjectHypothesis_"):
    class_id: str
    score: float64


@dataclass
class ObjectHypothesisWithPose(
    IdlStruct, typename="vision_msgs::msg::dds_::ObjectHypothesisWithPose_"
):
    hypothesis: ObjectHypothesis
    pose: PoseWithCovariance


@dataclass
class Point2D(IdlStruct, typename="vision_msgs::msg::dds_::Point2D_"):
    x: float64
    y: float64


@dataclass
class Pose2D(IdlStruct, typename="vision_msgs::msg::dds_::Pose2D_"):
    position: Point2D
    theta: float64


@dataclass
class BoundingBox2D(IdlStruct, typename="vision_msgs::msg::dds_::BoundingBox2D_"):
    center: Pose2D
    size_x: float64
    size_y: float64


@dataclass
class Detection2D(IdlStruct, typename="vision_msgs::msg::dds_::Detection2D_"):
    header: Header
    results: sequence[ObjectHypothesisWithPose]
    bbox: BoundingBox2D
    id: str


@dataclass
class Detection2DArray(IdlStruct, typename="vision_msgs::msg::dds_::Detection2DArray_"):
    header: Header
    detections: sequence[Detection2D]


ECHOED = {"cloud": PointCloud2, "imu": Imu, "radar": RadarScan, "detections": Detection2DArray}


def qos_of(text):
    depth = int(text[2:])
    reliable = Policy.Reliability.Reliable(duration(seconds=10))
    history = Policy.History.KeepLast(depth) if depth else Policy.History.KeepAll
    return Qos(
        reliable if text[0] == "r" else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if text[1] == "t" else Policy.Durability.Volatile,
        history,
        *([Policy.DurabilityService(0, history, -1, -1, -1)] if depth else []),
        Policy.DataRepresentation(use_cdrv0_representation=True),
    )


def input_has_ended(wait_s):
    """Returns true if standard input ends within `wait_s`."""
    return bool(select.select([0], [], [], wait_s)[0]) and not os.read(0, 1)


def fnv(data):
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def print_line(line):
    print(line, flush=True)


def publish(participant, topic, kind, size, count, period_us, qos):
    image = kind == "image"
    topic = Topic(participant, topic, Image if image else String)
    writer = DataWriter(participant, topic, qos=qos_of(qos))
    while qos[1] != "t" and not writer.get_matched_subscriptions():
        if input_has_ended(0.005):
            return
    print_line("matched")
    for n in range(int(count)):
        letter = b"a"[0] + n % 26
        if image:
            header = Header(Time(0, 0), "cam")
            writer.write(Image(header, 1, int(size), "mono8", 0, int(size), [letter] * int(size)))
        else:
            writer.write(String(chr(letter) * int(size)))
        # time: paces the publisher
        time.sleep(int(period_us) / 1e6)
    print_line("written")
    while not input_has_ended(1):
        pass


def samples(reader):
    """Yields arriving samples until standard input ends."""
    while not input_has_ended(0):
        taken = [s for s in reader.take(N=1) if s.sample_info.valid_data]
        yield from taken
        if not taken and input_has_ended(0.002):
            return


def subscribe(participant, topic, kind, qos):
    image = kind == "image"
    topic = Topic(participant, topic, Image if image else String)
    reader = DataReader(participant, topic, qos=qos_of(qos))
    for n, sample in enumerate(samples(reader)):
        data = bytes(sample.data) if image else sample.data.encode()
        print_line(f"{n} {len(data)} {fnv(data)} {sample.header.frame_id if image else '-'}")


def echo(participant, topic, back, kind):
    message_type = ECHOED[kind]
    writer = DataWriter(participant, Topic(participant, back, message_type), qos=qos_of("rt4"))
    reader = DataReader(participant, Topic(participant, topic, message_type), qos=qos_of("rt4"))
    for sample in samples(reader):
        writer.write(sample)
        print_line(f"echoed {sample.header.frame_id}")


def main(arguments):
    role, *rest = arguments
    participant = DomainParticipant(int(os.environ["ROS_DOMAIN_ID"]))
    {"pub": publish, "sub": subscribe, "echo": echo}[role](participant, *rest)


if __name__ == "__main__":
    main(sys.argv[1:])
