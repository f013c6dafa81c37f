//! Whose counters are judged: ports, devices whose driver counts for all its ports together, and interfaces of rails.
//! A counter is met here with what it was at the earlier reading.

use super::super::rails::At;
use super::super::{Case, port_name, qos};
use super::kinds::{Kind, is_judged};
use crate::host::{Counter, Hca, Host, Netdev, Port, Transport};

/// A port, a device or an interface.
pub(super) struct Place<'a> {
    pub(super) name: String,
    pub(super) readings: Vec<Reading<'a>>,
    /// Whether totals say something: a port that is not ACTIVE has a finding of its own, which tells how often it went
    /// down.
    pub(super) up: bool,
    /// The port, or that of the interface; None for a device.
    at: Option<At<'a>>,
    /// The counters of a port that are like this place's.
    like: fn(&Host, &Port, &Kind) -> Option<u64>,
}

/// A counter of a place, and the same at the earlier reading.
pub(super) struct Reading<'a> {
    pub(super) name: &'a str,
    pub(super) now: u64,
    pub(super) before: Option<u64>,
    pub(super) saturated: bool,
}

impl Reading<'_> {
    /// What it grew; all of it after a reset.
    pub(super) fn growth(&self) -> Option<u64> {
        self.before.map(|before| self.now.checked_sub(before).unwrap_or(self.now))
    }
}

impl Place<'_> {
    /// The largest of the same counters on the rails of the same kind; None without others.
    pub(super) fn others(&self, case: &Case<'_>, kind: &Kind) -> Option<u64> {
        let (hca, port) = self.at?;
        let is_own = |h: &Hca, p: &Port| h.name == hca.name && p.port == port.port;
        let ports = case.alike.iter().find(|ports| ports.iter().any(|(h, p)| is_own(h, p)))?;
        let others = ports.iter().filter(|(h, p)| !is_own(h, p));
        others.map(|(_, p)| (self.like)(case.host, p, kind).unwrap_or(0)).max()
    }
}

/// All ports, and the devices with counters of their own that no port has.
pub(super) fn places<'a>(case: &Case<'a>) -> Vec<Place<'a>> {
    let earlier = |hca: &Hca| case.earlier().and_then(|host| host.hca(hca.name.as_str()));
    let ports = case.ports().map(|(hca, port)| Place {
        name: port_name(hca, port),
        readings: readings(
            port.counters.iter(),
            earlier(hca).and_then(|hca| hca.port(port.port)).map_or(&[], |port| &port.counters),
        ),
        up: is_active(port),
        at: Some((hca, port)),
        like: |_, port, kind| kind.names.iter().filter_map(|name| port.counter(name)?.value).max(),
    });
    let own = case.host.hcas.iter().filter(|hca| case.is_own(hca) && !hca.counters.is_empty());
    let devices = own.map(|hca| {
        let on_port =
            |counter: &&Counter| hca.ports.iter().any(|port| port.counter(file_name(counter)).is_some());
        let counters = hca.counters.iter().filter(|counter| !on_port(counter));
        Place {
            name: hca.name.to_string(),
            readings: readings(counters, earlier(hca).map_or(&[], |hca| &hca.counters)),
            up: true,
            at: None,
            like: |_, _, _| None,
        }
    });
    ports.chain(devices).collect()
}

fn readings<'a>(counters: impl Iterator<Item = &'a Counter>, earlier: &[Counter]) -> Vec<Reading<'a>> {
    let reading = |counter: &'a Counter| {
        let before = earlier.iter().find(|c| c.file == counter.file).and_then(|c| c.value);
        Some(Reading { name: file_name(counter), now: counter.value?, before, saturated: counter.saturated })
    };
    counters.filter_map(reading).filter(|reading| reading.name != "lifespan").collect()
}

pub(super) fn file_name(counter: &Counter) -> &str {
    counter.file.rsplit('/').next().unwrap_or(&counter.file)
}

fn is_active(port: &Port) -> bool {
    port.state.as_deref() == Some("ACTIVE")
}

/// The interfaces that rails have, as far as their drivers have statistics.
pub(super) fn interfaces<'a>(case: &Case<'a>) -> Vec<Place<'a>> {
    let place = |(at, netdev): (At<'a>, &'a Netdev)| {
        let earlier = case.earlier().and_then(|host| host.netdev(&netdev.name)?.statistics.as_ref());
        let reading = |(name, now): (&'a String, &'a u64)| Reading {
            name,
            now: *now,
            before: earlier.and_then(|statistics| statistics.get(name)).copied(),
            saturated: false,
        };
        Some(Place {
            name: netdev.name.clone(),
            readings: netdev
                .statistics
                .as_ref()?
                .iter()
                .filter(|(name, _)| is_judged(name))
                .map(reading)
                .collect(),
            up: is_active(at.1),
            at: Some(at),
            like: largest_of_interfaces,
        })
    };
    rail_netdevs(case).into_iter().filter_map(place).collect()
}

/// Each interface of a rail that carries Ethernet, once.
pub(super) fn rail_netdevs<'a>(case: &Case<'a>) -> Vec<(At<'a>, &'a Netdev)> {
    let rails = case.rails().into_iter();
    let ethernet = rails.filter(|(_, port)| matches!(port.transport, Transport::Roce | Transport::Iwarp));
    let mut netdevs: Vec<(At<'a>, &'a Netdev)> = Vec::new();
    for at in ethernet {
        for netdev in qos::interfaces(case.host, at.1) {
            if !netdevs.iter().any(|(_, known)| known.name == netdev.name) {
                netdevs.push((at, netdev));
            }
        }
    }
    netdevs
}

fn largest_of_interfaces(host: &Host, port: &Port, kind: &Kind) -> Option<u64> {
    let statistics = qos::interfaces(host, port).into_iter().filter_map(|netdev| netdev.statistics.as_ref());
    statistics.flatten().filter(|(name, _)| kind.has(name)).map(|(_, value)| *value).max()
}
