// SPDX-License-Identifier: Apache-2.0
//! Error types, one per family of operations. The texts are for an engineer next to the car.

use driveline_types::NameError;
use thiserror::Error;

/// Joining a domain failed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The host transport could not be opened.
    #[error("cannot join the domain: {0}")]
    Host(#[from] driveline_shm::OpenError),
}

/// Creating a node failed.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The name breaks the rules.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Creating a publisher or a subscription failed.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The topic's name breaks the rules.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An option is out of range.
    #[error("topic '{topic}': {option} = {value} is not possible: {reason}")]
    Option {
        /// The topic.
        topic: String,
        /// Option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Permitted values.
        reason: String,
    },
    /// An option of a client or a service is out of range.
    #[error("service '{service}': {option} = {value} is not possible: {reason}")]
    ServiceOption {
        /// The service.
        service: String,
        /// Option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Permitted values.
        reason: String,
    },
    /// Objects are values of one language; they cannot leave the process.
    #[error(
        "topic '{topic}' carries objects, which cannot leave the process: give it reach 'process', \
         or use a plain or protobuf type"
    )]
    ObjectBeyondProcess {
        /// The topic.
        topic: String,
    },
    /// The buffers for samples inside the process do not fit into memory.
    #[error(
        "topic '{topic}': {} MiB are needed for samples inside the process, and {} MiB are left of \
         {limit}; lower max_payload, depth, loans \
         or max_held",
        needed.div_ceil(1 << 20),
        available >> 20
    )]
    Memory {
        /// The topic.
        topic: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// The limit as text, for example the memory cgroup that sets it.
        limit: String,
    },
    /// Another process of this user has been reserving memory for too long, and the endpoint needs
    /// more than half of the memory that is available meanwhile.
    #[error("topic '{topic}': {refusal}")]
    MemoryBusy {
        /// The topic.
        topic: String,
        /// The other process, the time waited for it, and the remedy.
        refusal: driveline_shm::MemoryRefusal,
    },
    /// The host transport refused.
    #[error("{source}")]
    Publisher {
        /// The topic.
        topic: String,
        /// Error of the transport.
        source: driveline_shm::CreatePublisherError,
    },
    /// The host transport refused.
    #[error("{source}")]
    Subscription {
        /// The topic.
        topic: String,
        /// Error of the transport.
        source: driveline_shm::CreateSubscriptionError,
    },
    /// The kernel refused what the endpoint needs.
    #[error("topic '{topic}': {source}")]
    Os {
        /// The topic.
        topic: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
}

/// Returns the next power of two in the notation of sizes in graph files.
fn enough(bytes: usize) -> String {
    const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let size = bytes.checked_next_power_of_two().unwrap_or(usize::MAX);
    let unit = UNITS.iter().find(|(_, factor)| size >= *factor);
    unit.map_or_else(|| size.to_string(), |(unit, factor)| format!("{} {unit}", size / factor))
}

/// A loan was refused.
#[derive(Debug, Error)]
pub enum LoanError {
    /// Longer than declared.
    #[error("topic '{topic}': a payload of {requested} bytes exceeds max_payload = {limit}; write \
         `max_payload: {}` or more for it under `topics:` in the graph", enough(*requested))]
    TooLong {
        /// The topic.
        topic: String,
        /// Requested length.
        requested: usize,
        /// Declared limit.
        limit: usize,
    },
    /// All permitted loans are out.
    #[error(
        "topic '{topic}': all {limit} loans are in use; publish or drop one first, or raise `loans`"
    )]
    AllOut {
        /// The topic.
        topic: String,
        /// Declared number of loans.
        limit: u32,
    },
    /// Departed subscriptions still hold their samples.
    #[error(
        "topic '{topic}': samples hold all {buffers} buffers, also samples of subscriptions \
         that no longer exist; drop those samples"
    )]
    AllHeld {
        /// The topic.
        topic: String,
        /// Buffers of the publisher.
        buffers: usize,
    },
    /// The topic carries protobuf messages or objects.
    #[error("topic '{topic}' carries {kind} values: publish the value itself instead of a loan")]
    NotBytes {
        /// The topic.
        topic: String,
        /// Its payload kind.
        kind: driveline_types::PayloadKind,
    },
    /// The host transport refused.
    #[error("topic '{topic}': {source}")]
    Host {
        /// The topic.
        topic: String,
        /// Error of the transport.
        source: driveline_shm::LoanError,
    },
}

/// A value could not be serialised.
#[derive(Debug, Error)]
#[error("cannot serialise: {reason}")]
pub struct EncodeError {
    /// Error of the serialiser.
    pub reason: String,
}

