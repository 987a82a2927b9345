// SPDX-License-Identifier: Apache-2.0
// The C ABI of Driveline. Generated from crates/driveline-capi; do not edit.
//
// Every function returns a dl_status or cannot fail (dl_host_main returns an exit status);
// dl_last_error() has the detail. No function throws. Functions that load a component library end
// the process if an initialiser of the library throws; no other function does. A function that
// consumes a handle takes a pointer to the variable ("moved") and leaves NULL in it.

#ifndef DRIVELINE_DRIVELINE_H
#define DRIVELINE_DRIVELINE_H

#include <stddef.h>
#include <stdint.h>

// Version of the ABI between component libraries and their host. A library built for another one
// is refused; the error names the library.
#define DL_COMPONENT_ABI 1

// Result of a call. For anything but `DL_OK`, `dl_last_error()` has the reason and the remedy.
typedef enum {
  // Done.
  DL_OK = 0,
  // An argument is NULL where it must not be, not UTF-8, or out of range; or a handle was used
  // after it was moved.
  DL_ERROR_ARGUMENT = 1,
  // The domain could not be joined.
  DL_ERROR_OPEN = 2,
  // The name of a node, topic or service breaks the rules.
  DL_ERROR_NAME = 3,
  // A publisher, subscription, client or service could not be created.
  DL_ERROR_ENDPOINT = 4,
  // A payload is longer than its publisher, client or service was created for.
  DL_ERROR_TOO_LONG = 5,
  // All loans are in use, or samples that readers hold occupy all buffers.
  DL_ERROR_LOANS_OUT = 6,
  // The subscription holds as many samples as permitted.
  DL_ERROR_HELD_LIMIT = 7,
  // The topic carries another kind of payload, or the loan is another publisher's.
  DL_ERROR_WRONG_KIND = 8,
  // The transport refused.
  DL_ERROR_TRANSPORT = 9,
  // A value could not be serialised.
  DL_ERROR_ENCODE = 10,
  // Bytes could not be read as the type that they should have.
  DL_ERROR_DECODE = 11,
  // The kernel refused a resource for waiting.
  DL_ERROR_WAIT = 12,
  // There is no such parameter, it has another type, or the value was refused.
  DL_ERROR_PARAMETER = 13,
  // A schema is malformed.
  DL_ERROR_SCHEMA = 14,
  // Another thread uses this handle right now.
  DL_ERROR_BUSY = 15,
  // A component reported failure.
  DL_ERROR_COMPONENT = 16,
  // A component library could not be used.
  DL_ERROR_LIBRARY = 17,
  // A defect of Driveline itself. The library stays usable; the handle in question may not be.
  DL_ERROR_INTERNAL = 18,
  // No server offers the service, none that matches, or more than one.
  DL_ERROR_NO_SERVER = 19,
  // The client has its maximum number of calls in flight, or the server's queue is full. Nothing
  // was sent.
  DL_ERROR_SERVER_BUSY = 20,
  // No response within the time-out.
  DL_ERROR_TIMED_OUT = 21,
  // The other end of a service has ended: the server without a response, or the client that was
  // to get the answer.
  DL_ERROR_PEER_GONE = 22,
  // The server refused, dropped the request, or has no room; the text is the server's.
  DL_ERROR_REFUSED = 23,
  // A blocking call would wait for a server that the calling thread keeps from running.
  DL_ERROR_WOULD_DEADLOCK = 24,
  // The component is inactive: nothing is published until its next `on_activate`.
  DL_ERROR_INACTIVE = 25,
  // The graph has no such mode, or the module has no launcher that could switch to it.
  DL_ERROR_MODE = 26,
} dl_status;

// Kind of an event.
typedef enum {
  // Nothing.
  DL_EVENT_NONE = 0,
  // A peer was matched.
  DL_EVENT_MATCHED = 1,
  // A matched peer ended or died.
  DL_EVENT_UNMATCHED = 2,
  // A peer on the same topic cannot be matched, or no peer can find this endpoint, for example
  // because the domain directory was removed. The text has the reason and the remedy.
  DL_EVENT_REFUSED = 3,
  // No sample came, or was published, for longer than the deadline.
  DL_EVENT_DEADLINE_MISSED = 4,
  // A publisher gave no sign of life for longer than its lease.
  DL_EVENT_LIVELINESS_LOST = 5,
  // A publisher that had lost its liveliness gives signs of life again.
  DL_EVENT_LIVELINESS_GAINED = 6,
  // A reliable subscription is served best effort from now on; the text says which and why.
  DL_EVENT_DOWNGRADED = 7,
  // Events were lost because they were not polled in time; the text has their number.
  DL_EVENT_EVENTS_LOST = 8,
  // A publish has waited `max_blocking_ms` for a reliable subscription without success; the text
  // names it and the remedy.
  DL_EVENT_RELIABLE_TIMEOUT = 9,
} dl_event_kind;

// Reach of a topic.
typedef enum {
  // Only this process; samples move as pointers. The default.
  DL_REACH_PROCESS = 0,
  // Every process of this host that shares the domain directory and has rights on the topic.
  DL_REACH_HOST = 1,
  // As host, and other hosts too, if a gateway of the domain carries the topic.
  DL_REACH_NETWORK = 2,
} dl_reach;

// Behaviour of a publisher towards slow subscriptions.
typedef enum {
  // Newer samples replace older ones; samples that a slow subscription does not read in time
  // count as missed. The default.
  DL_BEST_EFFORT = 0,
  // The publisher waits, at most `max_blocking_ms`.
  DL_RELIABLE = 1,
} dl_reliability;

// Delivery of earlier samples to late subscriptions.
typedef enum {
  // Only what is published after the match. The default.
  DL_VOLATILE = 0,
  // Also the last `depth` samples before the match.
  DL_TRANSIENT_LOCAL = 1,
} dl_durability;

// Way in which a publisher shows that it is alive.
typedef enum {
  // By its process being alive. The default.
  DL_LIVELINESS_AUTOMATIC = 0,
  // By publishing, or by asserting its liveliness, at least once per lease.
  DL_LIVELINESS_MANUAL_BY_TOPIC = 1,
} dl_liveliness;

// Users at the other end that are accepted at host reach.
typedef enum {
  // The user of this process. The default.
  DL_ACCESS_OWN_USER = 0,
  // Every process that can reach the domain directory.
  DL_ACCESS_ANYONE = 1,
  // The user of this process and the listed users.
  DL_ACCESS_USERS = 2,
} dl_access;

// Representation of a payload.
typedef enum {
  // C-layout head with at most one trailing array; read in place.
  DL_KIND_PLAIN = 0,
  // Protocol buffers; a pointer inside a process, bytes outside.
  DL_KIND_PROTOBUF = 1,
  // Any value of one language; process reach only.
  DL_KIND_OBJECT = 2,
  // Bytes with an encoding that Driveline does not interpret.
  DL_KIND_BYTES = 3,
} dl_payload_kind;

// Wait strategy of a blocking reader.
typedef enum {
  // Sleep in the kernel; an idle reader uses no CPU.
  DL_WAIT_BLOCK = 0,
  // Never sleep: lowest latency, one whole CPU.
  DL_WAIT_SPIN = 1,
  // Spin for `spin_ns`, then sleep.
  DL_WAIT_SPIN_THEN_BLOCK = 2,
} dl_wait_mode;

