//! Whether the HCAs of a pool can be used, over time: down for so long, up again for so long, longer while it flaps.
//! Time comes in as the span since any fixed moment. What a failed HCA means for a device is the plan's to say. GIDs of
//! the host are not asked for: a rail whose addresses are all in Pods is normal with macvlan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::{Degraded, Health};
use crate::host::{Hca, Host, LinkLayer, NetnsMode, Port};
use crate::names::{HcaName, ResourceName};
use crate::plan::{Pool, PoolMember};

/// How far back an HCA's going down counts as flapping.
const FLAP_WINDOW: Duration = Duration::from_secs(600);

/// The longest wait of a flapping one.
const LONGEST_HOLD: Duration = Duration::from_secs(600);

/// What one look says of an HCA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A port is ACTIVE and its char device is there.
    Up,
    /// A Pod has its netdev or itself in a network namespace of its own: what can be seen from here says nothing.
    InUse,
    /// No port is ACTIVE, or its char device is not there.
    Down,
    /// It was in the pool and is not any more.
    Gone,
}

/// An HCA of a pool over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its name when last seen.
    pub hca: HcaName,
    /// What the last look said.
    pub condition: Condition,
    /// Why it is not [`Condition::Up`]; empty when it is.
    pub reason: String,
    /// Since when the condition is one of the usable or one of the others.
    pub since: Duration,
    /// Whether it counts as good: conditions count only once they have lasted.
    pub healthy: bool,
    /// How often it went down since it was first seen.
    pub flaps: u32,
    /// When it went down, as far as that still counts.
    recent: Vec<Duration>,
    /// Number of its verbs device: by that it is known when only the device is left to see.
    uverbs: Option<(u32, u32)>,
}

/// All HCAs of all pools over time. The key is the HCA's ID, which outlives renames and reloads.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    verdicts: BTreeMap<ResourceName, BTreeMap<String, Verdict>>,
}

impl Tracker {
    /// Takes in a look at the host. `is_held` tells whether a Pod may hold a device of this
    /// HCA.
    pub fn observe(
        &mut self,
        now: Duration,
        host: &Host,
        pools: &[Pool],
        is_held: impl Fn(&Pool, &PoolMember) -> bool,
    ) {
        // HCAs of a resource that was removed are not gone: nobody says any more which they are.
        let offered = || pools.iter().filter(|pool| !pool.is_removed());
        self.verdicts.retain(|resource, _| offered().any(|pool| pool.resource == *resource));
        for pool in offered() {
            let verdicts = self.verdicts.entry(pool.resource.clone()).or_default();
            for member in &pool.members {
                let seen = look(host, member, || is_held(pool, member));
                let uverbs = host.hca(member.hca.as_str()).and_then(|h| h.uverbs.as_ref());
                let uverbs = uverbs.map(|device| (device.major, device.minor));
                match verdicts.get_mut(&member.id) {
                    Some(verdict) => {
                        verdict.hca = member.hca.clone();
                        verdict.uverbs = uverbs.or(verdict.uverbs);
                        verdict.take(now, seen);
                    }
                    None => {
                        verdicts.insert(member.id.clone(), Verdict::first(now, member, uverbs, seen));
                    }
                }
            }
            for (id, verdict) in verdicts.iter_mut() {
                if !pool.members.iter().any(|member| member.id == *id) {
                    verdict.take(now, look_for_lost(host, pool, verdict));
                }
            }
        }
        self.settle(now, pools);
    }

    /// Lets time pass without a look.
    pub fn settle(&mut self, now: Duration, pools: &[Pool]) {
        for pool in pools {
            for verdict in self.verdicts.get_mut(&pool.resource).into_iter().flat_map(BTreeMap::values_mut) {
                if verdict.due(pool.health).is_some_and(|due| due <= now) {
                    verdict.healthy = verdict.is_usable();
                }
                verdict.recent.retain(|down| *down + FLAP_WINDOW > now);
            }
        }
    }

    /// When [`Tracker::settle`] would change something; None while all is settled.
    pub fn next_change(&self, pools: &[Pool]) -> Option<Duration> {
        let due = |pool: &Pool| {
            let verdicts = self.verdicts.get(&pool.resource)?;
            verdicts.values().filter_map(|verdict| verdict.due(pool.health)).min()
        };
        pools.iter().filter_map(due).min()
    }

    /// IDs of the HCAs of a pool that count as failed.
    pub fn failed(&self, resource: &ResourceName) -> BTreeSet<String> {
        self.of(resource).filter(|(_, verdict)| !verdict.healthy).map(|(id, _)| id.clone()).collect()
    }

