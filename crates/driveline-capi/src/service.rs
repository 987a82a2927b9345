// SPDX-License-Identifier: Apache-2.0
//! Clients and services: a client sends a request to the one server of a name and receives one
//! answer.

use crate::context::dl_node;
use crate::exclusive::{Exclusive, Inside};
use crate::object::dl_object_vtable;
use crate::options::{client_options, dl_client_options, dl_service_options, service_options};
use crate::publisher::{dl_loan, loan_handle, object_argument, taken_loan};
use crate::sample::dl_sample;
use crate::schema::{dl_schema, dl_text};
use crate::status::*;
use driveline::service::{RawClient, RawResponder, RawService};
use driveline::{AnswerError, CallError, EndpointError, ServiceError, Severity};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// Calls the one server of a service. One thread at a time; a second one gets `DL_ERROR_BUSY`.
/// Responses outlive it.
pub struct dl_client {
    raw: Exclusive<RawClient>,
}

/// Offers a service. One thread at a time; a second one gets `DL_ERROR_BUSY`. Requests and
/// responders outlive it.
pub struct dl_service {
    raw: Exclusive<RawService>,
}

/// Answers one request, once, on any thread. If it is dropped, the client gets an error: there is
/// no answer.
pub struct dl_responder {
    raw: RawResponder,
}

fn only<'a, T>(of: &'a Exclusive<T>, what: &str) -> Outcome<Inside<'a, T>> {
    let busy = || {
        Failure::new(
            DL_ERROR_BUSY,
            format_args!("another thread uses this {what}: give each thread one of its own"),
        )
    };
    of.enter().ok_or_else(busy)
}

impl From<CallError> for Failure {
    fn from(e: CallError) -> Self {
        let text = e.to_string();
        let status = match e {
            // The request may have been executed, although its response cannot come.
            CallError::Mismatch { was_taken: true, .. } => DL_ERROR_PEER_GONE,
            CallError::NoServer { .. }
            | CallError::Mismatch { .. }
            | CallError::SeveralServers { .. } => DL_ERROR_NO_SERVER,
            CallError::Busy { .. } | CallError::QueueFull { .. } => DL_ERROR_SERVER_BUSY,
            CallError::TimedOut { .. } => DL_ERROR_TIMED_OUT,
            CallError::ServerGone { .. } | CallError::ExecutorGone { .. } => DL_ERROR_PEER_GONE,
            CallError::Refused { .. } => DL_ERROR_REFUSED,
            CallError::WouldDeadlock { .. } => DL_ERROR_WOULD_DEADLOCK,
            CallError::Loan { source, .. } => Self::from(source).status,
            CallError::Publish { source, .. } => Self::from(source).status,
            CallError::Read { source: driveline::ReadError::Take(source), .. } => {
                Self::from(source).status
            }
            CallError::Read { .. } => DL_ERROR_DECODE,
        };
        Self::new(status, text)
    }
}

impl From<AnswerError> for Failure {
    fn from(e: AnswerError) -> Self {
        let text = e.to_string();
        let status = match e {
            AnswerError::ClientGone { .. } => DL_ERROR_PEER_GONE,
            AnswerError::Loan { source, .. } => Self::from(source).status,
            AnswerError::Publish { source, .. } => Self::from(source).status,
        };
        Self::new(status, text)
    }
}

impl From<ServiceError> for Failure {
    fn from(e: ServiceError) -> Self {
        match e {
            ServiceError::Endpoint(e @ EndpointError::Name(_)) => Self::new(DL_ERROR_NAME, e),
            e => Self::new(DL_ERROR_ENDPOINT, e),
        }
    }
}

/// Creates a client and reserves the memory for its requests. `options`: NULL takes the defaults.
/// `*client`: owned by the caller, to be given to `dl_client_drop`; it may outlive node, context
/// and schemas.
///
/// # Safety
/// Handles are NULL or live; `service` is NULL or NUL-terminated; `options` is NULL or its `size`
/// bytes are readable; `client` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_new(
    node: *const dl_node,
    service: *const c_char,
    request: *const dl_schema,
    response: *const dl_schema,
    options: *const dl_client_options,
    client: *mut *mut dl_client,
) -> dl_status {
    guard(|| {
        place("client", client)?;
        // SAFETY: this function's contract.
        let (node, service, options) =
            unsafe { (borrow("node", node)?, text("service", service)?, client_options(options)?) };
        // SAFETY: this function's contract.
        let (request, response) =
            unsafe { (borrow("request", request)?, borrow("response", response)?) };
        let raw = node.node.raw_client(
            service,
            request.schema.clone(),
            response.schema.clone(),
            options,
        )?;
        // SAFETY: this function's contract.
        unsafe {
            put("client", client, Box::into_raw(Box::new(dl_client { raw: Exclusive::new(raw) })))
        }
    })
}

