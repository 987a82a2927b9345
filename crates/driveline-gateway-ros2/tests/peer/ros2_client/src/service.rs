// SPDX-License-Identifier: Apache-2.0
//! Servers and clients: requests, responses, and their printed form.

use super::{Node, Result, over, say, sum};
use ros2_client::{Message, Name, ServiceTypeName};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Line printed if no response comes: the server or its gateway has refused, or has gone.
pub(super) const UNANSWERED: &str = "no answer";

/// Service as upstream defines it.
pub(super) trait Service: Sized {
    /// Package and name of its type.
    const OF: (&'static str, &'static str);
    type Request: Message + Clone + Send + 'static;
    type Response: Message + Clone + Send + 'static;
    /// Returns the `n`th request, from 1, of a client with these numbers.
    fn request(numbers: (i64, i64), n: i64) -> Self::Request;
    /// Returns the response of a server with this number.
    fn answer(request: &Self::Request, number: u64) -> Self::Response;
    fn reported_request(request: &Self::Request) -> String;
    fn reported_response(response: &Self::Response) -> String;
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Two {
    a: i64,
    b: i64,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Sum {
    sum: i64,
}

impl Message for Two {}
impl Message for Sum {}

pub(super) struct Add;

impl Service for Add {
    const OF: (&'static str, &'static str) = ("example_interfaces", "AddTwoInts");
    type Request = Two;
    type Response = Sum;

    fn request((a, b): (i64, i64), n: i64) -> Two {
        Two { a, b: b + n - 1 }
    }

    fn answer(request: &Two, delay_ms: u64) -> Sum {
        // time: makes a slow server
        std::thread::sleep(Duration::from_millis(delay_ms));
        Sum { sum: request.a + request.b }
    }

    fn reported_request(request: &Two) -> String {
        format!("{} {}", request.a, request.b)
    }

    fn reported_response(response: &Sum) -> String {
        response.sum.to_string()
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Names {
    names: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kinds {
    types: Vec<u8>,
}

impl Message for Names {}
impl Message for Kinds {}

/// Service with a response of arbitrary length. Over Zenoh, ros2-client knows the hashes of only a
/// few services, and this is one of them.
pub(super) struct Types;

impl Service for Types {
    const OF: (&'static str, &'static str) = ("rcl_interfaces", "GetParameterTypes");
    type Request = Names;
    type Response = Kinds;

    fn request(_: (i64, i64), n: i64) -> Names {
        Names { names: vec!["one".into(), "x".repeat(n as usize)] }
    }

    fn answer(request: &Names, size: u64) -> Kinds {
        Kinds { types: vec![request.names.len() as u8; size as usize] }
    }

    fn reported_request(request: &Names) -> String {
        request.names.join(" ")
    }

    fn reported_response(response: &Kinds) -> String {
        format!("{} {}", response.types.len(), sum(&response.types))
    }
}

/// Name and type of a service, and its mapping over DDS.
pub(super) struct Of {
    pub(super) name: Name,
    pub(super) ty: ServiceTypeName,
    pub(super) mapping: String,
}

pub(super) fn of<S: Service>(service: &str, mapping: &str) -> Result<Of> {
    let (namespace, base) = super::name_of(service);
    Ok(Of {
        name: Name::new(&namespace, base)?,
        ty: ServiceTypeName::new(S::OF.0, S::OF.1),
        mapping: mapping.into(),
    })
}

pub(super) fn serve<S: Service>(node: &mut impl Node, of: &Of, number: u64) -> Result<()> {
    let server = node.server::<S>(of)?;
    say("serves");
    while !over(Duration::from_millis(1)) {
        if let Some((id, request)) = node.request(&server)? {
            say(&format!("asked {}: {}", id.sequence_number, S::reported_request(&request)));
            node.respond(&server, id, S::answer(&request, number))?;
        }
    }
    Ok(())
}

/// Sends the requests; unanswered ones are repeated.
pub(super) fn call<S: Service>(
    node: &mut impl Node,
    of: &Of,
    numbers: (i64, i64),
    count: i64,
) -> Result<()> {
    let client = node.client::<S>(of)?;
    let mut n = 1;
    while n <= count && !over(Duration::from_millis(5)) {
        match node.call(&client, S::request(numbers, n))? {
            Some(response) => {
                say(&format!("answer {n}: {}", S::reported_response(&response)));
                n += 1;
            }
            None => say(UNANSWERED),
        }
    }
    say("done");
    while !over(Duration::from_secs(1)) {}
    Ok(())
}