// Type of a parameter.
typedef enum {
  // `integer` is 0 or 1.
  DL_PARAMETER_BOOL = 0,
  // `integer`.
  DL_PARAMETER_INTEGER = 1,
  // `number`.
  DL_PARAMETER_FLOAT = 2,
  // `text`.
  DL_PARAMETER_TEXT = 3,
  // `text` is a JSON array; `integer` is the number of its items, in results. Items have the
  // names `NAME/0`, `NAME/1`, …
  DL_PARAMETER_LIST = 4,
  // `text` is a JSON object; `integer` is the number of its entries, in results. Entries have
  // names such as `NAME/KEY`.
  DL_PARAMETER_MAP = 5,
} dl_parameter_type;

// Severity of a line of the log.
typedef enum {
  // Something failed.
  DL_LOG_ERROR = 1,
  // Something is wrong, but work continues.
  DL_LOG_WARNING = 2,
  // Something notable happened.
  DL_LOG_INFO = 3,
  // For developers.
  DL_LOG_DEBUG = 4,
} dl_log_level;

// Collects the declarations of a class.
typedef struct dl_class_builder dl_class_builder;

// Calls the one server of a service. One thread at a time; a second one gets `DL_ERROR_BUSY`.
// Responses outlive it.
typedef struct dl_client dl_client;

// Context of a component, passed to its initialisation. Any thread, unless a function says
// otherwise.
typedef struct dl_component_io dl_component_io;

// A process's membership in a domain. Any thread.
typedef struct dl_context dl_context;

// Arguments of a callback. Valid during the call, on the calling thread.
typedef struct dl_invocation dl_invocation;

// Memory for one payload that only the holder can see, until it is published. One thread at a
// time.
typedef struct dl_loan dl_loan;

// A named part of the system that has publishers, subscriptions and parameters. Any thread.
typedef struct dl_node dl_node;

// The sending end of a topic. Any thread; calls from several threads are made one after another.
typedef struct dl_publisher dl_publisher;

// Answers one request, once, on any thread. If it is dropped, the client gets an error: there is
// no answer.
typedef struct dl_responder dl_responder;

// One received message. Immutable; any thread may read it, one thread drops it. Holding it keeps
// its memory.
typedef struct dl_sample dl_sample;

// The identity of a payload type. Immutable; any thread.
typedef struct dl_schema dl_schema;

// Offers a service. One thread at a time; a second one gets `DL_ERROR_BUSY`. Requests and
// responders outlive it.
typedef struct dl_service dl_service;

// The receiving end of a topic. One thread at a time; a second one gets `DL_ERROR_BUSY`. Samples
// outlive it.
typedef struct dl_subscription dl_subscription;

// A component under test. One thread at a time; a second one gets `DL_ERROR_BUSY`.
typedef struct dl_test dl_test;

// Value of a parameter.
typedef struct {
  // `sizeof(dl_parameter_value)`, set by the caller.
  size_t size;
  // A `dl_parameter_type`; determines which of the other fields has the value.
  uint32_t kind;
  // Zero.
  uint32_t reserved;
  // Whole number or truth value.
  int64_t integer;
  // Real number.
  double number;
  // NUL-terminated text, or NULL. Borrowed in arguments; owned in results, to be given to
  // `dl_string_drop`.
  char *text;
} dl_parameter_value;

// One tick of a timer.
typedef struct {
  // `sizeof(dl_timer_tick)` in the release of its maker: the caller of `dl_invocation_tick`, or
  // the library for a timer's callback. A callback checks it before it reads fields that the
  // first release did not have.
  size_t size;
  // Scheduled time, in nanoseconds of `CLOCK_MONOTONIC`. Ticks are on a fixed grid.
  uint64_t scheduled_ns;
  // Grid points that passed without a tick since the previous tick.
  uint64_t overruns;
} dl_timer_tick;

// Callback of a timer. As `on_trigger`, in the same group, on the same executor.
typedef int (*dl_timer_callback)(void *context, const dl_timer_tick *tick);

// Quality of service, with DDS's names and rules. All zero is the default: keep last 1, best
// effort, volatile.
typedef struct {
  // Keep the last `depth` samples; 0 means 1.
  uint32_t depth;
  // A `dl_reliability`.
  uint32_t reliability;
  // Longest wait of a reliable publish, in milliseconds; 0 means 100.
  uint32_t max_blocking_ms;
  // A `dl_durability`.
  uint32_t durability;
  // Longest interval between samples, in milliseconds; 0: none.
  uint32_t deadline_ms;
  // Greatest age of a sample that is delivered, in milliseconds; 0: no limit.
  uint32_t lifespan_ms;
  // A `dl_liveliness`.
  uint32_t liveliness;
  // Time without a sign of life from which a publisher counts as not alive, in milliseconds; 0:
  // none.
  uint32_t lease_ms;
  // 1: a publisher puts an XXH3-64 of the payload into each header; a subscription matches only
  // such publishers, and verifies it.
  uint32_t checksum;
  // Zero. Space for fields of later releases: this struct is part of others and cannot become
  // longer.
  uint32_t reserved[7];
} dl_qos;

// Options of a publisher. All zero but `size` is the default.
typedef struct {
  // `sizeof(dl_publisher_options)`.
  size_t size;
  // A `dl_reach`.
  uint32_t reach;
  // Maximum number of loans at once; 0 means 2.
  uint32_t loans;
  // Longest payload in bytes; 0 means 65536. This much is reserved for every slot when the
  // publisher is created.
  uint64_t max_payload;
  // Maximum number of samples that all subscriptions together may hold at host reach; 0 means 8.
  uint32_t pins;
  // A `dl_access`.
  uint32_t access;
  // Borrowed: user ids for `DL_ACCESS_USERS`.
  const uint32_t *users;
  // Number of `users`.
  size_t user_count;
  // Quality of service.
  dl_qos qos;
} dl_publisher_options;

// Functions of a value of C or C++. Static: its pointers are valid as long as the process.
//
// Only these functions access an object, whichever library it is in; its content is private to its
// maker. They are called on any thread and must not throw.
typedef struct {
  // `sizeof(dl_object_vtable)`.
  size_t size;
  // Identity of the value's type, including everything that separately compiled code must agree
  // on to read it. The pointer passes only to readers with the same identity. Never NULL.
  const char *type_id;
  // The value in an object, valid as long as the object. NULL: the object is the value.
  const void *(*value)(const void *object);
  // A second object with the same value, which needs no copy; it may outlive the first one. NULL
  // is a failure whose text was given to `dl_set_last_error`.
  void *(*clone)(const void *object);
  // Destroys an object: exactly once for each, after everything else.
  void (*drop)(void *object);
  // Length when serialised, in bytes; negative if it cannot be. NULL for objects that never
  // leave the process.
  int64_t (*encoded_len)(const void *object);
  // Serialises into exactly `len` bytes and returns 0; anything else is a failure whose text was
  // given to `dl_set_last_error`.
  int (*encode)(const void *object, uint8_t *into, size_t len);
} dl_object_vtable;

// Counters of a publisher since its creation.
typedef struct {
  // `sizeof(dl_publisher_stats)`, set by the caller.
  size_t size;
  // Samples published.
  uint64_t published;
  // Samples that newer ones replaced before they were read, over all subscriptions to which this
  // publisher passes pointers.
  uint64_t overwritten;
  // Values that were serialised for readers outside.
  uint64_t serialised;
  // Periods of the offered deadline that ended without a sample, from the first sample on.
  uint64_t deadlines_missed;
} dl_publisher_stats;