/// Drops a client; its responses stay. `*client` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `client` is NULL or points to NULL or to an owned handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_drop(client: *mut *mut dl_client) {
    // SAFETY: this function's contract.
    unsafe { release(client) }
}

fn time(timeout_ns: u64) -> Duration {
    Duration::from_nanos(timeout_ns)
}

/// Waits until exactly one server exists (`*ready` = 1) or the time-out has passed (0). Blocks.
///
/// # Safety
/// `client` is NULL or a live handle; `ready` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_wait_for_server(
    client: *const dl_client,
    timeout_ns: u64,
    ready: *mut c_int,
) -> dl_status {
    guard(|| {
        place("ready", ready)?;
        // SAFETY: this function's contract.
        let come = only(&unsafe { borrow("client", client)? }.raw, "client")?
            .wait_for_server(time(timeout_ns));
        // SAFETY: this function's contract.
        unsafe { put("ready", ready, c_int::from(come)) }
    })
}

/// Memory for a request of `len` bytes (plain and bytes), aligned to 64. `*loan`: owned by the
/// caller, to be given to `dl_client_call` or `dl_loan_drop`. Its content is an earlier request's.
///
/// # Safety
/// `client` is NULL or a live handle; `loan` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_loan(
    client: *const dl_client,
    len: usize,
    loan: *mut *mut dl_loan,
) -> dl_status {
    guard(|| {
        place("loan", loan)?;
        // SAFETY: this function's contract.
        let raw = only(&unsafe { borrow("client", client)? }.raw, "client")?.loan(len)?;
        // SAFETY: this function's contract.
        unsafe { put("loan", loan, loan_handle(raw)) }
    })
}

/// Sends a request and waits for its response, at most `timeout_ns`. `*loan` (moved) becomes NULL,
/// whatever the result. `*response`: NULL after an error, else owned by the caller, to be given to
/// `dl_sample_drop`. `was_taken`: NULL, or receives, after `DL_ERROR_TIMED_OUT` and
/// `DL_ERROR_PEER_GONE`, whether the server had taken the request (1: it may have been executed).
/// In a component's callback the request inherits the origins of the samples that the callback has
/// consumed, and the response counts as read. Blocks.
///
/// # Safety
/// `client` is NULL or a live handle; `loan` is NULL or points to NULL or to an owned handle;
/// `response` is NULL or valid for writing; `was_taken` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_call(
    client: *const dl_client,
    loan: *mut *mut dl_loan,
    timeout_ns: u64,
    response: *mut *mut dl_sample,
    was_taken: *mut c_int,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let raw = unsafe { taken_loan(loan) };
        // SAFETY: this function's contract.
        unsafe { call(client, response, was_taken, |c| Ok(c.call(raw?, time(timeout_ns)))) }
    })
}

/// As `dl_client_call`, for a value (protobuf and object). `object` is moved, whatever the result,
/// unless `vtable` is not valid.
///
/// # Safety
/// As `dl_client_call`; `object` is a value that `vtable` is for; `vtable` is NULL or static.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_client_call_object(
    client: *const dl_client,
    object: *mut c_void,
    vtable: *const dl_object_vtable,
    timeout_ns: u64,
    response: *mut *mut dl_sample,
    was_taken: *mut c_int,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let object = unsafe { object_argument(object, vtable)? };
        // SAFETY: this function's contract.
        unsafe {
            call(client, response, was_taken, |c| Ok(c.call_object(object, time(timeout_ns))))
        }
    })
}

/// # Safety
/// As `dl_client_call`.
unsafe fn call(
    client: *const dl_client,
    response: *mut *mut dl_sample,
    was_taken: *mut c_int,
    calling: impl FnOnce(&mut RawClient) -> Outcome<Result<driveline::RawSample, CallError>>,
) -> Outcome {
    // SAFETY: this function's contract.
    unsafe { put("response", response, std::ptr::null_mut())? };
    // SAFETY: this function's contract.
    let mut client = only(&unsafe { borrow("client", client)? }.raw, "client")?;
    let outcome = calling(&mut client)?;
    if let (
        Err(
            CallError::TimedOut { was_taken: taken, .. }
            | CallError::ServerGone { was_taken: taken, .. }
            | CallError::Mismatch { was_taken: taken, .. },
        ),
        false,
    ) = (&outcome, was_taken.is_null())
    {
        // SAFETY: this function's contract.
        unsafe { put("was_taken", was_taken, c_int::from(*taken))? };
    }
    // SAFETY: this function's contract.
    unsafe { put("response", response, dl_sample::into_handle(outcome?)) }
}

