// SPDX-License-Identifier: Apache-2.0
//! The exchange of samples when a publish checks the pins only if slots run out. A retired slot
//! then waits for the fence and scan of a later publish than the one that retired it.

use crate::{exchange_with, must_notice};
use driveline_shm::protocol::reader::Want;
use driveline_shm::sync::Mutant;

fn exchange_rarely() {
    exchange_with(0, 7, 2, 1, 1, Want::Latest, 3);
}

#[test]
fn one_reader_and_a_pass_only_where_slots_run_out() {
    exchange_rarely();
}

#[test]
fn two_readers_and_a_pass_only_where_slots_run_out() {
    exchange_with(0, 6, 1, 2, 1, Want::Latest, 2);
}

#[test]
fn reading_in_order_and_a_pass_only_where_slots_run_out() {
    exchange_with(0, 7, 2, 1, 2, Want::Next, 3);
}

#[test]
fn rare_passes_without_the_publishers_fence() {
    must_notice(Mutant::NoWriterFence, exchange_rarely);
}

#[test]
fn rare_passes_without_the_readers_fence() {
    must_notice(Mutant::NoBorrowFence, exchange_rarely);
}

#[test]
fn rare_passes_with_a_relaxed_scan() {
    must_notice(Mutant::RelaxedScan, exchange_rarely);
}

#[test]
fn rare_passes_with_one_slot_fewer() {
    must_notice(Mutant::OneSlotFewer, exchange_rarely);
}

#[test]
fn passes_that_come_too_late() {
    must_notice(Mutant::PatienceWithoutEnd, exchange_rarely);
}