// An event of a publisher or a subscription.
typedef struct {
  // `sizeof(dl_event)`, set by the caller.
  size_t size;
  // Kind of the event, a `dl_event_kind`; `DL_EVENT_NONE` if there is none.
  uint32_t kind;
  // Zero.
  uint32_t reserved;
  // Memory of the caller, or NULL: gets a text for people, always NUL-terminated.
  char *text;
  // Size of that memory, in bytes; set by the caller. 1024 is enough for nearly all texts;
  // longer ones are cut.
  size_t text_capacity;
  // Length of the whole text without the NUL, in bytes, also if it was cut.
  size_t text_len;
  // For a missed deadline: periods without a sample since the previous such event. For a
  // reliable time-out: waits for a slow subscription since the previous such event. Else 0.
  uint64_t missed;
  // The same since the endpoint was created; for a reliable time-out at host reach, number of
  // publishes that timed out, however many subscriptions were slow. Else 0.
  uint64_t total;
} dl_event;

// Metadata of a sample. Times are `CLOCK_MONOTONIC` of this host, in nanoseconds; the gateway
// converts those of other hosts.
typedef struct {
  // `sizeof(dl_sample_header)`, set by the caller; no more is written.
  size_t size;
  // 1 for a publisher's first sample, then one more each.
  uint64_t sequence;
  // Time of publication.
  uint64_t publish_time_ns;
  // The publisher's `CLOCK_REALTIME - CLOCK_MONOTONIC` at that time.
  int64_t wall_offset_ns;
  // Shared by everything that descends from one source sample; never 0.
  uint64_t trace_id;
  // Payload length in bytes; 0 for a pointer.
  uint64_t payload_len;
  // XXH3-64 of the payload if `has_checksum`.
  uint64_t checksum;
  // 1 if the header has a checksum.
  uint32_t has_checksum;
  // Number of origins, see `dl_sample_get_origin`.
  uint32_t origin_count;
  // Number of origins that did not fit.
  uint32_t origins_dropped;
  // Zero.
  uint32_t reserved;
  // Number of this publisher's samples missed since the previous one.
  uint64_t missed;
} dl_sample_header;

// A source that a sample descends from, and where its age went: `publish_time_ns -
// source_oldest_ns = communication_ns + computation_ns + idle_ns`. Age and parts are signed: they
// can be negative if the data came from another host, whose clock is known only approximately, or
// if a source time is in the future.
typedef struct {
  // `sizeof(dl_origin)`, set by the caller; no more is written.
  size_t size;
  // Id of the source topic, see `dl_topic_id`.
  uint64_t topic_id;
  // Source time of the oldest data that contributed; wraps (as an `int64_t` it is negative) if
  // it came from another host and was seen before this host's clock began.
  uint64_t source_oldest_ns;
  // Source time of the newest data that contributed; may wrap as well.
  uint64_t source_newest_ns;
  // From a publish to the start of the callback that it triggered, summed over the hops.
  int64_t communication_ns;
  // From the start of a callback (at the source: from the source time) to the publish, summed.
  int64_t computation_ns;
  // Time that data waited until a timer or another input caused it to be read, summed.
  int64_t idle_ns;
} dl_origin;

// A value that may outlive the sample that it came with.
typedef struct {
  // `sizeof(dl_shared_object)`, set by the caller.
  size_t size;
  // The value; not to be changed. NULL if there was none of the type.
  const void *value;
  // Keeps the value alive. Owned: to be given to `drop`, once, on any thread.
  void *owner;
  // Releases the value. A function of the library that published it.
  void (*drop)(void *owner);
} dl_shared_object;

// Text that is not NUL-terminated. Borrowed.
typedef struct {
  // UTF-8, not NUL-terminated; never NULL.
  const char *data;
  // Length in bytes.
  size_t len;
} dl_text;

// Options of a client. All zero but `size` is the default.
typedef struct {
  // `sizeof(dl_client_options)`.
  size_t size;
  // A `dl_reach`, as the server has it; not `DL_REACH_NETWORK`.
  uint32_t reach;
  // Maximum number of calls in flight, and of responses held; 0 means 1, at most 64. At host
  // reach the server reserves memory for `max(pending, 2) + 2 * pending + 4` responses of its
  // `max_response`: eight for 1. If it grants access to users, `3 * pending` instead of `2 *
  // pending`; to anyone, `5 * pending`.
  uint32_t pending;
  // Longest request in bytes; 0 means 4096.
  uint64_t max_request;
  // A `dl_access`: users whose servers are accepted, and that may read requests, at host reach.
  uint32_t access;
  // Zero.
  uint32_t reserved;
  // Borrowed: user ids for `DL_ACCESS_USERS`.
  const uint32_t *users;
  // Number of `users`.
  size_t user_count;
} dl_client_options;

// Options of a service. All zero but `size` is the default.
typedef struct {
  // `sizeof(dl_service_options)`.
  size_t size;
  // A `dl_reach`; not `DL_REACH_NETWORK`.
  uint32_t reach;
  // Maximum number of clients served at a time; 0 means 8, at most 256.
  uint32_t max_clients;
  // Longest response in bytes; 0 means 65536. Reserved several times when a client's first
  // request is taken.
  uint64_t max_response;
  // Maximum number of calls in flight of one client; 0 means 8, at most 64.
  uint32_t max_pending;
  // Maximum number of requests that may be held, of each client at host reach, of all clients
  // together inside the process; 0 means 2, at most 8.
  uint32_t max_held;
  // A `dl_access`: users that may call at host reach.
  uint32_t access;
  // Zero.
  uint32_t reserved;
  // Borrowed: user ids for `DL_ACCESS_USERS`.
  const uint32_t *users;
  // Number of `users`.
  size_t user_count;
} dl_service_options;

// Options of a subscription. All zero but `size` is the default.
typedef struct {
  // `sizeof(dl_subscription_options)`.
  size_t size;
  // A `dl_reach`.
  uint32_t reach;
  // Maximum number of samples that the reader may hold at once; 0 means 2.
  uint32_t max_held;
  // A `dl_access`: users whose publishers are accepted at host reach.
  uint32_t access;
  // Zero.
  uint32_t reserved;
  // Borrowed: user ids for `DL_ACCESS_USERS`.
  const uint32_t *users;
  // Number of `users`.
  size_t user_count;
  // Quality of service. `depth` limits the unread samples that wait: of all publishers that pass
  // pointers together, and of each publisher in shared memory.
  dl_qos qos;
} dl_subscription_options;

// Counters of a subscription since its creation. Published after the match = received + missed +
// superseded + expired + corrupt + refused + lost_on_the_way + not_read + inactive + standby.
typedef struct {
  // `sizeof(dl_subscription_stats)`, set by the caller.
  size_t size;
  // Samples read.
  uint64_t received;
  // Samples that newer ones replaced before they were read.
  uint64_t missed;
  // Samples older than the lifespan when a read came to them.
  uint64_t expired;
  // Part of `missed` or `superseded`: replaced because the history was full, not passed over by
  // a read of the newest.
  uint64_t overwritten;
  // Replaced samples of an input that does not trigger its component: only the newest is wanted.
  uint64_t superseded;
  // Samples whose header, checksum or index made no sense.
  uint64_t corrupt;
  // Samples that broke what their publisher had promised at the match: without its checksum, or
  // longer than its `max_payload`.
  uint64_t refused;
  // Samples of other hosts, or of ROS 2, that did not arrive here or that the gateway here
  // dropped.
  uint64_t lost_on_the_way;
  // Samples that are unread now. Expired ones are included until a read comes to them.
  uint64_t not_read;
  // Number of publishers of other hosts, or of ROS 2, whose samples after the newest one that
  // arrived are not known, and are not in the sum.
  uint64_t uncounted;
  // Reason for one of them: 0 there is none; 1 its host is out of reach; 2 its host did not come
  // back, or came back without it; 3 it ended, and its last number was not announced; 4 the
  // gateway here gave its place to another publisher; 5 the gateway here has ended; others: a
  // reason of a later release.
  uint64_t uncounted_reason;
  // Periods of the requested deadline that ended without a sample, from the first sample on. Not
  // part of the sum.
  uint64_t deadlines_missed;
  // Samples that arrived while the component was inactive, or were unread when it became so.
  uint64_t inactive;
  // Samples of publishers that stood by for a stronger one.
  uint64_t standby;
} dl_subscription_stats;