/// Offers a service. `options`: NULL takes the defaults. `*made`: owned by the caller, to be given
/// to `dl_service_drop`; it may outlive node, context and schemas.
///
/// # Safety
/// Handles are NULL or live; `service` is NULL or NUL-terminated; `options` is NULL or its `size`
/// bytes are readable; `made` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_service_new(
    node: *const dl_node,
    service: *const c_char,
    request: *const dl_schema,
    response: *const dl_schema,
    options: *const dl_service_options,
    made: *mut *mut dl_service,
) -> dl_status {
    guard(|| {
        place("made", made)?;
        // SAFETY: this function's contract.
        let (node, service, options) = unsafe {
            (borrow("node", node)?, text("service", service)?, service_options(options)?)
        };
        // SAFETY: this function's contract.
        let (request, response) =
            unsafe { (borrow("request", request)?, borrow("response", response)?) };
        let raw = node.node.raw_service(
            service,
            request.schema.clone(),
            response.schema.clone(),
            options,
        )?;
        // SAFETY: this function's contract.
        unsafe {
            put("made", made, Box::into_raw(Box::new(dl_service { raw: Exclusive::new(raw) })))
        }
    })
}

/// Drops a service and notifies its clients. `*service` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `service` is NULL or points to NULL or to an owned handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_service_drop(service: *mut *mut dl_service) {
    // SAFETY: this function's contract.
    unsafe { release(service) }
}

/// Logs clients that are matched, end, or do not match, with the reason. The clients' processes log
/// these events themselves; in the service's process, only this function does.
fn emit_events(service: &mut RawService) {
    while let Some(event) = service.poll_event() {
        let service = service.service().as_str();
        match event.severity() {
            Severity::Error => tracing::error!(service, "{event}"),
            Severity::Warning => tracing::warn!(service, "{event}"),
            Severity::Info => tracing::debug!(service, "{event}"),
        }
    }
}

/// Waits until a sample that may be a request arrives (`*ready` = 1) or the time-out has passed
/// (0). `timeout_ns`: negative waits for ever. Blocks.
///
/// # Safety
/// `service` is NULL or a live handle; `ready` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_service_wait(
    service: *const dl_service,
    timeout_ns: i64,
    ready: *mut c_int,
) -> dl_status {
    guard(|| {
        place("ready", ready)?;
        let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        // SAFETY: this function's contract.
        let mut raw = only(&unsafe { borrow("service", service)? }.raw, "service")?;
        let come = raw.wait(timeout).map_err(|e| Failure::new(DL_ERROR_WAIT, e))?;
        emit_events(&mut raw);
        // SAFETY: this function's contract.
        unsafe { put("ready", ready, c_int::from(come)) }
    })
}

/// Takes the oldest request. `*request` and `*responder`: NULL if there is none, else owned by the
/// caller, to be passed to `dl_sample_drop`, and to one of `dl_responder_send`, `…_send_object`,
/// `…_refuse`, `…_drop`. Does not wait; the first request of a client reserves the memory for its
/// responses, which takes milliseconds for megabytes.
///
/// # Safety
/// `service` is NULL or a live handle; `request` and `responder` are NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_service_take(
    service: *const dl_service,
    request: *mut *mut dl_sample,
    responder: *mut *mut dl_responder,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe {
            put("request", request, std::ptr::null_mut())?;
            put("responder", responder, std::ptr::null_mut())?;
        }
        // SAFETY: this function's contract.
        let mut raw = only(&unsafe { borrow("service", service)? }.raw, "service")?;
        let taken = raw.take()?;
        if taken.is_none() {
            emit_events(&mut raw);
        }
        if let Some(taken) = taken {
            // SAFETY: this function's contract.
            unsafe {
                put("request", request, dl_sample::into_handle(taken.sample))?;
                put(
                    "responder",
                    responder,
                    Box::into_raw(Box::new(dl_responder { raw: taken.responder })),
                )?;
            }
        }
        Ok(())
    })
}

/// Memory for a response of `len` bytes (plain and bytes), aligned to 64, written where the client
/// reads it. `*loan`: owned by the caller, to be given to `dl_responder_send` or `dl_loan_drop`.
/// Its content is an earlier response's.
///
/// # Safety
/// `responder` is NULL or a live handle; `loan` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_loan(
    responder: *const dl_responder,
    len: usize,
    loan: *mut *mut dl_loan,
) -> dl_status {
    guard(|| {
        place("loan", loan)?;
        // SAFETY: this function's contract.
        let raw = unsafe { borrow("responder", responder)? }.raw.loan(len)?;
        // SAFETY: this function's contract.
        unsafe { put("loan", loan, loan_handle(raw)) }
    })
}