    /// Why all devices of a pool are withheld though those of its HCAs that are left are well; None where they are not.
    pub fn missing(&self, pool: &Pool) -> Option<String> {
        let withholds = pool.health.degraded == Degraded::Withhold && pool.share().is_none();
        let gone = |(id, v): &(&String, &Verdict)| {
            !v.healthy && v.condition == Condition::Gone && !pool.members.iter().any(|m| m.id == **id)
        };
        self.of(&pool.resource).filter(|_| withholds).find(gone).map(|(_, verdict)| verdict.reason.clone())
    }

    /// The HCAs of a pool, also those that were in it, by ID.
    pub fn of(&self, resource: &ResourceName) -> impl Iterator<Item = (&String, &Verdict)> {
        self.verdicts.get(resource).into_iter().flatten()
    }
}

type Seen = (Condition, String);

impl Verdict {
    /// One that is down when it is first seen is not waited for: nobody knows for how long it has been.
    fn first(now: Duration, member: &PoolMember, uverbs: Option<(u32, u32)>, seen: Seen) -> Verdict {
        let (condition, reason) = seen;
        Verdict {
            hca: member.hca.clone(),
            condition,
            reason,
            since: now,
            healthy: is_usable(condition),
            flaps: 0,
            recent: Vec::new(),
            uverbs,
        }
    }

    fn take(&mut self, now: Duration, (condition, reason): Seen) {
        let was_usable = self.is_usable();
        (self.condition, self.reason) = (condition, reason);
        if was_usable == self.is_usable() {
            return;
        }
        self.since = now;
        if was_usable {
            self.flaps += 1;
            self.recent.push(now);
        }
    }

    /// When the verdict follows the condition; None while they agree.
    fn due(&self, health: Health) -> Option<Duration> {
        if self.healthy == self.is_usable() {
            return None;
        }
        let wait = if self.healthy { health.down_after } else { self.hold(health.up_after) };
        Some(self.since.saturating_add(wait))
    }

    /// Twice as long for each time that it went down shortly before.
    fn hold(&self, up_after: Duration) -> Duration {
        let again = u32::try_from(self.recent.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let doubled = up_after.saturating_mul(2u32.saturating_pow(again));
        doubled.min(LONGEST_HOLD.max(up_after))
    }

    fn is_usable(&self) -> bool {
        is_usable(self.condition)
    }
}

fn is_usable(condition: Condition) -> bool {
    matches!(condition, Condition::Up | Condition::InUse)
}

/// A port is enough: the second port of a card is often left unused.
fn look(host: &Host, member: &PoolMember, is_held: impl Fn() -> bool) -> Seen {
    let Some(hca) = host.hca(member.hca.as_str()) else {
        return (Condition::Gone, format!("{} is not there", member.hca));
    };
    match &hca.uverbs {
        Some(uverbs) if uverbs.is_there() => {}
        Some(uverbs) => return (Condition::Down, format!("{} is not there", uverbs.path())),
        None => return (Condition::Down, format!("{} has no verbs device", hca.name)),
    }
    let ports: Vec<&Port> = member.ports.iter().filter_map(|number| hca.port(*number)).collect();
    if ports.iter().any(|port| port.state.as_deref() == Some("ACTIVE")) {
        return (Condition::Up, String::new());
    }
    if ports.iter().any(|port| is_elsewhere(port)) && is_held() {
        return (Condition::InUse, format!("the interface of {} is in another network namespace", hca.name));
    }
    (Condition::Down, ports_text(hca, &ports))
}

/// An HCA that is no more in the pool: moved with its namespace, or gone.
fn look_for_lost(host: &Host, pool: &Pool, verdict: &Verdict) -> Seen {
    let orphan = |number| host.orphan_uverbs.iter().any(|device| (device.major, device.minor) == number);
    if host.netns_mode == Some(NetnsMode::Exclusive) && verdict.uverbs.is_some_and(orphan) {
        return (Condition::InUse, format!("{} is in another network namespace", verdict.hca));
    }
    let out = pool.left_out.iter().find(|out| out.hca == verdict.hca);
    (
        Condition::Gone,
        match out {
            Some(out) => format!("{} is out of the pool: {}", out.hca, out.reason),
            None => format!("{} is not there any more", verdict.hca),
        },
    )
}

/// An Ethernet port always has an interface: one that is not in this namespace is in another.
fn is_elsewhere(port: &Port) -> bool {
    port.link_layer == LinkLayer::Ethernet && port.netdev.is_none() && port.netlink_netdev.is_none()
}

fn ports_text(hca: &Hca, ports: &[&Port]) -> String {
    let text = |port: &&Port| {
        let state = port.state.as_deref().unwrap_or("in an unknown state");
        let physical = port.phys_state.as_deref().map(|phys| format!(" ({phys})")).unwrap_or_default();
        format!("{}/{} is {state}{physical}", hca.name, port.port)
    };
    match ports {
        [] => format!("{} has none of the ports that are meant", hca.name),
        _ => ports.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests;