// An event of an input or output of a component.
typedef struct {
  // `sizeof(dl_port_event)` of the library that made it; a later one may have more fields at its
  // end.
  size_t size;
  // Name of the port; empty if events were lost, of one or of several ports.
  const char *port;
  // 1 if the port is an output, 0 if it is an input or `port` is empty.
  uint32_t is_output;
  // Kind of the event, a `dl_event_kind`; a later library may have more of them.
  uint32_t kind;
  // A text for people.
  const char *text;
  // For a missed deadline: periods without a sample since the previous such event. For a
  // reliable time-out: waits for a slow subscription since the previous such event. Else 0.
  uint64_t missed;
  // The same since the endpoint was created; for a reliable time-out at host reach, number of
  // publishes that timed out, however many subscriptions were slow. Else 0.
  uint64_t total;
} dl_port_event;

// Class of components. Static, and read once, when the library is loaded. The functions must not
// throw. Functions that return an `int` return 0 for success; for a failure they pass the reason
// to `dl_set_last_error` and return another value.
typedef struct {
  // `sizeof(dl_component_vtable)`.
  size_t size;
  // Name, unique in the library. Never NULL.
  const char *name;
  // One line for people, or NULL.
  const char *doc;
  // Creates a component; cheap and without side effects, because it is also called to describe
  // the class.
  int (*create)(void **component);
  // Declares ports and parameters. Always the same ones.
  int (*describe)(void *component, dl_class_builder *builder);
  // Initialises the component. `io` is borrowed: valid until `destroy`.
  int (*init)(void *component, const dl_component_io *io);
  // Called when the trigger fires. `invocation` is borrowed: valid during the call, on this
  // thread.
  int (*on_trigger)(void *component, const dl_invocation *invocation);
  // Called after the last callback has returned. Not called if `init` was not.
  void (*shutdown)(void *component);
  // Destroys the component.
  void (*destroy)(void *component);
  // Called for an event of an input or output, other than a sample. As `on_trigger`, in the same
  // group, on the same executor. `event` is borrowed: valid during the call. NULL: the component
  // handles no events.
  int (*on_event)(void *component, const dl_port_event *event);
  // Called when the component becomes active: its callback, timers and outputs work from here
  // on. As `on_trigger`. For a component that no mode of the graph names, it is called once,
  // after `init` of all components of the module, on the thread that called `init`. After a
  // failure the component stays inactive; if no mode names it, the module ends. NULL: nothing
  // to do.
  int (*on_activate)(void *component);
  // Called when the component becomes inactive: its outputs refuse to publish once this has
  // returned. As `on_trigger`. NULL: nothing to do.
  int (*on_deactivate)(void *component);
  // Called when a parameter changes: one of `dl_class_add_live_parameter` by `driveline param
  // set`, or any parameter by a mode of the graph. As `on_trigger`; for a mode, before
  // `on_activate`. The component's node has the new value already. After a failure it gets the
  // old value back, and the caller of the change gets the text of the failure; for a mode, it is
  // logged. `name` is borrowed: valid during the call. NULL: every value is accepted.
  int (*on_parameter)(void *component, const char *name);
} dl_component_vtable;

// Result of `driveline_component_entry`. Static.
typedef struct {
  // `DL_COMPONENT_ABI`. Always the first field, so that every release can read it.
  uint32_t abi;
  // `sizeof(dl_component_library)`. Always the second field.
  uint32_t size;
  // The classes.
  const dl_component_vtable *const *classes;
  // Number of `classes`.
  size_t class_count;
  // Version of the SDK that the library was built with, or NULL.
  const char *sdk_version;
} dl_component_library;

// Type of the one symbol that a component library exports, `driveline_component_entry`.
typedef const dl_component_library *(*dl_component_entry)(void);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Declares an input; the order is that of the indices in `dl_invocation_sample`. `schema` is
// copied. `doc` may be NULL.
//
// What the caller promises:
// Handles are NULL or live; strings are NULL or NUL-terminated.
dl_status dl_class_add_input(dl_class_builder *builder,
                             const char *name,
                             const dl_schema *schema,
                             const char *doc);

// Declares an output; the order is that of the indices in `dl_component_io_output`. As
// `dl_class_add_input`.
//
// What the caller promises:
// Handles are NULL or live; strings are NULL or NUL-terminated.
dl_status dl_class_add_output(dl_class_builder *builder,
                              const char *name,
                              const dl_schema *schema,
                              const char *doc);

// Declares a parameter with its default, which fixes the type. `doc` may be NULL.
//
// What the caller promises:
// Handles are NULL or live; strings are NULL or NUL-terminated; `default_value` is NULL or a valid
// value with its `size`.
dl_status dl_class_add_parameter(dl_class_builder *builder,
                                 const char *name,
                                 const dl_parameter_value *default_value,
                                 const char *doc);

// Declares a parameter that can be changed while the component runs (`driveline param set`), as
// `dl_class_add_parameter`. `dl_class_set_parameter_range` gives it a range.
//
// What the caller promises:
// As `dl_class_add_parameter`.
dl_status dl_class_add_live_parameter(dl_class_builder *builder,
                                      const char *name,
                                      const dl_parameter_value *default_value,
                                      const char *doc);

// Declares the minimum and maximum of a number that `dl_class_add_parameter` or
// `dl_class_add_live_parameter` has added, or of each item of a list. A graph with another value
// fails `driveline validate`. -INFINITY and INFINITY mean no bound.
//
// What the caller promises:
// `builder` is NULL or a live handle; `name` is NULL or NUL-terminated.
dl_status dl_class_set_parameter_range(dl_class_builder *builder,
                                       const char *name,
                                       double min,
                                       double max);

// Name of the component in the graph; NULL for NULL. Borrowed from `io`.
//
// What the caller promises:
// `io` is NULL or live.
const char *dl_component_io_instance(const dl_component_io *io);

// The component's node, with its parameters declared and set; NULL for NULL. Borrowed from `io`.
//
// What the caller promises:
// `io` is NULL or live.
const dl_node *dl_component_io_node(const dl_component_io *io);

// The publisher of an output; NULL if there is none with this index. Borrowed from `io`.
//
// What the caller promises:
// `io` is NULL or live.
const dl_publisher *dl_component_io_output(const dl_component_io *io, size_t index);

// Reports that the component's work is done. Its timers stop. The run ends once all work in flight
// has been processed.
//
// What the caller promises:
// `io` is NULL or live.
dl_status dl_component_io_finish(const dl_component_io *io);

// Adds a note for readers of the run's figures, such as `detector`, "classical, no model was
// given": shown with the run and kept in its report. Not for every sample: it allocates.
//
// What the caller promises:
// `io` is NULL or live; strings are NULL or NUL-terminated.
dl_status dl_component_io_add_run_note(const dl_component_io *io,
                                       const char *name,
                                       const char *value);

// Requests a switch of the whole run to a mode of the graph, which the launcher grants or refuses.
// Does not block; allocates. The outcome is an event of the run.
//
// What the caller promises:
// `io` is NULL or live; `mode` is NULL or NUL-terminated.
dl_status dl_component_io_request_mode(const dl_component_io *io, const char *mode);

