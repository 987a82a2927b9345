// SPDX-License-Identifier: Apache-2.0
//! Publishers and subscriptions with their type.
//!
//! Plain types are written and read in place: [`Publisher`], [`Loan`], [`Subscription`],
//! [`Sample`]. Protobuf messages and objects move as values: [`ValuePublisher`],
//! [`ValueSubscription`], [`ValueSample`], over [`Protobuf`] or [`Object`]. All of them are the raw
//! endpoints with a schema checked at creation and matching.

use crate::context::Node;
use crate::conversion;
use crate::error::{EncodeError, EndpointError, LoanError, PublishError, ReadError};
use crate::local::{Language, LocalObject};
use crate::options::{PublisherOptions, SubscriptionOptions, WaitMode};
use crate::raw::{RawLoan, RawPublisher, RawSample, RawSubscription};
use driveline_types::plain::{PlainMut, PlainRef, payload_len};
use driveline_types::{MonotonicNs, PayloadKind, Plain, ProtobufMessage, SampleHeader, Schema};
use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

impl Node {
    /// A publisher of a plain type.
    ///
    /// # Errors
    /// As [`Node::raw_publisher`].
    pub fn publisher<T: Plain>(
        &self,
        topic: &str,
        options: PublisherOptions,
    ) -> Result<Publisher<T>, EndpointError> {
        Ok(Publisher {
            raw: self.raw_publisher(topic, Schema::plain(&T::layout()), options)?,
            of: PhantomData,
        })
    }

    /// A subscription of a plain type.
    ///
    /// # Errors
    /// As [`Node::raw_subscription`].
    pub fn subscription<T: Plain>(
        &self,
        topic: &str,
        options: SubscriptionOptions,
    ) -> Result<Subscription<T>, EndpointError> {
        Ok(Subscription {
            raw: self.raw_subscription(topic, Schema::plain(&T::layout()), options)?,
            of: PhantomData,
        })
    }

    /// A publisher of values: [`Protobuf`] messages or [`Object`]s.
    ///
    /// # Errors
    /// As [`Node::raw_publisher`]; objects have process reach only.
    pub fn value_publisher<V: Value>(
        &self,
        topic: &str,
        options: PublisherOptions,
    ) -> Result<ValuePublisher<V>, EndpointError> {
        Ok(ValuePublisher {
            raw: self.raw_publisher(topic, V::schema(), options)?,
            of: PhantomData,
        })
    }

    /// A subscription of values: [`Protobuf`] messages or [`Object`]s.
    ///
    /// # Errors
    /// As [`Node::raw_subscription`]; objects have process reach only.
    pub fn value_subscription<V: Value>(
        &self,
        topic: &str,
        options: SubscriptionOptions,
    ) -> Result<ValueSubscription<V>, EndpointError> {
        Ok(ValueSubscription {
            raw: self.raw_subscription(topic, V::schema(), options)?,
            of: PhantomData,
        })
    }
}

/// Publisher of a plain type.
pub struct Publisher<T> {
    raw: RawPublisher,
    of: PhantomData<fn(T)>,
}

/// Memory for one value of a plain type and its trailing array, written in place.
pub struct Loan<T> {
    raw: RawLoan,
    of: PhantomData<fn(T)>,
}

impl<T: Plain> Publisher<T> {
    /// Memory for one value with a trailing array of `tail_count` elements. The head is all zero;
    /// the content of the array is unspecified. No system call; allocates only in the cases that
    /// [`RawPublisher`] lists.
    ///
    /// # Errors
    /// [`LoanError`] if it is too long or too many loans are out.
    pub fn loan(&mut self, tail_count: usize) -> Result<Loan<T>, LoanError> {
        let too_long = |_| LoanError::TooLong {
            topic: self.raw.topic().to_string(),
            requested: usize::MAX,
            limit: self.raw.max_payload(),
        };
        let len = payload_len::<T>(tail_count).map_err(too_long)?;
        let mut raw = self.raw.loan(len)?;
        if let Some(head) = raw.payload_mut().get_mut(..size_of::<T>()) {
            head.fill(0);
        }
        Ok(Loan { raw, of: PhantomData })
    }

