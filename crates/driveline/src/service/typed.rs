// SPDX-License-Identifier: Apache-2.0
//! Clients and services with their types.

use super::error::{AnswerError, CallError, Refusal};
use super::{
    ClientOptions, ClientStats, RawCaller, RawClient, RawRequest, RawResponder, RawService,
    ServiceCallback, ServiceError, ServiceOptions, ServiceStats,
};
use crate::context::Node;
use crate::error::{EndpointError, ExecutorError, LoanError, ReadError, TakeError, WaitError};
use crate::executor::{CallbackHandle, Executor};
use crate::raw::{Parcel, RawLoan, RawSample};
use crate::typed::{Object, Protobuf, Sample, Value, ValueSample, shared};
use driveline_types::plain::{PlainMut, payload_len};
use driveline_types::{Plain, ProtobufMessage, Schema};
use std::marker::PhantomData;
use std::time::Duration;

/// Type of a request or a response: every plain type, [`Protobuf`] messages, and [`Object`]s at
/// process reach.
pub trait Payload: 'static {
    /// Type of a sent value. For a plain type with a trailing array, this is the head only.
    type Value;
    /// Received value.
    type Sample;

    /// The schema. Allocates.
    fn payload_schema() -> Schema;

    /// Converts a received sample to the type.
    ///
    /// # Errors
    /// [`ReadError`] if it is not of the type: the other end is broken.
    fn receive(raw: RawSample) -> Result<Self::Sample, ReadError>;

    /// Prepares a value for sending; `loan` returns memory of a length in bytes.
    ///
    /// # Errors
    /// [`LoanError`] if `loan` returned it.
    fn pack(
        value: Self::Value,
        loan: &mut dyn FnMut(usize) -> Result<RawLoan, LoanError>,
    ) -> Result<Parcel, LoanError>;
}

impl<T: Plain> Payload for T {
    type Value = T;
    type Sample = Sample<T>;

    fn payload_schema() -> Schema {
        T::schema()
    }

    fn receive(raw: RawSample) -> Result<Sample<T>, ReadError> {
        Sample::new(raw)
    }

    fn pack(
        value: T,
        loan: &mut dyn FnMut(usize) -> Result<RawLoan, LoanError>,
    ) -> Result<Parcel, LoanError> {
        let mut raw = loan(payload_len::<T>(0).unwrap_or(usize::MAX))?;
        if let Ok(mut view) = PlainMut::<T>::new(raw.payload_mut()) {
            *view.head_mut() = value;
        }
        Ok(Parcel::Loan(raw))
    }
}

impl<M: ProtobufMessage + Send + Sync> Payload for Protobuf<M> {
    type Value = M;
    type Sample = ValueSample<Self>;

    fn payload_schema() -> Schema {
        <Self as Value>::schema()
    }

    fn receive(raw: RawSample) -> Result<ValueSample<Self>, ReadError> {
        ValueSample::new(raw)
    }

    fn pack(
        value: M,
        _: &mut dyn FnMut(usize) -> Result<RawLoan, LoanError>,
    ) -> Result<Parcel, LoanError> {
        Ok(Parcel::Object(shared::<Self>(value)))
    }
}

impl<V: Send + Sync + 'static> Payload for Object<V> {
    type Value = V;
    type Sample = ValueSample<Self>;

    fn payload_schema() -> Schema {
        <Self as Value>::schema()
    }

    fn receive(raw: RawSample) -> Result<ValueSample<Self>, ReadError> {
        ValueSample::new(raw)
    }

    fn pack(
        value: V,
        _: &mut dyn FnMut(usize) -> Result<RawLoan, LoanError>,
    ) -> Result<Parcel, LoanError> {
        Ok(Parcel::Object(shared::<Self>(value)))
    }
}

impl Node {
    /// A client of a service with requests `Q` and responses `R`.
    ///
    /// # Errors
    /// As [`Node::raw_client`]; objects have process reach only.
    pub fn client<Q: Payload, R: Payload>(
        &self,
        service: &str,
        options: ClientOptions,
    ) -> Result<Client<Q, R>, EndpointError> {
        Ok(Client {
            raw: self.raw_client(service, Q::payload_schema(), R::payload_schema(), options)?,
            of: PhantomData,
        })
    }

    /// Offers a service with requests `Q` and responses `R`.
    ///
    /// # Errors
    /// As [`Node::raw_service`]; objects have process reach only.
    pub fn service<Q: Payload, R: Payload>(
        &self,
        service: &str,
        options: ServiceOptions,
    ) -> Result<Service<Q, R>, ServiceError> {
        Ok(Service {
            raw: self.raw_service(service, Q::payload_schema(), R::payload_schema(), options)?,
            of: PhantomData,
        })
    }
}

/// Client that waits for the response of the one server of a service; see [`RawClient`].
pub struct Client<Q, R> {
    raw: RawClient,
    of: PhantomData<fn(Q) -> R>,
}