// Returns 1 if the run is ending, for long callbacks and for the component's own threads. One
// atomic load.
//
// What the caller promises:
// `io` is NULL or live.
int dl_component_io_is_stopping(const dl_component_io *io);

// Adds a timer of the component. Only during `init`. `context` is passed to every call; the
// component keeps it alive until `destroy`.
//
// What the caller promises:
// `io` is NULL or live; `callback` is NULL or may be called with `context` until the component is
// destroyed.
dl_status dl_component_io_add_timer(const dl_component_io *io,
                                    uint64_t period_ns,
                                    dl_timer_callback callback,
                                    void *context);

// Moves the next tick of the timers that were added with `context` to `at_ns`, in nanoseconds of
// `CLOCK_MONOTONIC`, at once if that is past; the later ticks follow on the grid of the period
// from there. Only within a call of the component.
//
// What the caller promises:
// `io` is NULL or live.
dl_status dl_component_io_next_tick(const dl_component_io *io, void *context, uint64_t at_ns);

// Index of the input that triggered the call; -1 if none did.
//
// What the caller promises:
// `invocation` is NULL or live.
int64_t dl_invocation_trigger(const dl_invocation *invocation);

// Start of the call, in nanoseconds of `CLOCK_MONOTONIC`; 0 for NULL.
//
// What the caller promises:
// `invocation` is NULL or live.
uint64_t dl_invocation_start_ns(const dl_invocation *invocation);

// Writes the tick if a timer made the call. `*is_tick`: 1 if one did, else 0.
//
// What the caller promises:
// `invocation` is NULL or live; `tick` is NULL or points to a `dl_timer_tick` whose `size` is set;
// `is_tick` is NULL or valid for writing.
dl_status dl_invocation_tick(const dl_invocation *invocation, dl_timer_tick *tick, int *is_tick);

// The sample that the trigger chose for an input. `*sample`: NULL if it chose none, else owned by
// the caller.
//
// What the caller promises:
// `invocation` is NULL or live; `sample` is NULL or valid for writing.
dl_status dl_invocation_sample(const dl_invocation *invocation, size_t input, dl_sample **sample);

// The sample that the trigger chose, or else the newest of the input, read now; an earlier call
// may have seen it. Under the trigger `any`, a sample that started a call belongs to that call
// alone. `*sample`: owned by the caller; NULL if there is no sample, if it is older than the
// trigger's `max_age`, or if the component holds too many samples.
//
// What the caller promises:
// `invocation` is NULL or live; `sample` is NULL or valid for writing.
dl_status dl_invocation_read(const dl_invocation *invocation, size_t input, dl_sample **sample);

// Joins a domain. Until an endpoint with host or network reach is created, the process touches
// nothing outside itself except the domain's directory, which it creates if missing.
//
// `name`: name of the process, as tools show it. `domain_dir`: NULL takes `DRIVELINE_DOMAIN_DIR`,
// or else the user's domain named by `DRIVELINE_DOMAIN`, or else the user's default domain.
// `*context`: owned by the caller, to be given to `dl_context_drop`. Warnings and errors of the
// library go to stderr unless `DRIVELINE_LOG` says otherwise. Blocks only for file operations.
//
// The first call in a process raises its soft limit on open descriptors to the hard limit
// (`ulimit -Hn`), since each match takes one. Programs started from the process inherit it;
// `select` cannot be used with descriptors from 1024 on.
//
// What the caller promises:
// Strings are NULL or NUL-terminated; `context` is NULL or valid for writing.
dl_status dl_context_new(const char *name, const char *domain_dir, dl_context **context);

// Leaves the domain once everything created from it is dropped as well. `*context` (moved) becomes
// NULL; NULL is permitted.
//
// What the caller promises:
// `context` is NULL or points to NULL or to an owned handle.
void dl_context_drop(dl_context **context);

// Creates a node. `*node`: owned by the caller, to be given to `dl_node_drop`; it may outlive the
// context's handle.
//
// What the caller promises:
// `context` is NULL or a live handle; `name` is NULL or NUL-terminated; `node` is NULL or valid
// for writing.
dl_status dl_node_new(const dl_context *context, const char *name, dl_node **node);

// Drops a node; its publishers and subscriptions live on. `*node` (moved) becomes NULL; NULL is
// permitted.
//
// What the caller promises:
// `node` is NULL or points to NULL or to an owned handle.
void dl_node_drop(dl_node **node);

// Begins a conversion between a message and its bytes; pass the result to `dl_conversion_end`. 0
// outside of a callback. Any thread. One clock reading.
uint64_t dl_conversion_begin(void);

// Counts the time since `began`, the result of `dl_conversion_begin`, as communication of the
// callback that runs on this thread, and not as its computation. No time counts twice, and no time
// before the callback counts. 0 does nothing.
void dl_conversion_end(uint64_t began);

// Runs the host with the arguments of its `main` and returns its exit status. Blocks until the
// module has ended, and takes over SIGINT and SIGTERM. The executable that calls it must share
// this library with the components.
//
// What the caller promises:
// `argv` is NULL or points to `argc` NUL-terminated strings.
int dl_host_main(int argc, const char *const *argv);

// Writes a line into the log. `level`: a `dl_log_level`, anything else counts as `DL_LOG_INFO`.
// `who`: name of the component or node, may be NULL. Not for the data path: it allocates and
// writes.
//
// What the caller promises:
// `who` and `text` are NULL or NUL-terminated.
void dl_log(uint32_t level, const char *who, const char *text);

// Declares a parameter with its default, which fixes the type. A second declaration of the same
// type changes nothing.
//
// What the caller promises:
// `node` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or a valid
// value with its `size`.
dl_status dl_node_declare_parameter(const dl_node *node,
                                    const char *name,
                                    const dl_parameter_value *value);

// Sets a declared parameter; a whole number is accepted for a real one.
//
// What the caller promises:
// As `dl_node_declare_parameter`.
dl_status dl_node_set_parameter(const dl_node *node,
                                const char *name,
                                const dl_parameter_value *value);

// Reads a parameter, or a part of a list or map by its path (`pid/gains/0`). `value->text`, if not
// NULL, is owned by the caller. Takes a short lock: read once per callback.
//
// What the caller promises:
// `node` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or points to
// a `dl_parameter_value` whose `size` is set.
dl_status dl_node_get_parameter(const dl_node *node, const char *name, dl_parameter_value *value);

// Frees a text that a function of this library returned. `*text` (moved) becomes NULL; NULL is
// permitted.
//
// What the caller promises:
// `text` is NULL or points to NULL or to such a text.
void dl_string_drop(char **text);

// Creates a publisher and reserves all its memory. `options`: NULL takes the defaults.
// `*publisher`: owned by the caller, to be given to `dl_publisher_drop`; it may outlive node,
// context and schema.
//
// What the caller promises:
// Handles are NULL or live; `topic` is NULL or NUL-terminated; `options` is NULL or its `size`
// bytes are readable; `publisher` is NULL or valid for writing.
dl_status dl_publisher_new(const dl_node *node,
                           const char *topic,
                           const dl_schema *schema,
                           const dl_publisher_options *options,
                           dl_publisher **publisher);

// Drops a publisher and notifies its subscriptions. `*publisher` (moved) becomes NULL; NULL is
// permitted.
//
// What the caller promises:
// `publisher` is NULL or points to NULL or to an owned handle that no other thread uses.
void dl_publisher_drop(dl_publisher **publisher);