    /// Publishes a loan; returns its sequence number.
    ///
    /// # Errors
    /// [`PublishError`]; see [`RawPublisher::publish`].
    pub fn publish(&mut self, loan: Loan<T>) -> Result<u64, PublishError> {
        self.raw.publish(loan.raw)
    }

    /// Copies a value and its trailing array into a loan and publishes it.
    ///
    /// # Errors
    /// [`PublishError`]; see [`RawPublisher::publish`].
    pub fn publish_copy(&mut self, head: &T, tail: &[T::Tail]) -> Result<u64, PublishError> {
        let mut loan = self.loan(tail.len())?;
        let topic = || self.raw.topic().to_string();
        let mut view =
            loan.view_mut().ok_or_else(|| PublishError::ForeignLoan { topic: topic() })?;
        *view.head_mut() = *head;
        view.tail_mut().copy_from_slice(tail);
        self.publish(loan)
    }

    /// The publisher without its type.
    pub fn raw(&mut self) -> &mut RawPublisher {
        &mut self.raw
    }
}

impl<T: Plain> Loan<T> {
    /// Returns the value and its array, to be written. Never `None`, since the loan has its layout.
    pub fn view_mut(&mut self) -> Option<PlainMut<'_, T>> {
        PlainMut::new(self.raw.payload_mut()).ok()
    }

    /// Sets the time of measurement; see [`RawLoan::set_source_time`].
    pub fn set_source_time(&mut self, time: MonotonicNs) {
        self.raw.set_source_time(time);
    }
}

/// Subscription of a plain type.
pub struct Subscription<T> {
    raw: RawSubscription,
    of: PhantomData<fn() -> T>,
}

/// A received value of a plain type, read where the publisher wrote it.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    raw: RawSample,
    of: PhantomData<fn() -> T>,
}

impl<T: Plain> Subscription<T> {
    /// The newest unread sample; see [`RawSubscription::latest`].
    ///
    /// # Errors
    /// [`ReadError`] if too many samples are held, or the payload does not have the layout (a
    /// broken publisher).
    pub fn latest(&mut self) -> Result<Option<Sample<T>>, ReadError> {
        self.raw.latest()?.map(Sample::new).transpose()
    }

    /// The oldest unread sample; see [`RawSubscription::take`].
    ///
    /// # Errors
    /// As [`Self::latest`].
    pub fn take(&mut self) -> Result<Option<Sample<T>>, ReadError> {
        self.raw.take()?.map(Sample::new).transpose()
    }

    /// Waits for a readable sample and takes the newest; see [`RawSubscription::receive`].
    ///
    /// # Errors
    /// [`crate::ReceiveError`] as [`Self::wait`] and [`Self::latest`].
    pub fn receive(
        &mut self,
        timeout: Option<Duration>,
        mode: WaitMode,
    ) -> Result<Option<Sample<T>>, crate::ReceiveError> {
        let raw = self.raw.receive(timeout, mode)?;
        Ok(raw.map(Sample::new).transpose()?)
    }

    /// Waits for a sample; see [`RawSubscription::wait`].
    ///
    /// # Errors
    /// [`crate::WaitError`] if the kernel refuses a resource for waiting.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mode: WaitMode,
    ) -> Result<bool, crate::WaitError> {
        self.raw.wait(timeout, mode)
    }

    /// The subscription without its type.
    pub fn raw(&mut self) -> &mut RawSubscription {
        &mut self.raw
    }

    /// Removes the type, to make the subscription an input of a callback.
    #[must_use]
    pub fn into_raw(self) -> RawSubscription {
        self.raw
    }
}

impl<T: Plain> Sample<T> {
    /// Adds the type to a raw sample, for inputs of callbacks.
    ///
    /// # Errors
    /// [`ReadError`] if the payload does not have the layout.
    pub fn new(raw: RawSample) -> Result<Self, ReadError> {
        let payload = raw.payload().ok_or(ReadError::Kind { kind: PayloadKind::Plain })?;
        PlainRef::<T>::new(payload)?;
        Ok(Self { raw, of: PhantomData })
    }