impl<Q: Payload, R: Payload> Client<Q, R> {
    /// Sends a request and waits for the response, at most `timeout`. A plain request has an empty
    /// trailing array; [`Self::call_in_place`] fills one. Samples that the calling callback
    /// publishes later inherit the origins of the response.
    ///
    /// # Errors
    /// [`CallError`]. The request may have been executed after `Refused`, after `Read`, and after
    /// an error whose `was_taken` is true (`TimedOut`, `ServerGone`, `Mismatch`).
    pub fn call(&mut self, request: Q::Value, timeout: Duration) -> Result<R::Sample, CallError> {
        let parcel = Q::pack(request, &mut |len| self.raw.loan_for(len));
        let parcel = parcel.map_err(|source| CallError::Loan {
            service: self.raw.service().to_string(),
            source,
        })?;
        let response = self.raw.call_with(parcel, timeout)?;
        R::receive(response).map_err(|source| self.unreadable(source))
    }

    fn unreadable(&self, source: ReadError) -> CallError {
        CallError::Read { service: self.raw.service().to_string(), source }
    }

    /// Waits until exactly one server exists (`true`) or the time-out has passed (`false`).
    pub fn wait_for_server(&mut self, timeout: Duration) -> bool {
        self.raw.wait_for_server(timeout)
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.raw.stats()
    }

    /// The client without its types.
    pub fn raw(&mut self) -> &mut RawClient {
        &mut self.raw
    }
}

impl<Q: Plain, R: Payload> Client<Q, R> {
    /// As [`Self::call`], with a request whose trailing array has `tail_count` elements and that
    /// `fill` writes where the server reads it.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_in_place(
        &mut self,
        tail_count: usize,
        fill: impl FnOnce(PlainMut<'_, Q>),
        timeout: Duration,
    ) -> Result<R::Sample, CallError> {
        let mut loan = self.raw.loan(payload_len::<Q>(tail_count).unwrap_or(usize::MAX))?;
        fill_in::<Q>(&mut loan, fill);
        let response = self.raw.call(loan, timeout)?;
        R::receive(response).map_err(|source| self.unreadable(source))
    }
}

/// Client that receives the outcome of a call in a callback; see [`RawCaller`].
pub struct Caller<Q, R> {
    raw: RawCaller,
    of: PhantomData<fn(Q) -> R>,
}

impl<Q, R> Clone for Caller<Q, R> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), of: PhantomData }
    }
}

impl<Q: Payload, R: Payload> Caller<Q, R> {
    /// Sends a request; `then` is called once with the outcome, on a thread of the executor. See
    /// [`RawCaller::call_then`].
    ///
    /// # Errors
    /// [`CallError`] if the request could not be sent: `then` is not called.
    pub fn call_then(
        &self,
        request: Q::Value,
        timeout: Duration,
        then: impl FnOnce(Result<R::Sample, CallError>) + Send + 'static,
    ) -> Result<(), CallError> {
        let service = self.raw.service();
        let parcel = Q::pack(request, &mut |len| self.raw.loan_for(len));
        let parcel =
            parcel.map_err(|source| CallError::Loan { service: service.clone(), source })?;
        let typed = move |outcome: Result<RawSample, CallError>| {
            then(outcome.and_then(|raw| {
                R::receive(raw).map_err(|source| CallError::Read { service, source })
            }));
        };
        self.raw.send(parcel, timeout, Box::new(typed))
    }

    /// The caller without its types.
    #[must_use]
    pub fn raw(&self) -> &RawCaller {
        &self.raw
    }
}

/// A request and its responder.
pub type Request<Q, R> = (<Q as Payload>::Sample, Responder<R>);

/// Offers a service; see [`RawService`].
pub struct Service<Q, R> {
    raw: RawService,
    of: PhantomData<fn(Q) -> R>,
}

impl<Q: Payload, R: Payload> Service<Q, R> {
    /// Takes the oldest request; see [`RawService::take`]. A request of another type is refused,
    /// and the next one taken.
    ///
    /// # Errors
    /// As [`RawService::take`].
    pub fn take(&mut self) -> Result<Option<Request<Q, R>>, TakeError> {
        while let Some(request) = self.raw.take()? {
            if let Some(open) = open::<Q, R>(request) {
                return Ok(Some(open));
            }
        }
        Ok(None)
    }

    /// Waits until a sample that may be a request arrives (`true`) or the time-out has passed
    /// (`false`). Without a time-out, it waits for ever.
    ///
    /// # Errors
    /// [`WaitError`] if the kernel refuses a resource for waiting.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, WaitError> {
        self.raw.wait(timeout)
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> ServiceStats {
        self.raw.stats()
    }

    /// The service without its types.
    pub fn raw(&mut self) -> &mut RawService {
        &mut self.raw
    }
}

/// Answers one request, once; see [`RawResponder`].
#[must_use = "if it is dropped, the client gets no answer"]
pub struct Responder<R> {
    raw: RawResponder,
    of: PhantomData<fn(R)>,
}

