// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::points::{PointXyz, PointXyzAligned, PointXyzi};
use proptest::prelude::*;

#[repr(C, align(64))]
struct Payload([u8; 1024]);

fn cloud_of_two(memory: &mut Payload) -> usize {
    let len = PointCloud::payload_len::<PointXyzi>(2).unwrap();
    let payload = PlainMut::new(&mut memory.0[..len]).unwrap();
    let mut cloud = CloudMut::<PointXyzi>::new(payload, Header::default(), 2, 1).unwrap();
    cloud.set_dense();
    cloud.points_mut()[1] = PointXyzi { x: 1.0, y: 2.0, z: 3.0, intensity: 4.0 };
    len
}

#[test]
fn points_are_written_and_read_in_place() {
    let mut memory = Payload([0; 1024]);
    let len = cloud_of_two(&mut memory);
    assert_eq!(len, 640 + 32);
    let cloud = CloudView::new(PlainRef::new(&memory.0[..len]).unwrap()).unwrap();
    let points = cloud.points::<PointXyzi>().unwrap();
    assert_eq!(points[1], PointXyzi { x: 1.0, y: 2.0, z: 3.0, intensity: 4.0 });
    assert_eq!(points.as_ptr().addr(), memory.0[640..].as_ptr().addr());
    let names: Vec<_> = cloud.fields().map(|f| f.to_string()).collect();
    assert_eq!(
        names.join(", "),
        "'x' Float32 at offset 0, 'y' Float32 at offset 4, 'z' Float32 at offset 8, 'intensity' \
         Float32 at offset 12"
    );
    // A point type of the same size with fewer fields is accepted, as in PCL.
    assert_eq!(cloud.points::<PointXyzAligned>().unwrap()[1].z, 3.0);
    assert!(matches!(
        cloud.points::<PointXyz>(),
        Err(CloudError::Spacing { size: 12, point_step: 16, .. })
    ));
}

#[test]
fn points_of_another_type_are_refused_by_field() {
    let mut memory = Payload([0; 1024]);
    let len = cloud_of_two(&mut memory);
    let (head, data) = PlainMut::<PointCloud>::new(&mut memory.0[..len]).unwrap().split();
    head.fields[3].datatype = Datatype::Uint32 as u32;
    let view = CloudView::new(PlainRef::from_parts(&*head, &*data)).unwrap();
    let e = view.points::<PointXyzi>().unwrap_err().to_string();
    assert!(
        e.contains(
            "has 'intensity' Float32 at offset 12, the cloud has 'intensity' Uint32 at offset 12"
        ),
        "{e}"
    );
    head.field_count = 3;
    let view = CloudView::new(PlainRef::from_parts(&*head, &*data)).unwrap();
    let e = view.points::<PointXyzi>().unwrap_err().to_string();
    assert!(
        e.contains("the cloud has no such field; the cloud's fields are 'x' Float32 at offset 0"),
        "{e}"
    );
}

#[test]
fn numbers_that_do_not_fit_the_data_are_refused() {
    let good = PointCloud::new::<PointXyz>(Header::default(), 2, 2).unwrap();
    let data = [0; 48];
    let error = |change: fn(&mut PointCloud)| {
        let mut head = good;
        change(&mut head);
        CloudView::new(PlainRef::from_parts(&head, &data)).unwrap_err()
    };
    assert_eq!(
        error(|h| h.height = 3),
        CloudError::Data { data_len: 48, height: 3, row_step: 24, needed: 72 }
    );
    assert_eq!(
        error(|h| h.row_step = 23),
        CloudError::RowStep { row_step: 23, width: 2, point_step: 12 }
    );
    assert_eq!(error(|h| h.field_count = 17), CloudError::FieldCount { field_count: 17 });
    assert!(matches!(
        error(|h| h.fields[2].offset = 9),
        CloudError::FieldOutside { end: 13, point_step: 12, .. }
    ));
    assert!(matches!(
        error(|h| h.fields[2] = PointField { offset: 9, count: 0, ..h.fields[2] }),
        CloudError::FieldOutside { end: 13, point_step: 12, .. }
    ));
    assert!(matches!(error(|h| h.fields[2].count = u32::MAX), CloudError::FieldOutside { .. }));
    assert!(matches!(
        error(|h| h.fields[1].datatype = 9),
        CloudError::FieldType { datatype: 9, .. }
    ));
    assert!(matches!(
        error(|h| h.fields[1].name = [b'x'; 20]),
        CloudError::FieldName { index: 1, .. }
    ));
    assert!(matches!(
        PointCloud::new::<PointXyz>(Header::default(), u32::MAX, 1),
        Err(CloudError::RowStep { .. })
    ));
}

#[test]
fn a_count_that_a_driver_leaves_out_is_one() {
    let mut head = PointCloud::new::<PointXyz>(Header::default(), 2, 2).unwrap();
    head.fields.iter_mut().for_each(|f| f.count = 0);
    let data = Payload([0; 1024]);
    let view = CloudView::new(PlainRef::from_parts(&head, &data.0)).unwrap();
    assert!(view.fields().all(|f| f.count == 1));
    assert_eq!(view.points::<PointXyz>().unwrap().len(), 4);
}

#[test]
fn rows_with_gaps_are_no_array() {
    let head = PointCloud {
        row_step: 40,
        ..PointCloud::new::<PointXyzi>(Header::default(), 2, 2).unwrap()
    };
    let data = Payload([0; 1024]);
    let e = CloudView::new(PlainRef::from_parts(&head, &data.0))
        .unwrap()
        .points::<PointXyzi>()
        .unwrap_err();
    assert!(matches!(e, CloudError::Spacing { row_step: 40, .. }));
}

proptest! {
    #[test]
    fn any_head_gives_points_inside_the_data_or_an_error(
        width in 0u32..6, height in 0u32..6, point_step in 0u32..20, row_step: u32, tight: bool,
        field_count in 0u32..18, offset in 0u32..20, datatype in 0u32..10, count: u8,
        len in 0usize..400,
    ) {
        let mut head = PointCloud::new::<PointXyzi>(Header::default(), width, height).unwrap();
        if !tight {
            (head.point_step, head.row_step) = (point_step, row_step % 200);
        }
        head.field_count = field_count;
        head.fields[4] = PointField { name: [0; 20], offset, datatype, count: u32::from(count) };
        let data = Payload([0; 1024]);
        if let Ok(view) = CloudView::new(PlainRef::from_parts(&head, &data.0[..len])) {
            prop_assert!(view.fields().count() == field_count as usize);
            if let Ok(points) = view.points::<PointXyzi>() {
                prop_assert_eq!(points.len(), (width * height) as usize);
            }
        }
    }
}