// Memory for a payload of `len` bytes (plain and bytes), aligned to 64. `*loan`: owned by the
// caller, to be given to `dl_publisher_publish` or `dl_loan_drop`. Its content is an earlier
// sample's. Does not allocate, except for the first handles of a thread. Blocks only while another
// thread uses this publisher.
//
// What the caller promises:
// `publisher` is NULL or a live handle; `loan` is NULL or valid for writing.
dl_status dl_publisher_loan(const dl_publisher *publisher, size_t len, dl_loan **loan);

// The loan's memory. Borrowed: valid until the loan is moved; may be written.
//
// What the caller promises:
// `loan` is NULL or a live handle; `data` and `len` are NULL or valid for writing.
dl_status dl_loan_payload(dl_loan *loan, uint8_t **data, size_t *len);

// Makes the payload shorter; a longer `len` changes nothing.
//
// What the caller promises:
// `loan` is NULL or a live handle.
dl_status dl_loan_shrink(dl_loan *loan, size_t len);

// Sets the time of measurement, in nanoseconds of `CLOCK_MONOTONIC`. Effective only at a source:
// samples that descend from others inherit their times.
//
// What the caller promises:
// `loan` is NULL or a live handle.
dl_status dl_loan_set_source_time(dl_loan *loan, uint64_t source_time_ns);

// Returns a loan unpublished. `*loan` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `loan` is NULL or points to NULL or to an owned handle.
void dl_loan_drop(dl_loan **loan);

// Publishes a loan. `*loan` (moved) becomes NULL, whatever the result. `sequence`: NULL, or
// receives the sample's number. Waits for readers only if the topic is reliable, at most
// `max_blocking_ms`; also waits while another thread publishes with this publisher. In a
// component's callback the sample inherits the origins of what the callback consumed.
//
// What the caller promises:
// `publisher` is NULL or a live handle; `loan` is NULL or points to NULL or to an owned handle;
// `sequence` is NULL or valid for writing.
dl_status dl_publisher_publish(const dl_publisher *publisher, dl_loan **loan, uint64_t *sequence);

// Publishes a value (protobuf and object). Readers inside the process get the pointer. Readers
// outside get its bytes, which are serialised once, if there is such a reader or the topic is
// transient-local.
//
// `object` is moved, whatever the result, unless `vtable` is not valid; it must not be changed any
// more. `source_time_ns`: time of measurement, 0 if it is not a source. `sequence`: NULL, or
// receives the sample's number.
//
// What the caller promises:
// `publisher` is NULL or a live handle; `object` is a value that `vtable` is for; `vtable` is NULL
// or static; `sequence` is NULL or valid for writing.
dl_status dl_publisher_publish_object(const dl_publisher *publisher,
                                      void *object,
                                      const dl_object_vtable *vtable,
                                      uint64_t source_time_ns,
                                      uint64_t *sequence);

// Reads the counters.
//
// What the caller promises:
// `publisher` is NULL or a live handle; `stats` is NULL or points to a `dl_publisher_stats` whose
// `size` is set.
dl_status dl_publisher_get_stats(const dl_publisher *publisher, dl_publisher_stats *stats);

// Number of subscriptions that are matched now; 0 for NULL.
//
// What the caller promises:
// `publisher` is NULL or a live handle.
size_t dl_publisher_matched(const dl_publisher *publisher);

// Takes the next event; its kind is `DL_EVENT_NONE` if there is none.
//
// What the caller promises:
// `publisher` is NULL or a live handle; `event` is NULL or points to a `dl_event` whose `size`,
// `text` and `text_capacity` are set.
dl_status dl_publisher_poll_event(const dl_publisher *publisher, dl_event *event);

// Asserts liveliness for `DL_LIVELINESS_MANUAL_BY_TOPIC`. Publishing asserts it as well.
//
// What the caller promises:
// `publisher` is NULL or a live handle.
dl_status dl_publisher_assert_liveliness(const dl_publisher *publisher);

// Reads a sample's header.
//
// What the caller promises:
// `sample` is NULL or a live handle; `header` is NULL or points to a `dl_sample_header` whose
// `size` is set.
dl_status dl_sample_get_header(const dl_sample *sample, dl_sample_header *header);

// Reads one of the sample's origins, `index` from 0 to `origin_count - 1`.
//
// What the caller promises:
// `sample` is NULL or a live handle; `origin` is NULL or points to a `dl_origin` whose `size` is
// set.
dl_status dl_sample_get_origin(const dl_sample *sample, size_t index, dl_origin *origin);

// The payload's bytes, in place. Borrowed: valid until the handle is dropped. A value that came as
// a pointer is serialised into memory of this handle at the first call, which allocates.
//
// What the caller promises:
// `sample` is NULL or a live handle; `data` and `len` are NULL or valid for writing.
dl_status dl_sample_payload(const dl_sample *sample, const uint8_t **data, size_t *len);

// The value, if it came as a pointer to the type `type_id` of C++; else `*value` is NULL, and the
// payload has the bytes if it is a message (objects have none). Borrowed: valid until the handle
// is dropped; not to be changed.
//
// What the caller promises:
// `sample` is NULL or a live handle; `type_id` is NULL or NUL-terminated; `value` is NULL or valid
// for writing.
dl_status dl_sample_object(const dl_sample *sample, const char *type_id, const void **value);

// As `dl_sample_object`, but the value may outlive the sample and then no longer counts as held.
// Allocates.
//
// What the caller promises:
// `sample` is NULL or a live handle; `type_id` is NULL or NUL-terminated; `shared` is NULL or
// points to a `dl_shared_object` whose `size` is set.
dl_status dl_sample_share(const dl_sample *sample, const char *type_id, dl_shared_object *shared);

// Type of the C++ value that the sample came with, as its publisher names it; empty if there is
// none. Borrowed from the sample.
//
// What the caller promises:
// `sample` is NULL or a live handle.
dl_text dl_sample_object_type(const dl_sample *sample);

// A second handle to the same message; no payload is copied, and it counts as held once. `*clone`:
// owned.
//
// What the caller promises:
// `sample` is NULL or a live handle; `clone` is NULL or valid for writing.
dl_status dl_sample_clone(const dl_sample *sample, dl_sample **clone);

// Releases a sample. `*sample` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `sample` is NULL or points to NULL or to an owned handle.
void dl_sample_drop(dl_sample **sample);

// The schema of a payload type. `kind`: a `dl_payload_kind`.
//
// Plain: `definition` is the canonical layout text, which is checked; `name` must be the one in
// it, or NULL; `encoding` is NULL. Protobuf: `name` is the message's full name and `definition`
// its canonical definition; `encoding` is NULL. Object: `definition` identifies the type within
// the language (may be NULL); `encoding` names the language. Bytes: `encoding` names the format;
// `definition` describes it (may be NULL). `*schema`: owned by the caller, to be given to
// `dl_schema_drop`.
//
// What the caller promises:
// Strings are NULL or NUL-terminated; `schema` is NULL or valid for writing.
dl_status dl_schema_new(uint32_t kind,
                        const char *name,
                        const char *encoding,
                        const char *definition,
                        dl_schema **schema);

// Drops a schema. `*schema` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `schema` is NULL or points to NULL or to an owned handle.
void dl_schema_drop(dl_schema **schema);

// Writes the identity hash: SHA-256 over kind, name, encoding and definition. Equal hashes mean
// equal types.
//
// What the caller promises:
// `schema` is NULL or a live handle; `hash` is NULL or valid for writing 32 bytes.
dl_status dl_schema_hash(const dl_schema *schema, uint8_t (*hash)[32]);

