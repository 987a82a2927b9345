// SPDX-License-Identifier: Apache-2.0
//! Lists offered services and their clients.

use super::domains::elsewhere;
use super::survey::{ask, print_table};
use crate::arguments::Service;
use crate::exit;
use crate::text::cut;
use driveline_shm::ParticipantInfo;
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use driveline_types::service::{SERVICE_PREFIX, ServiceTopic};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Number of columns to which text that processes of other users may have chosen is cut.
const NAME: usize = 80;

#[derive(Default)]
struct Ends<'a> {
    servers: Vec<&'a str>,
    /// True if a server is a gateway that calls a server in ROS 2.
    in_ros: bool,
    clients: usize,
    request: BTreeSet<&'a str>,
    response: BTreeSet<&'a str>,
    /// Number of requests that the existing servers have taken.
    requests: u64,
    /// Number of responses to the existing clients.
    responses: u64,
}

pub(crate) fn service(command: &Service, domain: Option<&str>, screen: &Screen) -> u8 {
    let Service::List = command;
    let (place, participants) = match ask(domain, screen) {
        Ok(found) => found,
        Err(text) => {
            screen.error(text);
            return exit::FAILED;
        }
    };
    let services = services(&participants);
    if screen.json {
        let entry = |(name, e): (&&str, &Ends<'_>)| {
            json!({
                "service": name, "request": e.request, "response": e.response, "servers": e.servers,
                "requests": e.requests,
                "clients": e.clients, "responses": e.responses,
            })
        };
        screen.print_json(&services.iter().map(entry).collect::<Vec<_>>());
        return exit::DONE;
    }
    if !services.is_empty() {
        let head = [
            "SERVICE",
            "REQUEST",
            "RESPONSE",
            "SERVER",
            "REQUESTS",
            "CLIENTS",
            "RESPONSES (CLIENTS NOW)",
        ]
        .map(str::to_owned)
        .to_vec();
        let row = |(name, e): (&&str, &Ends<'_>)| {
            let n = |n: u64| n.to_string();
            let (request, response) = (types(&e.request), types(&e.response));
            // Only servers report requests.
            let requests = if e.servers.is_empty() { "-".to_owned() } else { n(e.requests) };
            vec![
                cut(name, NAME),
                request,
                response,
                join(&e.servers),
                requests,
                n(e.clients as u64),
                n(e.responses),
            ]
        };
        use Align::{Left, Right};
        let rows: Vec<_> = std::iter::once(head).chain(services.iter().map(row)).collect();
        print_table(&[Left, Left, Left, Left, Right, Right, Right], &rows, screen);
    }
    for (name, e) in &services {
        match e.servers.len() {
            1 if e.in_ros => screen.print(&format!(
                "'{}' is served in ROS 2, through the gateway: `driveline gateway list --explain` \
                 says by whom\n",
                cut(name, NAME)
            )),
            1 => {}
            0 => screen.print(&format!(
                "no process offers '{}' here, unless with `reach: process`, which other processes \
                 cannot see\n",
                cut(name, NAME)
            )),
            _ => screen.print(&format!(
                "several nodes offer '{}' ({}): calls are refused until one is left\n",
                cut(name, NAME),
                join(&e.servers)
            )),
        }
    }
    screen.print(&place.closing_here(
        "host service",
        services.len(),
        participants.len(),
        &elsewhere(&place, services.is_empty()),
    ));
    exit::DONE
}

/// Returns the services that no gateway to ROS 2 serves, each with the first node of this domain
/// that serves it.
pub(super) fn servers(participants: &[ParticipantInfo]) -> BTreeMap<String, String> {
    let services = services(participants);
    let own = services.iter().filter(|(_, e)| !e.in_ros);
    own.filter_map(|(name, e)| Some(((*name).to_owned(), (*e.servers.first()?).to_owned())))
        .collect()
}

/// Returns a hint if the name given for a topic is that of a service, or of a topic that carries a
/// service.
pub(super) fn of_service(name: &str, participants: &[ParticipantInfo]) -> Option<String> {
    if let Some(topic) = ServiceTopic::of(name) {
        return Some(format!(
            "it belongs to the service '{}'; `driveline service list` lists servers and clients",
            topic.service()
        ));
    }
    let (name, _) = services(participants).into_iter().find(|(service, _)| *service == name)?;
    let requests = format!("{SERVICE_PREFIX}/{name}/request");
    Some(format!(
        "'{name}' is a service: `driveline service list` lists servers and clients, `driveline \
         topic info {requests}` shows its ends"
    ))
}

fn services(participants: &[ParticipantInfo]) -> BTreeMap<&str, Ends<'_>> {
    let mut services: BTreeMap<&str, Ends<'_>> = BTreeMap::new();
    for participant in participants {
        let about =
            serde_json::from_str::<serde_json::Value>(&participant.description).unwrap_or_default();
        let to_ros = about["gateway"] == "ros2";
        for p in &participant.publishers {
            let Some(topic) = ServiceTopic::of(&p.topic) else { continue };
            let ends = services.entry(topic.service()).or_default();
            match topic {
                ServiceTopic::Requests(_) => {
                    ends.clients += 1;
                    ends.request.insert(&p.schema.name);
                }
                ServiceTopic::Responses(..) => {
                    ends.response.insert(&p.schema.name);
                    ends.responses = ends.responses.saturating_add(p.stats.published);
                }
            }
        }
        for s in participant.subscriptions.iter().filter(|s| !s.observer) {
            let Some(topic) = ServiceTopic::of(&s.topic) else { continue };
            let ends = services.entry(topic.service()).or_default();
            let name = s.schema.as_ref().map(|schema| &*schema.name);
            match topic {
                ServiceTopic::Requests(_) => {
                    ends.servers.push(&s.node);
                    ends.requests = ends.requests.saturating_add(s.stats.received);
                    ends.in_ros |= to_ros;
                    ends.request.extend(name);
                }
                ServiceTopic::Responses(..) => ends.response.extend(name),
            }
        }
    }
    services
}

fn types(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.iter().map(|n| cut(n, NAME)).collect::<Vec<_>>().join(" | ")
    }
}

fn join(names: &[&str]) -> String {
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.iter().map(|n| cut(n, NAME)).collect::<Vec<_>>().join(", ")
    }
}