/// Publishing failed: no reader received the sample. Exception: a value that could not be written
/// for readers outside the process has reached the readers inside.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The loan came from another publisher.
    #[error("topic '{topic}': this loan belongs to another publisher")]
    ForeignLoan {
        /// The topic.
        topic: String,
    },
    /// The component is inactive.
    #[error(
        "topic '{topic}': nothing is published while the component is inactive; publish between \
         on_activate and on_deactivate"
    )]
    Inactive {
        /// The topic.
        topic: String,
    },
    /// The topic carries bytes or plain values.
    #[error("topic '{topic}' carries {kind} payloads: take a loan, fill it and publish that")]
    NotObject {
        /// The topic.
        topic: String,
        /// Its payload kind.
        kind: driveline_types::PayloadKind,
    },
    /// A value for readers outside the process could not be serialised.
    #[error("topic '{topic}': {source}")]
    Encode {
        /// The topic.
        topic: String,
        /// Error of the serialiser.
        source: EncodeError,
    },
    /// The loan for a copied or serialised value was refused.
    #[error(transparent)]
    Loan(#[from] LoanError),
    /// The host transport refused.
    #[error("topic '{topic}': {source}")]
    Host {
        /// The topic.
        topic: String,
        /// Error of the transport.
        source: driveline_shm::PublishError,
    },
}

/// Reading failed.
#[derive(Debug, Error)]
pub enum TakeError {
    /// The reader holds as many samples as it declared.
    #[error(
        "topic '{topic}': {held} samples are held, which is max_held; drop one first, or raise \
         max_held for this input in the graph"
    )]
    HeldLimit {
        /// The topic.
        topic: String,
        /// Number held.
        held: u32,
    },
    /// The host transport refused.
    #[error("topic '{topic}': {source}")]
    Host {
        /// The topic.
        topic: String,
        /// Error of the transport.
        source: driveline_shm::TakeError,
    },
}

/// Reading a typed sample failed.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The sample could not be taken.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// The payload does not have the type's layout: the publisher is broken.
    #[error(transparent)]
    Layout(#[from] driveline_types::PayloadError),
    /// The bytes are not a message of the type: the publisher is broken.
    #[error("the payload is not a {name}: {reason}")]
    Parse {
        /// Expected type.
        name: String,
        /// The parser's reason.
        reason: String,
    },
    /// A value of another language could not be serialised for this one.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The sample is of another kind.
    #[error("the sample's payload cannot be read as {kind}")]
    Kind {
        /// The expected kind.
        kind: driveline_types::PayloadKind,
    },
}

/// Waiting failed.
#[derive(Debug, Error)]
pub enum WaitError {
    /// The kernel refused what waiting needs.
    #[error("cannot wait for samples: {0}")]
    Os(#[from] std::io::Error),
    /// The host transport refused.
    #[error("cannot wait for samples: {0}")]
    Host(#[from] driveline_shm::WaitSetError),
}

/// Waiting for a sample and reading it failed.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// Waiting for the sample failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// Reading the sample failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<TakeError> for ReceiveError {
    fn from(e: TakeError) -> Self {
        Self::Read(e.into())
    }
}

/// An executor could not be set up.
#[derive(Debug, Error)]
pub enum ExecutorError {
    /// Zero or absurdly many threads.
    #[error("executor '{name}': threads = {threads} is not possible; 1 to {max} \
         are", max = driveline_types::limits::MAX_EXECUTOR_THREADS)]
    Threads {
        /// The executor.
        name: String,
        /// Given number.
        threads: usize,
    },
    /// A trigger does not fit its inputs, or the executor cannot wait for one of the inputs.
    #[error("callback '{callback}': {reason}")]
    Trigger {
        /// The callback.
        callback: String,
        /// Mistake and a valid value, or the error of the kernel.
        reason: String,
    },
    /// Callbacks can only be added before the start.
    #[error("executor '{name}' runs already; add callbacks and timers before start()")]
    Running {
        /// The executor.
        name: String,
    },
    /// An executor is started once.
    #[error("executor '{name}' was stopped and cannot be started again; make a new one")]
    Stopped {
        /// The executor.
        name: String,
    },
    /// The kernel refused threads or futexes.
    #[error("executor '{name}': {source}")]
    Os {
        /// The executor.
        name: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
}

/// A parameter could not be read or set.
#[derive(Debug, Error, PartialEq)]
pub enum ParameterError {
    /// Never declared.
    #[error("there is no parameter '{name}'{}", hint(.suggestion.as_deref()))]
    Unknown {
        /// Requested name.
        name: String,
        /// A declared name that differs little from the requested one, if there is one.
        suggestion: Option<String>,
    },
    /// The value does not fit the declared type, or a map has a name that is not declared.
    #[error("parameter '{name}' is {declared}, but {given} was given")]
    Type {
        /// The parameter.
        name: String,
        /// Its type.
        declared: &'static str,
        /// The type of the value.
        given: &'static str,
    },
    /// The text is not a valid parameter value.
    #[error("this is not the JSON of a parameter value: {text}")]
    Json {
        /// Error of the parser.
        text: String,
    },
    /// Declared twice with different types.
    #[error("parameter '{name}' is declared twice with different types")]
    Redeclared {
        /// The parameter.
        name: String,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or(String::new(), |s| format!("; did you mean '{s}'?"))
}
