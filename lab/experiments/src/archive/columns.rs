// SPDX-License-Identifier: Apache-2.0
//! Arrow files with columns of 64-bit words, and the file of observations.

use crate::words::word;
use anyhow::{Context, Result, anyhow, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use driveline_bench::observations::{Observations, Point};
use driveline_types::text::plain;
use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Once};

/// A column to write.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) values: ArrayRef,
}

impl Column {
    /// Makes a column of numbers, some of which may be missing.
    pub(super) fn numbers(name: &'static str, values: impl Iterator<Item = Option<u64>>) -> Self {
        Self { name, values: Arc::new(values.collect::<UInt64Array>()) }
    }

    fn texts<'a>(name: &'static str, values: impl Iterator<Item = &'a str>) -> Self {
        Self { name, values: Arc::new(StringArray::from_iter_values(values)) }
    }
}

/// Writes a file in the Arrow IPC format.
pub(super) fn write(path: &Path, columns: Vec<Column>) -> Result<()> {
    let field = |c: &Column| {
        Field::new(c.name, c.values.data_type().clone(), c.values.data_type() == &DataType::UInt64)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let batch =
        RecordBatch::try_new(schema.clone(), columns.into_iter().map(|c| c.values).collect())?;
    let mut writer = FileWriter::try_new_buffered(File::create(path)?, &schema)?;
    writer.write(&batch)?;
    // Syncs the file, because the account of the run, which is written later, refers to it.
    Ok(writer
        .into_inner()?
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?)
}

/// Reads all batches of a file.
pub(super) fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    let file = File::open(path)?;
    quietly(|| Ok(FileReader::try_new_buffered(file, None)?.collect::<Result<_, _>>()?))
        .unwrap_or_else(|| Err(anyhow!("it is damaged: offsets in it are beyond its end")))
}

thread_local! {
    /// True while panics on this thread are not printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Returns the value of `of`; `None` if it panicked, as the reader of Arrow files does for damaged
/// lengths in a file.
fn quietly<T>(of: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(of));
    QUIET.set(false);
    outcome.ok()
}

/// Returns a column of numbers.
pub(super) fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a UInt64Array> {
    let column = batch.column_by_name(name).with_context(|| format!("it has no column {name}"))?;
    column
        .as_primitive_opt::<UInt64Type>()
        .with_context(|| format!("the column {name} has no whole numbers"))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray> {
    let column = batch.column_by_name(name).with_context(|| format!("it has no column {name}"))?;
    column.as_string_opt::<i32>().with_context(|| format!("the column {name} has no texts"))
}

/// Writes one row for each point: subject, quantity, time, value. Counters and other data are in
/// the account of the run.
pub(super) fn write_observations(path: &Path, o: &Observations) -> Result<()> {
    let names: Vec<String> = o.series.iter().map(|s| word(&s.quantity)).collect();
    let rows = || {
        o.series
            .iter()
            .zip(&names)
            .flat_map(|(s, q)| s.points.iter().map(move |p| (s.subject.as_str(), q.as_str(), p)))
    };
    write(
        path,
        vec![
            Column::texts("subject", rows().map(|(s, _, _)| s)),
            Column::texts("quantity", rows().map(|(_, q, _)| q)),
            Column::numbers("time_ns", rows().map(|(_, _, p)| Some(p.time_ns))),
            Column::numbers("value", rows().map(|(_, _, p)| Some(p.value))),
        ],
    )
}

pub(super) fn read_observations(path: &Path) -> Result<Observations> {
    let mut o = Observations::default();
    for batch in read(path)? {
        let (subjects, quantities) = (texts(&batch, "subject")?, texts(&batch, "quantity")?);
        let (times, values) = (numbers(&batch, "time_ns")?, numbers(&batch, "value")?);
        let mut row = 0;
        while row < batch.num_rows() {
            // Points of a series are adjacent.
            let (subject, quantity) = (subjects.value(row), quantities.value(row));
            let end = (row..batch.num_rows())
                .find(|r| subjects.value(*r) != subject || quantities.value(*r) != quantity);
            let end = end.unwrap_or(batch.num_rows());
            let parsed = serde_json::from_value(quantity.into())
                .with_context(|| format!("'{quantity}' is no quantity"))?;
            o.put(
                &plain(subject),
                parsed,
                (row..end).map(|r| Point { time_ns: times.value(r), value: values.value(r) }),
            );
            ensure!(end > row, "a series without an end");
            row = end;
        }
    }
    Ok(o)
}