/// Node of the client that asks, as it calls itself. Borrowed from the responder; empty for NULL.
///
/// # Safety
/// `responder` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_client(responder: *const dl_responder) -> dl_text {
    // SAFETY: this function's contract.
    dl_text::of(unsafe { responder.as_ref() }.map_or("", |r| r.raw.client()))
}

/// Answers with a loan of this responder. `*responder` and `*loan` (moved) become NULL, whatever
/// the result. After an error the client is notified, unless it has gone (`DL_ERROR_PEER_GONE`).
/// Does not wait.
///
/// # Safety
/// `responder` and `loan` are NULL or point to NULL or to owned handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_send(
    responder: *mut *mut dl_responder,
    loan: *mut *mut dl_loan,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (responder, loan) = unsafe { (taken(responder), taken_loan(loan)) };
        Ok(responder?.send(loan?)?)
    })
}

/// Answers with a value (protobuf and object). `*responder` (moved) becomes NULL, whatever the
/// result. `object` is moved unless `vtable` is not valid.
///
/// # Safety
/// `responder` is NULL or points to NULL or to an owned handle; `object` is a value that `vtable`
/// is for; `vtable` is NULL or static.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_send_object(
    responder: *mut *mut dl_responder,
    object: *mut c_void,
    vtable: *const dl_object_vtable,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (responder, object) = unsafe { (taken(responder), object_argument(object, vtable)?) };
        Ok(responder?.send_object(object)?)
    })
}

/// Refuses a request. `*responder` (moved) becomes NULL; the client gets the text, cut to 1024
/// bytes.
///
/// # Safety
/// `responder` is NULL or points to NULL or to an owned handle; `reason` is NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_refuse(
    responder: *mut *mut dl_responder,
    reason: *const c_char,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (responder, reason) = unsafe { (taken(responder)?, text("reason", reason)?) };
        responder.refuse(reason);
        Ok(())
    })
}

/// Drops a request: the client gets an error, because there is no answer. `*responder` (moved)
/// becomes NULL; NULL is permitted.
///
/// # Safety
/// `responder` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_responder_drop(responder: *mut *mut dl_responder) {
    // SAFETY: this function's contract.
    unsafe { release(responder) }
}

/// # Safety
/// `responder` is NULL or points to NULL or to an owned handle.
unsafe fn taken(responder: *mut *mut dl_responder) -> Outcome<RawResponder> {
    // SAFETY: this function's contract.
    let handle = unsafe { take(responder) };
    handle.map(|h| h.raw).ok_or_else(|| {
        Failure::argument(
            "argument 'responder' is NULL: the request was answered, refused or let go before",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline::service::{ClientOptions, ServiceOptions};
    use driveline::types::Schema;
    use driveline::{Context, ContextOptions, Reach};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_of_another_type_is_reported_once_where_the_service_is() {
        let (log, dir) = (Log::default(), tempfile::tempdir().unwrap());
        let to = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        let context = |name: &str| {
            Context::new(ContextOptions {
                name: name.into(),
                domain_dir: Some(dir.path().join("domain")),
            })
            .unwrap()
        };
        let (server, client) =
            (context("server").node("server").unwrap(), context("client").node("client").unwrap());
        let cdr = |definition: &'static str| Schema::bytes("p/srv/Add_Request", "cdr", definition);
        let offered = ServiceOptions { reach: Reach::Host, ..ServiceOptions::default() };
        let asked = ClientOptions { reach: Reach::Host, ..ClientOptions::default() };
        let response = Schema::bytes("p/srv/Add_Response", "cdr", "int64 sum\n");
        let mut service =
            server.raw_service("add", cdr("int64 a\n"), response.clone(), offered).unwrap();
        let _client = client.raw_client("add", cdr("int32 a\n"), response, asked).unwrap();
        let said = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let end = Instant::now() + Duration::from_secs(60);
            while !said().contains("ERROR") {
                assert!(Instant::now() < end, "no event is reported");
                // time: one of several waits, which the time-out of 60 s ends
                service.wait(Some(Duration::from_millis(10))).unwrap();
                emit_events(&mut service);
            }
            emit_events(&mut service);
        });
        let said = said();
        assert_eq!(said.matches("ERROR").count(), 1, "{said}");
        for part in ["service=\"add\"", "p/srv/Add_Request", "int64 a", "int32 a"] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
    }
}