impl<R: Payload> Responder<R> {
    /// Sends the response. A plain response has an empty trailing array; [`Self::loan`] gives one.
    ///
    /// # Errors
    /// [`AnswerError`]; the client, unless it has gone, is notified that there is no answer, with
    /// the reason.
    pub fn send(self, response: R::Value) -> Result<(), AnswerError> {
        match R::pack(response, &mut |len| self.raw.loan_for(len)) {
            Ok(parcel) => self.raw.send_parcel(parcel),
            Err(source) => Err(self.raw.fail(source)),
        }
    }

    /// Refuses the request; the client gets the text, cut to 1024 bytes.
    pub fn refuse(self, text: &str) {
        self.raw.refuse(text);
    }

    /// Returns the responder without its type, which has the client's node and state.
    pub fn raw(&self) -> &RawResponder {
        &self.raw
    }
}

impl<R: Plain> Responder<R> {
    /// Loans memory for a response with `tail_count` elements in its trailing array. The client
    /// reads it in this memory: it is not copied. The head is all zero; the content of the array is
    /// unspecified.
    ///
    /// # Errors
    /// [`AnswerError::Loan`] if it is longer than `max_response`, or if all loans for this client
    /// are out; the client is notified.
    pub fn loan(self, tail_count: usize) -> Result<AnswerLoan<R>, AnswerError> {
        match self.raw.loan_for(payload_len::<R>(tail_count).unwrap_or(usize::MAX)) {
            Ok(mut loan) => {
                if let Some(head) = loan.payload_mut().get_mut(..size_of::<R>()) {
                    head.fill(0);
                }
                Ok(AnswerLoan { loan, responder: self })
            }
            Err(source) => Err(self.raw.fail(source)),
        }
    }
}

/// Response under construction. If it is dropped, the client gets an error: there is no answer.
#[must_use = "if it is dropped, the client gets no answer"]
pub struct AnswerLoan<R> {
    loan: RawLoan,
    responder: Responder<R>,
}

impl<R: Plain> AnswerLoan<R> {
    /// Returns the response and its array, to be written. Never `None`, since the loan has its
    /// layout.
    pub fn view_mut(&mut self) -> Option<PlainMut<'_, R>> {
        PlainMut::new(self.loan.payload_mut()).ok()
    }

    /// Sends the response.
    ///
    /// # Errors
    /// [`AnswerError`]; the client is notified, unless it has gone.
    pub fn send(self) -> Result<(), AnswerError> {
        self.responder.raw.send(self.loan)
    }
}

impl Executor {
    /// Adds a client to the executor, which runs the closures for the outcomes of its calls. Call
    /// it before the start.
    ///
    /// # Errors
    /// As [`Executor::add_raw_client`].
    pub fn add_client<Q: Payload, R: Payload>(
        &self,
        client: Client<Q, R>,
        o: ServiceCallback,
    ) -> Result<Caller<Q, R>, ExecutorError> {
        let (raw, _) = self.add_raw_client(client.raw, o)?;
        Ok(Caller { raw, of: PhantomData })
    }

    /// Adds a service to the executor, which answers each request with the result of `answer`. Call
    /// it before the start. A panic in `answer` is caught, counted and logged as that of any
    /// callback, and the client is notified.
    ///
    /// # Errors
    /// As [`Executor::add_raw_service`].
    pub fn add_service<Q: Payload, R: Payload>(
        &self,
        service: Service<Q, R>,
        o: ServiceCallback,
        answer: impl Fn(&Q::Sample) -> Result<R::Value, Refusal> + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        self.add_service_with(service, o, move |request: Q::Sample, responder: Responder<R>| {
            match answer(&request) {
                Ok(response) => {
                    if let Err(error) = responder.send(response) {
                        tracing::warn!("{error}");
                    }
                }
                Err(Refusal(text)) => responder.refuse(&text),
            }
        })
    }

    /// As [`Self::add_service`], for answers that are written in place or given later: `answer`
    /// gets the request and its responder.
    ///
    /// # Errors
    /// As [`Executor::add_raw_service`].
    pub fn add_service_with<Q: Payload, R: Payload>(
        &self,
        service: Service<Q, R>,
        o: ServiceCallback,
        answer: impl Fn(Q::Sample, Responder<R>) + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        self.add_raw_service(service.raw, o, move |request| {
            if let Some((request, responder)) = open::<Q, R>(request) {
                answer(request, responder);
            }
        })
    }
}

/// Converts a request to its types; refuses a request of another type.
fn open<Q: Payload, R: Payload>(request: RawRequest) -> Option<Request<Q, R>> {
    match Q::receive(request.sample) {
        Ok(sample) => Some((sample, Responder { raw: request.responder, of: PhantomData })),
        Err(error) => {
            request.responder.refuse(&format!("the request cannot be read: {error}"));
            None
        }
    }
}

fn fill_in<Q: Plain>(loan: &mut RawLoan, fill: impl FnOnce(PlainMut<'_, Q>)) {
    if let Some(head) = loan.payload_mut().get_mut(..size_of::<Q>()) {
        head.fill(0);
    }
    if let Ok(view) = PlainMut::new(loan.payload_mut()) {
        fill(view);
    }
}