// The type's name; empty for NULL. Borrowed from the schema.
//
// What the caller promises:
// `schema` is NULL or a live handle.
dl_text dl_schema_name(const dl_schema *schema);

// The type's definition; empty for NULL. Borrowed from the schema.
//
// What the caller promises:
// `schema` is NULL or a live handle.
dl_text dl_schema_definition(const dl_schema *schema);

// Creates a client and reserves the memory for its requests. `options`: NULL takes the defaults.
// `*client`: owned by the caller, to be given to `dl_client_drop`; it may outlive node, context
// and schemas.
//
// What the caller promises:
// Handles are NULL or live; `service` is NULL or NUL-terminated; `options` is NULL or its `size`
// bytes are readable; `client` is NULL or valid for writing.
dl_status dl_client_new(const dl_node *node,
                        const char *service,
                        const dl_schema *request,
                        const dl_schema *response,
                        const dl_client_options *options,
                        dl_client **client);

// Drops a client; its responses stay. `*client` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `client` is NULL or points to NULL or to an owned handle that no other thread uses.
void dl_client_drop(dl_client **client);

// Waits until exactly one server exists (`*ready` = 1) or the time-out has passed (0). Blocks.
//
// What the caller promises:
// `client` is NULL or a live handle; `ready` is NULL or valid for writing.
dl_status dl_client_wait_for_server(const dl_client *client, uint64_t timeout_ns, int *ready);

// Memory for a request of `len` bytes (plain and bytes), aligned to 64. `*loan`: owned by the
// caller, to be given to `dl_client_call` or `dl_loan_drop`. Its content is an earlier request's.
//
// What the caller promises:
// `client` is NULL or a live handle; `loan` is NULL or valid for writing.
dl_status dl_client_loan(const dl_client *client, size_t len, dl_loan **loan);

// Sends a request and waits for its response, at most `timeout_ns`. `*loan` (moved) becomes NULL,
// whatever the result. `*response`: NULL after an error, else owned by the caller, to be given to
// `dl_sample_drop`. `was_taken`: NULL, or receives, after `DL_ERROR_TIMED_OUT` and
// `DL_ERROR_PEER_GONE`, whether the server had taken the request (1: it may have been executed).
// In a component's callback the request inherits the origins of the samples that the callback has
// consumed, and the response counts as read. Blocks.
//
// What the caller promises:
// `client` is NULL or a live handle; `loan` is NULL or points to NULL or to an owned handle;
// `response` is NULL or valid for writing; `was_taken` is NULL or valid for writing.
dl_status dl_client_call(const dl_client *client,
                         dl_loan **loan,
                         uint64_t timeout_ns,
                         dl_sample **response,
                         int *was_taken);

// As `dl_client_call`, for a value (protobuf and object). `object` is moved, whatever the result,
// unless `vtable` is not valid.
//
// What the caller promises:
// As `dl_client_call`; `object` is a value that `vtable` is for; `vtable` is NULL or static.
dl_status dl_client_call_object(const dl_client *client,
                                void *object,
                                const dl_object_vtable *vtable,
                                uint64_t timeout_ns,
                                dl_sample **response,
                                int *was_taken);

// Offers a service. `options`: NULL takes the defaults. `*made`: owned by the caller, to be given
// to `dl_service_drop`; it may outlive node, context and schemas.
//
// What the caller promises:
// Handles are NULL or live; `service` is NULL or NUL-terminated; `options` is NULL or its `size`
// bytes are readable; `made` is NULL or valid for writing.
dl_status dl_service_new(const dl_node *node,
                         const char *service,
                         const dl_schema *request,
                         const dl_schema *response,
                         const dl_service_options *options,
                         dl_service **made);

// Drops a service and notifies its clients. `*service` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `service` is NULL or points to NULL or to an owned handle that no other thread uses.
void dl_service_drop(dl_service **service);

// Waits until a sample that may be a request arrives (`*ready` = 1) or the time-out has passed
// (0). `timeout_ns`: negative waits for ever. Blocks.
//
// What the caller promises:
// `service` is NULL or a live handle; `ready` is NULL or valid for writing.
dl_status dl_service_wait(const dl_service *service, int64_t timeout_ns, int *ready);

// Takes the oldest request. `*request` and `*responder`: NULL if there is none, else owned by the
// caller, to be passed to `dl_sample_drop`, and to one of `dl_responder_send`, `…_send_object`,
// `…_refuse`, `…_drop`. Does not wait; the first request of a client reserves the memory for its
// responses, which takes milliseconds for megabytes.
//
// What the caller promises:
// `service` is NULL or a live handle; `request` and `responder` are NULL or valid for writing.
dl_status dl_service_take(const dl_service *service,
                          dl_sample **request,
                          dl_responder **responder);

// Memory for a response of `len` bytes (plain and bytes), aligned to 64, written where the client
// reads it. `*loan`: owned by the caller, to be given to `dl_responder_send` or `dl_loan_drop`.
// Its content is an earlier response's.
//
// What the caller promises:
// `responder` is NULL or a live handle; `loan` is NULL or valid for writing.
dl_status dl_responder_loan(const dl_responder *responder, size_t len, dl_loan **loan);

// Node of the client that asks, as it calls itself. Borrowed from the responder; empty for NULL.
//
// What the caller promises:
// `responder` is NULL or a live handle.
dl_text dl_responder_client(const dl_responder *responder);

// Answers with a loan of this responder. `*responder` and `*loan` (moved) become NULL, whatever
// the result. After an error the client is notified, unless it has gone (`DL_ERROR_PEER_GONE`).
// Does not wait.
//
// What the caller promises:
// `responder` and `loan` are NULL or point to NULL or to owned handles.
dl_status dl_responder_send(dl_responder **responder, dl_loan **loan);

// Answers with a value (protobuf and object). `*responder` (moved) becomes NULL, whatever the
// result. `object` is moved unless `vtable` is not valid.
//
// What the caller promises:
// `responder` is NULL or points to NULL or to an owned handle; `object` is a value that `vtable`
// is for; `vtable` is NULL or static.
dl_status dl_responder_send_object(dl_responder **responder,
                                   void *object,
                                   const dl_object_vtable *vtable);

// Refuses a request. `*responder` (moved) becomes NULL; the client gets the text, cut to 1024
// bytes.
//
// What the caller promises:
// `responder` is NULL or points to NULL or to an owned handle; `reason` is NULL or NUL-terminated.
dl_status dl_responder_refuse(dl_responder **responder, const char *reason);

// Drops a request: the client gets an error, because there is no answer. `*responder` (moved)
// becomes NULL; NULL is permitted.
//
// What the caller promises:
// `responder` is NULL or points to NULL or to an owned handle.
void dl_responder_drop(dl_responder **responder);

// The text of the calling thread's last failure; empty if there was none. Never NULL.
//
// Borrowed: valid until the thread's next call that fails. Successful calls do not change it.
const char *dl_last_error(void);

// Sets the text that `dl_last_error()` returns on this thread. For callbacks that report failure,
// such as a component's.
//
// What the caller promises:
// `text` is NULL or a NUL-terminated string.
void dl_set_last_error(const char *text);

// Creates a subscription. `options`: NULL takes the defaults. `*subscription`: owned by the
// caller, to be given to `dl_subscription_drop`; it may outlive node, context and schema.
//
// What the caller promises:
// Handles are NULL or live; `topic` is NULL or NUL-terminated; `options` is NULL or its `size`
// bytes are readable; `subscription` is NULL or valid for writing.
dl_status dl_subscription_new(const dl_node *node,
                              const char *topic,
                              const dl_schema *schema,
                              const dl_subscription_options *options,
                              dl_subscription **subscription);

