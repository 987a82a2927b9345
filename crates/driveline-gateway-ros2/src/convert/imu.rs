// SPDX-License-Identifier: Apache-2.0
//! `sensor_msgs/msg/Imu`.

use super::{Arrival, Result, ToRos, header};
use driveline_msgs::Imu;
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef};

fn numbers<const N: usize>(from: &mut Decoder<'_>) -> Result<[f64; N]> {
    let mut out = [0.0; N];
    for number in &mut out {
        *number = from.number()?;
    }
    Ok(out)
}

pub(super) fn read(mut from: Decoder<'_>, arrival: &Arrival) -> Result<Imu> {
    let imu = Imu {
        header: header::read(&mut from, arrival)?,
        orientation: numbers(&mut from)?,
        orientation_covariance: numbers(&mut from)?,
        angular_velocity: numbers(&mut from)?,
        angular_velocity_covariance: numbers(&mut from)?,
        linear_acceleration: numbers(&mut from)?,
        linear_acceleration_covariance: numbers(&mut from)?,
    };
    from.finish()?;
    Ok(imu)
}

pub(super) fn write(imu: &Imu, payload: &mut [u8]) -> Result<()> {
    let (head, _) = PlainMut::<Imu>::new(payload)?.split();
    *head = *imu;
    Ok(())
}

pub(super) fn sample(payload: &[u8], stamps_ahead_ns: Option<i64>) -> Result<ToRos<'_>> {
    let imu = PlainRef::<Imu>::new(payload)?.copy_head();
    let mut to = Encoder::new(ByteOrder::Little);
    header::write(&mut to, &imu.header, stamps_ahead_ns)?;
    to.numbers(&imu.orientation);
    to.numbers(&imu.orientation_covariance);
    to.numbers(&imu.angular_velocity);
    to.numbers(&imu.angular_velocity_covariance);
    to.numbers(&imu.linear_acceleration);
    to.numbers(&imu.linear_acceleration_covariance);
    Ok(ToRos::of(to.finish(), &[], &[]))
}
