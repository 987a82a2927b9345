// SPDX-License-Identifier: Apache-2.0
//! NUMA nodes of memory, and the preferred node of new memory.
#![allow(unsafe_code, reason = "system calls that rustix does not have")]

use std::collections::BTreeMap;
use std::fs;
use std::io;

const PAGE: u64 = 4096;
/// Number of pages queried in one system call.
const BATCH: usize = 512;
/// Maximum number of pages of one mapping that are queried, evenly spread.
const PAGES_ASKED: u64 = 4096;
/// Nodes that a mask of the kernel can name.
const NODE_BITS: usize = 1024;
/// `MPOL_PREFERRED`: memory comes from the given node, and from others when that node has none.
const PREFERRED: libc::c_ulong = 1;

/// NUMA nodes of the pages of shared memory that this process writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPlacement {
    /// Number of queried pages by node. Of a large mapping, at most 4096 pages are queried.
    pub pages: BTreeMap<u32, u64>,
    /// Number of pages for which the kernel reports no node.
    pub unknown: u64,
}

/// Returns the NUMA nodes of this machine; `[0]` if the kernel has no NUMA support. Reads a file
/// and allocates.
#[must_use]
pub fn numa_nodes() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    let nodes: Vec<u32> = numbers(text.trim()).collect();
    if nodes.is_empty() { vec![0] } else { nodes }
}

/// Returns the CPUs of a NUMA node; empty if there is no such node. Reads a file and allocates.
#[must_use]
pub fn numa_cpus(node: u32) -> Vec<usize> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let text = fs::read_to_string(path).unwrap_or_default();
    numbers(text.trim()).map(|cpu| cpu as usize).collect()
}

/// The numbers of a list as the kernel writes it: `0-3,8`. At most 4096.
fn numbers(list: &str) -> impl Iterator<Item = u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(4096)
}

/// Sets the preferred node of memory that the calling thread, and threads that it starts from now
/// on, touch first. Other nodes are used only when `node` has no free memory.
///
/// # Errors
/// Those of `set_mempolicy`: no such node, or a container that forbids the call.
pub fn prefer_numa_node(node: u32) -> io::Result<()> {
    let place = node as usize;
    if place >= NODE_BITS {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = [0 as libc::c_ulong; NODE_BITS / BITS];
    mask[place / BITS] |= 1 << (place % BITS);
    // SAFETY: the kernel reads `NODE_BITS` bits of the mask (it subtracts one from the count). The
    // mask has as many bits and outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, PREFERRED, mask.as_ptr(), NODE_BITS as libc::c_ulong)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the kernel for the nodes of the shared memory that this process writes, such as its
/// publishers' segments and its subscriptions' pages. Reads a file and allocates.
///
/// # Errors
/// Those of reading `/proc/self/maps` and of `move_pages`.
pub fn segment_placement() -> io::Result<SegmentPlacement> {
    let mut found = SegmentPlacement::default();
    for (start, end) in segments(&fs::read_to_string("/proc/self/maps")?) {
        let pages = (end - start) / PAGE;
        let step = pages.div_ceil(PAGES_ASKED).max(1);
        let addresses: Vec<usize> =
            (0..pages).step_by(step as usize).map(|page| (start + page * PAGE) as usize).collect();
        for batch in addresses.chunks(BATCH) {
            for node in nodes_of(batch)? {
                match u32::try_from(node) {
                    Ok(node) => *found.pages.entry(node).or_default() += 1,
                    // A negative error number: the page is not present.
                    Err(_) => found.unknown += 1,
                }
            }
        }
    }
    Ok(found)
}

/// The writable mappings of Driveline's shared memory in the text of `/proc/self/maps`.
fn segments(maps: &str) -> Vec<(u64, u64)> {
    let segment = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let writable = rest.starts_with("rw");
        let (start, end) = range.split_once('-')?;
        let of = |text| u64::from_str_radix(text, 16).ok();
        (writable && rest.contains("/memfd:driveline")).then_some((of(start)?, of(end)?))
    };
    maps.lines().filter_map(segment).filter(|(start, end)| start < end).collect()
}

/// The node of each page, or a negative error number.
fn nodes_of(addresses: &[usize]) -> io::Result<Vec<i32>> {
    let mut status = vec![-1_i32; addresses.len()];
    // SAFETY: without target nodes nothing is moved, and the kernel only looks addresses up, mapped
    // or not. Both arrays have `addresses.len()` items; it writes the second.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as libc::c_long,
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0 as libc::c_long,
        )
    };
    if done == 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[path = "../../../../tools/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_and_maps_are_read() {
        assert_eq!(numbers("0-2,8").collect::<Vec<_>>(), [0, 1, 2, 8]);
        assert_eq!(numbers("").count(), 0);
        assert_eq!(numbers("x,3-1,-").count(), 0);
        let maps = "7f00-7f02 r--p 0 0:0 1 /lib/x\n7000-9000 rw-s 0 0:1 5 /memfd:driveline-a \
             (deleted)\na000-b000 r--s 0 0:1 6 /memfd:driveline-b (deleted)\nc000-d000 rw-s 0 0:1 \
             6 /memfd:other (deleted)\n";
        assert_eq!(segments(maps), [(0x7000, 0x9000)]);
    }

    #[test]
    fn pages_of_a_segment_are_on_a_node_of_this_machine() {
        let node = numa_nodes()[0];
        assert!(!numa_cpus(node).is_empty() || numa_nodes() == [0]);
        let policy = std::thread::spawn(move || prefer_numa_node(node));
        let (_fd, mapping) = crate::sys::memfd::create("driveline-placement", 8 * 4096).unwrap();
        let placement = segment_placement();
        drop(mapping);
        if policy.join().unwrap().is_err() {
            let remedy = "run it outside of a container";
            return super::skipped::skipped("NUMA placement", "set_mempolicy is refused", remedy);
        }
        let placement = placement.unwrap();
        assert!(placement.pages.values().sum::<u64>() >= 8, "{placement:?}");
        assert!(placement.pages.keys().all(|n| numa_nodes().contains(n)), "{placement:?}");
    }

    #[test]
    fn a_node_that_no_machine_has_is_an_error() {
        assert!(prefer_numa_node(100_000).is_err());
        assert!(numa_cpus(100_000).is_empty());
    }
}