// Drops a subscription; its samples stay. `*subscription` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `subscription` is NULL or points to NULL or to an owned handle that no other thread uses.
void dl_subscription_drop(dl_subscription **subscription);

// The newest unread sample; older unread ones count as missed. `*sample`: NULL if there is none,
// else owned by the caller, to be given to `dl_sample_drop`. Does not block.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `sample` is NULL or valid for writing.
dl_status dl_subscription_latest(const dl_subscription *subscription, dl_sample **sample);

// The oldest unread sample. `*sample`: NULL if there is none, else owned by the caller, to be
// given to `dl_sample_drop`. Does not block.
//
// What the caller promises:
// As `dl_subscription_latest`.
dl_status dl_subscription_take(const dl_subscription *subscription, dl_sample **sample);

// Waits until a sample is readable and takes the newest, as `dl_subscription_latest`; NULL if the
// time-out passes first. A sample that has expired does not end the wait. `timeout_ns`, `mode` and
// `spin_ns` as for `dl_subscription_wait`. Blocks.
//
// What the caller promises:
// As `dl_subscription_latest`.
dl_status dl_subscription_receive(const dl_subscription *subscription,
                                  int64_t timeout_ns,
                                  uint32_t mode,
                                  uint64_t spin_ns,
                                  dl_sample **sample);

// Waits until a sample is unread (`*ready` = 1) or the time-out has passed (0). `timeout_ns`:
// negative waits for ever. `mode`: a `dl_wait_mode`. `spin_ns`: for `DL_WAIT_SPIN_THEN_BLOCK`. A
// sample that has expired ends the wait as well, and the next read returns none;
// `dl_subscription_receive` continues to wait in this case. Blocks.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `ready` is NULL or valid for writing.
dl_status dl_subscription_wait(const dl_subscription *subscription,
                               int64_t timeout_ns,
                               uint32_t mode,
                               uint64_t spin_ns,
                               int *ready);

// A descriptor for `poll`, `epoll` and the like, readable while samples may be unread: read
// samples until there is none, and do not read from it. Borrowed: closed with the subscription.
// Costs one thread, which sleeps.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `fd` is NULL or valid for writing.
dl_status dl_subscription_fd(const dl_subscription *subscription, int *fd);

// Number of publishers that are matched now.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `count` is NULL or valid for writing.
dl_status dl_subscription_matched(const dl_subscription *subscription, size_t *count);

// Reads the counters.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `stats` is NULL or points to a `dl_subscription_stats`
// whose `size` is set.
dl_status dl_subscription_get_stats(const dl_subscription *subscription,
                                    dl_subscription_stats *stats);

// Takes the next event; its kind is `DL_EVENT_NONE` if there is none.
//
// What the caller promises:
// `subscription` is NULL or a live handle; `event` is NULL or points to a `dl_event` whose `size`,
// `text` and `text_capacity` are set.
dl_status dl_subscription_poll_event(const dl_subscription *subscription, dl_event *event);

// The id of a topic, as in `dl_origin`.
//
// What the caller promises:
// `topic` is NULL or NUL-terminated; `id` is NULL or valid for writing.
dl_status dl_topic_id(const char *topic, uint64_t *id);

// Returns the present time in nanoseconds: on the clock of the test whose component calls or that
// the thread has entered, else on `CLOCK_MONOTONIC`. Does not block or allocate; any thread.
uint64_t dl_now_ns(void);

// Brings a component up for a test: it is constructed, and its `init` and
// `on_activate` have returned. `library`: the
// classes of this program, as `driveline_component_entry` returns them; or NULL, and `path` is
// that of a component library. `class_name`: NULL if there is one class only. `settings`: the
// component's settings as in a graph, in YAML, such as `{parameters: {low: 40}, trigger: {kind:
// timer, period_ms: 100}, inputs: {image: {qos: {depth: 4}}}, max_payload: 8 MiB}`; NULL for
// nothing. `*test`: owned by the caller, to be given to `dl_test_drop`.
//
// What the caller promises:
// `library` is NULL or static and valid; strings are NULL or NUL-terminated; `test` is NULL or
// valid for writing.
dl_status dl_test_new(const dl_component_library *library,
                      const char *path,
                      const char *class_name,
                      const char *settings,
                      dl_test **test);

// Ends a test: the component is shut down and destroyed. Samples that were taken stay; publishers
// of its inputs end. `*test` (moved) becomes NULL; NULL is permitted.
//
// What the caller promises:
// `test` is NULL or points to NULL or to an owned handle that no other thread uses.
void dl_test_drop(dl_test **test);

// Time of the test's clock, in nanoseconds; 0 for NULL.
//
// What the caller promises:
// `test` is NULL or a live handle.
uint64_t dl_test_now_ns(const dl_test *test);

// Makes the test's clock that of the calling thread, for publishing to inputs, until
// `dl_test_leave`. Calls nest.
//
// What the caller promises:
// `test` is NULL or a live handle.
dl_status dl_test_enter(const dl_test *test);

// Ends the effect of the thread's last `dl_test_enter`; nothing without one.
void dl_test_leave(void);

// A publisher to an input of the component, for values of the type `schema`. `*publisher`:
// borrowed, valid until `dl_test_drop`.
//
// What the caller promises:
// Handles are NULL or live; `port` is NULL or NUL-terminated; `publisher` is NULL or valid for
// writing.
dl_status dl_test_input(const dl_test *test,
                        const char *port,
                        const dl_schema *schema,
                        const dl_publisher **publisher);

// Moves the time forward by `by_ns`, and makes each call of the component when it falls due.
// `*calls`: calls of the callback and of timers; may be NULL. `DL_ERROR_COMPONENT` if calls
// failed: each is a line of the text. Does not wait for anything but the component.
//
// What the caller promises:
// `test` is NULL or a live handle; `calls` is NULL or valid for writing.
dl_status dl_test_advance(const dl_test *test, uint64_t by_ns, uint64_t *calls);

// Changes a parameter, as `driveline param set` does while a graph runs: `on_parameter` of the
// component is called on this thread. `DL_ERROR_PARAMETER` with the reason if the parameter is not
// declared as changeable, the value has another type or is out of range, or the component refuses.
//
// What the caller promises:
// `test` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or a valid
// value with its `size`.
dl_status dl_test_set_parameter(const dl_test *test,
                                const char *name,
                                const dl_parameter_value *value);

// The oldest sample of an output, of values of the type `schema`, that was not taken yet.
// `*sample`: NULL if there is none, else owned by the caller, to be given to `dl_sample_drop`; a
// copy, which may outlive the test.
//
// What the caller promises:
// Handles are NULL or live; `port` is NULL or NUL-terminated; `sample` is NULL or valid for
// writing.
dl_status dl_test_take(const dl_test *test,
                       const char *port,
                       const dl_schema *schema,
                       dl_sample **sample);

// Samples of an input that newer ones replaced before the component read them.
//
// What the caller promises:
// `test` is NULL or a live handle; `port` is NULL or NUL-terminated; `missed` is NULL or valid for
// writing.
dl_status dl_test_missed(const dl_test *test, const char *port, uint64_t *missed);

// Returns 1 if the component has reported that its work is done, else 0.
//
// What the caller promises:
// `test` is NULL or a live handle.
int dl_test_is_finished(const dl_test *test);

// Shuts the component down, as at the end of a run. A second call does nothing.
//
// What the caller promises:
// `test` is NULL or a live handle.
dl_status dl_test_shut_down(const dl_test *test);

// Version of the library, such as "0.1.0". Static.
const char *dl_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DRIVELINE_DRIVELINE_H */
