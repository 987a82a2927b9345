// SPDX-License-Identifier: Apache-2.0
//! Raw stamps: rows of five little-endian 64-bit words.

/// Stamps of one sample at the sending end, in nanoseconds on `CLOCK_MONOTONIC`; 0 for missing
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRow {
    /// Sequence number.
    pub sequence: u64,
    /// Time at which it was due.
    pub scheduled: u64,
    /// Before its memory was requested.
    pub before_fill: u64,
    /// The payload exists; just before `publish()`.
    pub before_publish: u64,
    /// `publish()` has returned.
    pub returned: u64,
}

/// Stamps of one sample at the receiving end, in nanoseconds on `CLOCK_MONOTONIC`; 0 for missing
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedRow {
    /// Sequence number.
    pub sequence: u64,
    /// The wait returned.
    pub woken: u64,
    /// The sample is in hand.
    pub in_hand: u64,
    /// The payload is copied.
    pub copied: u64,
    /// The payload is read and verified.
    pub read: u64,
}

/// A row of a raw file.
pub trait Row: Sized {
    /// Returns the row as words.
    fn words(&self) -> [u64; 5];
    /// Makes a row from words.
    fn from_words(w: [u64; 5]) -> Self;
}

impl Row for SentRow {
    fn words(&self) -> [u64; 5] {
        [self.sequence, self.scheduled, self.before_fill, self.before_publish, self.returned]
    }
    fn from_words([sequence, scheduled, before_fill, before_publish, returned]: [u64; 5]) -> Self {
        Self { sequence, scheduled, before_fill, before_publish, returned }
    }
}

impl Row for ReceivedRow {
    fn words(&self) -> [u64; 5] {
        [self.sequence, self.woken, self.in_hand, self.copied, self.read]
    }
    fn from_words([sequence, woken, in_hand, copied, read]: [u64; 5]) -> Self {
        Self { sequence, woken, in_hand, copied, read }
    }
}

/// Writes rows to a file.
///
/// # Errors
/// The error of the file system.
pub fn write_rows<R: Row>(path: &std::path::Path, rows: &[R]) -> std::io::Result<()> {
    let bytes: Vec<u8> = rows.iter().flat_map(Row::words).flat_map(u64::to_le_bytes).collect();
    std::fs::write(path, bytes)
}

/// Reads the rows of a file that a measured process wrote: at most as many as a run can have.
///
/// # Errors
/// The error of the file system; `InvalidData` if the file is not regular, has more than `most`
/// rows, or does not have a whole number of rows.
pub fn read_rows<R: Row>(path: &std::path::Path, most: usize) -> std::io::Result<Vec<R>> {
    let bytes = read_bounded(path, most.saturating_mul(40))?;
    let (rows, rest) = bytes.as_chunks::<40>();
    if !rest.is_empty() {
        return Err(wrong(format!("{} bytes are no whole number of rows", bytes.len())));
    }
    let word = |chunk: &[u8; 8]| u64::from_le_bytes(*chunk);
    Ok(rows
        .iter()
        .map(|row| {
            let (words, _) = row.as_chunks::<8>();
            R::from_words(std::array::from_fn(|i| words.get(i).map_or(0, word)))
        })
        .collect())
}

/// Reads a regular file of at most this many bytes.
pub(crate) fn read_bounded(path: &std::path::Path, most: usize) -> std::io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(wrong("it is no plain file".into()));
    }
    if about.len() > most as u64 {
        return Err(wrong(format!("it has {} bytes, and this run at most {most}", about.len())));
    }
    std::fs::read(path)
}

fn wrong(what: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let rows: Vec<_> = (1..9)
            .map(|i| SentRow {
                sequence: i,
                scheduled: i * 2,
                before_fill: u64::MAX,
                before_publish: i * 4,
                returned: i * 5,
            })
            .collect();
        write_rows(&path, &rows).unwrap();
        assert_eq!(read_rows::<SentRow>(&path, 8).unwrap(), rows);
        assert!(read_rows::<SentRow>(&path, 7).unwrap_err().to_string().contains("at most 280"));
        std::fs::write(&path, [0; 41]).unwrap();
        assert!(read_rows::<SentRow>(&path, 8).unwrap_err().to_string().contains("41 bytes"));
        for endless in ["/dev/zero", "/"] {
            assert!(
                read_rows::<SentRow>(endless.as_ref(), 8)
                    .unwrap_err()
                    .to_string()
                    .contains("no plain file")
            );
        }
    }
}