    /// Returns the value and its trailing array in place. Never `None`, since the layout was
    /// checked.
    #[must_use]
    pub fn view(&self) -> Option<PlainRef<'_, T>> {
        PlainRef::new(self.raw.payload()?).ok()
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &SampleHeader {
        self.raw.header()
    }

    /// Returns the number of samples missed before this one.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.raw.missed()
    }
}

/// A type that moves as a value: [`Protobuf`] or [`Object`].
pub trait Value: Send + Sync + Sized + 'static {
    /// Type of the value in the program.
    type Inner: Send + Sync + 'static;
    /// The schema.
    fn schema() -> Schema;
    /// Length when serialised, in bytes; `None` if it cannot be.
    fn encoded_len(inner: &Self::Inner) -> Option<usize>;
    /// Serialises into `into`, which has exactly as many bytes as [`Self::encoded_len`] returns.
    ///
    /// # Errors
    /// [`EncodeError`] with the serialiser's reason.
    fn encode(inner: &Self::Inner, into: &mut [u8]) -> Result<(), EncodeError>;
    /// Parses the value from bytes of another process or language.
    ///
    /// # Errors
    /// The parser's reason.
    fn decode(bytes: &[u8]) -> Result<Self::Inner, String>;
}

/// A protobuf message: a pointer inside the process, bytes outside.
pub struct Protobuf<M>(PhantomData<fn() -> M>);

impl<M: ProtobufMessage + Send + Sync> Value for Protobuf<M> {
    type Inner = M;
    fn schema() -> Schema {
        M::schema()
    }
    fn encoded_len(inner: &M) -> Option<usize> {
        Some(inner.encoded_len())
    }
    fn encode(inner: &M, mut into: &mut [u8]) -> Result<(), EncodeError> {
        prost::Message::encode(inner, &mut into).map_err(|e| EncodeError { reason: e.to_string() })
    }
    fn decode(bytes: &[u8]) -> Result<M, String> {
        M::decode(bytes).map_err(|e| e.to_string())
    }
}

/// Any value; only inside the process, only between ends in Rust.
pub struct Object<V>(PhantomData<fn() -> V>);

impl<V: Send + Sync + 'static> Value for Object<V> {
    type Inner = V;
    fn schema() -> Schema {
        let name = Cow::Borrowed(std::any::type_name::<V>());
        Schema {
            kind: PayloadKind::Object,
            name,
            encoding: Cow::Borrowed("rust"),
            definition: Cow::Borrowed(""),
        }
    }
    fn encoded_len(_: &V) -> Option<usize> {
        None
    }
    fn encode(_: &V, _: &mut [u8]) -> Result<(), EncodeError> {
        Err(EncodeError { reason: "objects have no serialised form".into() })
    }
    fn decode(_: &[u8]) -> Result<V, String> {
        Err("objects have no serialised form".into())
    }
}

struct Shared<V: Value>(V::Inner);

/// Wraps a value for its way inside the process.
pub(crate) fn shared<V: Value>(value: V::Inner) -> Arc<dyn LocalObject> {
    Arc::new(Shared::<V>(value))
}

impl<V: Value> LocalObject for Shared<V> {
    fn language(&self) -> Language {
        Language::Rust
    }
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
    fn encoded_len(&self) -> Option<usize> {
        V::encoded_len(&self.0)
    }
    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError> {
        V::encode(&self.0, into)
    }
}

/// Publisher of values.
pub struct ValuePublisher<V> {
    raw: RawPublisher,
    of: PhantomData<fn(V)>,
}

impl<V: Value> ValuePublisher<V> {
    /// Publishes a value; subscriptions inside the process share it. Allocates its reference count.
    ///
    /// # Errors
    /// [`PublishError`]; see [`RawPublisher::publish_object`].
    pub fn publish(&mut self, value: V::Inner) -> Result<u64, PublishError> {
        let published = self.raw.publish_object(Arc::new(Shared::<V>(value)), None);
        drop(self.raw.take_displaced());
        published
    }

    /// Publishes a value that was measured at `source_time`.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_measured(
        &mut self,
        value: V::Inner,
        source_time: MonotonicNs,
    ) -> Result<u64, PublishError> {
        let published = self.raw.publish_object(Arc::new(Shared::<V>(value)), Some(source_time));
        drop(self.raw.take_displaced());
        published
    }

    /// The publisher without its type.
    pub fn raw(&mut self) -> &mut RawPublisher {
        &mut self.raw
    }
}

/// Subscription of values.
pub struct ValueSubscription<V> {
    raw: RawSubscription,
    of: PhantomData<fn() -> V>,
}

impl<V: Value> ValueSubscription<V> {
    /// The newest unread value; see [`RawSubscription::latest`].
    ///
    /// # Errors
    /// [`ReadError`] if too many are held: the sample stays unread. Or if bytes from outside cannot
    /// be parsed: the sample is used up.
    pub fn latest(&mut self) -> Result<Option<ValueSample<V>>, ReadError> {
        self.raw.latest()?.map(ValueSample::new).transpose()
    }

    /// The oldest unread value; see [`RawSubscription::take`].
    ///
    /// # Errors
    /// As [`Self::latest`].
    pub fn take(&mut self) -> Result<Option<ValueSample<V>>, ReadError> {
        self.raw.take()?.map(ValueSample::new).transpose()
    }

    /// Waits for a readable sample and takes the newest; see [`RawSubscription::receive`].
    ///
    /// # Errors
    /// [`crate::ReceiveError`] as [`Self::wait`] and [`Self::latest`].
    pub fn receive(
        &mut self,
        timeout: Option<Duration>,
        mode: WaitMode,
    ) -> Result<Option<ValueSample<V>>, crate::ReceiveError> {
        let raw = self.raw.receive(timeout, mode)?;
        Ok(raw.map(ValueSample::new).transpose()?)
    }

    /// Waits for a sample; see [`RawSubscription::wait`].
    ///
    /// # Errors
    /// [`crate::WaitError`] if the kernel refuses a resource for waiting.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mode: WaitMode,
    ) -> Result<bool, crate::WaitError> {
        self.raw.wait(timeout, mode)
    }

    /// Removes the type, to make the subscription an input of a callback.
    #[must_use]
    pub fn into_raw(self) -> RawSubscription {
        self.raw
    }
}

/// A received value. Dereferences to it.
pub struct ValueSample<V: Value> {
    raw: RawSample,
    value: Held<V>,
}

enum Held<V: Value> {
    Pointer(Arc<dyn LocalObject>),
    Parsed(V::Inner),
}

impl<V: Value> ValueSample<V> {
    /// Adds the type to a raw sample, for inputs of callbacks. Parses a payload of bytes.
    ///
    /// # Errors
    /// [`ReadError::Parse`] if the bytes are not a message of this type.
    pub fn new(raw: RawSample) -> Result<Self, ReadError> {
        let parse = |bytes: &[u8]| {
            let parsed = conversion::during(|| V::decode(bytes));
            parsed
                .map(Held::Parsed)
                .map_err(|reason| ReadError::Parse { name: V::schema().name.into_owned(), reason })
        };
        let value = match (raw.object(), raw.payload()) {
            (Some(o), _) if o.language() == Language::Rust && o.as_any().is::<V::Inner>() => {
                Held::Pointer(o.clone())
            }
            // A pointer of another language cannot be used here; its serialised bytes can.
            (Some(o), _) => {
                let mut bytes =
                    vec![0; o.encoded_len().ok_or(ReadError::Kind { kind: PayloadKind::Object })?];
                conversion::during(|| o.encode(&mut bytes))?;
                parse(&bytes)?
            }
            (None, Some(bytes)) => parse(bytes)?,
            (None, None) => return Err(ReadError::Kind { kind: PayloadKind::Object }),
        };
        Ok(Self { raw, value })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &SampleHeader {
        self.raw.header()
    }

    /// Returns the number of samples missed before this one.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.raw.missed()
    }
}

impl<V: Value> Deref for ValueSample<V> {
    type Target = V::Inner;
    fn deref(&self) -> &V::Inner {
        match &self.value {
            Held::Parsed(v) => v,
            // `new` has checked the type, which cannot change.
            Held::Pointer(o) => o
                .as_any()
                .downcast_ref()
                .unwrap_or_else(|| unreachable!("the type was checked when the sample was made")),
        }
    }
}
