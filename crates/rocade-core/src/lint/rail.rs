//! Whether a Pod's own interfaces are on the HCAs that it asks for. RoCE needs that, InfiniBand does not; which of them a
//! resource is, only a host tells.

use super::attachment::Attachment;
use super::patch::add;
use super::pod::Pod;
use super::pools::Layer;
use super::resources::quantity;
use super::{Case, Rule, Sheet};
use crate::finding::Severity;
use crate::gid::in_subnet;

pub(super) const NO_INTERFACE: Rule = Rule {
    code: "RDC760",
    severity: Severity::Error,
    title: "A Pod asks for a RoCE resource and has no interface of its own on it",
    why: "A RoCE GID belongs to an interface. With the cluster's network alone no GID of the HCA may be used in the Pod: connecting fails at \
          `modify QP to RTR`. InfiniBand needs none. Which of them it is, `--config` and `--from` tell; without them this is a note.",
    cure: "attach a network (macvlan, ipvlan, SR-IOV, host-device) on that rail by the annotation k8s.v1.cni.cncf.io/networks, or use hostNetwork",
};

pub(super) const WRONG_RAIL: Rule = Rule {
    code: "RDC761",
    severity: Severity::Error,
    title: "A Pod's network is on another HCA than the one that it asks for",
    why: "The device plugin and the network plugin choose on their own: the address has its GIDs on one HCA, and another one can be opened.",
    cure: "attach the network of that rail, or ask for the resource of the network's HCA",
};

pub(super) const NO_DEVICE_ID: Rule = Rule {
    code: "RDC767",
    severity: Severity::Error,
    title: "An attachment needs a device that its Pod does not ask for",
    why: "For SR-IOV and host-device Multus takes the device from what the Pod was granted of the resource that the attachment's annotation \
          k8s.v1.cni.cncf.io/resourceName names, one for each attachment. Without it the CNI plugin fails, and the Pod stays in \
          ContainerCreating.",
    cure: "ask for as many of the resource as there are attachments of it",
};

pub(super) const ONE_SUBNET: Rule = Rule {
    code: "RDC777",
    severity: Severity::Warning,
    title: "Two rails of a Pod are in one subnet, without routes by source",
    why: "The kernel sends by the first route of the subnet, whichever rail an address is of, and answers ARP on any: connections of the other \
          rail time out or take the wrong HCA.",
    cure: "chain the CNI plugin sbr behind each (a conflist with {\"type\": \"sbr\"}), or give each rail a subnet of its own",
};

/// Judges the attachments of a Pod that asks for these resources (each with its line); None is one that is not among the
/// files.
pub(super) fn check(
    case: &Case<'_>,
    pod: &Pod<'_>,
    asked: &[(&str, u32)],
    attachments: &[Option<&Attachment<'_>>],
    sheet: &mut Sheet<'_>,
) {
    check_device_ids(pod, attachments, sheet);
    check_subnets(pod, attachments, sheet);
    if pod.is_on_host_network() {
        return;
    }
    if attachments.is_empty() {
        asked.iter().for_each(|(resource, line)| check_bare(case, pod, resource, *line, sheet));
        return;
    }
    let known: Vec<&Attachment<'_>> = attachments.iter().copied().flatten().collect();
    if known.len() < attachments.len() || known.iter().any(|attachment| rail_of(case, attachment).is_none()) {
        return;
    }
    for (resource, line) in asked {
        let is_roce = matches!(case.pools.layer(resource), Layer::Ethernet | Layer::Mixed);
        if is_roce && !known.iter().any(|attachment| is_on_rail(case, attachment, resource)) {
            let serves = |attachment: &Attachment<'_>| {
                asked.iter().any(|(name, _)| is_on_rail(case, attachment, name))
            };
            let stray = known.iter().find(|attachment| !serves(attachment));
            check_unserved(case, pod, (resource, *line), stray.copied(), sheet);
        }
    }
}

/// A resource that no attachment is of; `stray` is one of no resource at all.
fn check_unserved(
    case: &Case<'_>,
    pod: &Pod<'_>,
    (resource, line): (&str, u32),
    stray: Option<&Attachment<'_>>,
    sheet: &mut Sheet<'_>,
) {
    let Some(pool) = case.pools.on_host(resource) else { return };
    let hcas = pool.hcas.join(", ");
    let netdevs = pool.netdevs.iter().copied().collect::<Vec<_>>().join(", ");
    let (place, path) = (pod.place(line), pod.path_of("metadata.annotations"));
    if let Some(stray) = stray {
        let rail = rail_of(case, stray).unwrap_or_default();
        let seen = format!("{resource} is {hcas} ({netdevs}), and {} is on {rail}", stray.object.name);
        sheet.find(&WRONG_RAIL, place, path, seen, format!("an attachment on {netdevs}"));
    } else {
        let seen = format!("no attachment on {netdevs}, whose HCA {hcas} {resource} is");
        sheet.find(&NO_INTERFACE, place, path, seen, "an interface of the Pod on each rail");
    }
}

/// A Pod with the cluster's network alone.
fn check_bare(case: &Case<'_>, pod: &Pod<'_>, resource: &str, line: u32, sheet: &mut Sheet<'_>) {
    let (severity, seen) = match case.pools.layer(resource) {
        Layer::InfiniBand => return,
        Layer::Ethernet => {
            (Severity::Error, format!("{resource} is RoCE, and the Pod has the cluster's network alone"))
        }
        Layer::Mixed => (
            Severity::Warning,
            format!("{resource} is RoCE in part, and the Pod has the cluster's network alone"),
        ),
        Layer::Unknown => (
            Severity::Note,
            format!("the cluster's network alone; if {resource} is RoCE, no GID is the Pod's own"),
        ),
    };
    let path = pod.path_of("metadata.annotations");
    let found =
        sheet.find(&NO_INTERFACE, pod.place(line), path, seen, "an interface of the Pod on that rail");
    found.severity(severity).edit(on_rail(case, pod, resource));
}

/// The lines that attach the one network among the files that is on that rail.
fn on_rail(case: &Case<'_>, pod: &Pod<'_>, resource: &str) -> Option<super::Edit> {
    let mut fits = case.attachments.iter().filter(|attachment| is_on_rail(case, attachment, resource));
    let (only, None) = (fits.next()?, fits.next()) else { return None };
    let name = match (&only.namespace, case.namespace_of(pod.object)) {
        (Some(other), own) if own.as_ref() != Some(other) => format!("{other}/{}", only.object.name),
        _ => only.object.name.clone(),
    };
    let line = format!("{}: {name}", super::annotation::NETWORKS);
    let text = case.text(pod.object.file);
    match (pod.metadata, pod.metadata.and_then(|metadata| metadata.get("annotations"))) {
        (_, Some(annotations)) => add(text, annotations, &[&line]),
        (Some(metadata), None) => add(text, metadata, &["annotations:", &format!("  {line}")]),
        (None, None) => None,
    }
}

/// The interface that an attachment lies on, or the resource that its device comes from; None where neither is told.
fn rail_of<'a>(case: &Case<'a>, attachment: &Attachment<'a>) -> Option<String> {
    let default = || case.host.and_then(|host| host.default_route_netdev.clone());
    let master = attachment.plugin.as_ref().and_then(|plugin| plugin.master());
    let resource = attachment.resource.map(str::to_owned);
    master
        .map(str::to_owned)
        .or(resource)
        .or_else(|| attachment.lies_on_default_route().then(default).flatten())
}

fn is_on_rail(case: &Case<'_>, attachment: &Attachment<'_>, resource: &str) -> bool {
    let takes_device = attachment.plugin.as_ref().is_none_or(|plugin| plugin.needs_device_id());
    let of_resource = takes_device && attachment.resource == Some(resource);
    let Some(pool) = case.pools.on_host(resource) else { return of_resource };
    of_resource || rail_of(case, attachment).is_some_and(|rail| pool.netdevs.contains(rail.as_str()))
}

/// Whether what Multus hands to the plugins is asked for, once for each attachment.
fn check_device_ids(pod: &Pod<'_>, attachments: &[Option<&Attachment<'_>>], sheet: &mut Sheet<'_>) {
    let needing =
        attachments.iter().flatten().filter(|a| a.plugin.as_ref().is_some_and(|p| p.needs_device_id()));
    let mut resources: Vec<(&str, u64, &str)> = Vec::new();
    for attachment in needing {
        let Some(resource) = attachment.resource else { continue };
        match resources.iter_mut().find(|(name, ..)| *name == resource) {
            Some((_, number, _)) => *number += 1,
            None => resources.push((resource, 1, &attachment.object.name)),
        }
    }
    for (resource, number, attachment) in resources {
        let asked = pod.containers.iter().flat_map(|container| container.asked(|name| name == resource));
        let granted = asked
            .filter_map(|asked| quantity(&asked.limit.or(asked.request)?.value))
            .fold(0_u64, u64::saturating_add);
        if granted < number {
            let entry = pod.annotation(super::annotation::NETWORKS).map_or(0, |entry| entry.line);
            let seen = format!("{granted} of {resource}, which {attachment} needs");
            let path = pod.path_of("spec.containers");
            sheet.find(&NO_DEVICE_ID, pod.place(entry), path, seen, number.to_string());
        }
    }
}

/// Whether two attachments have addresses of one network and no routing rules of their own.
fn check_subnets(pod: &Pod<'_>, attachments: &[Option<&Attachment<'_>>], sheet: &mut Sheet<'_>) {
    let plain = attachments.iter().flatten().filter_map(|attachment| {
        let plugin = attachment.plugin.as_ref().filter(|plugin| !plugin.is_followed_by("sbr"))?;
        Some((attachment.object.name.as_str(), plugin.networks()))
    });
    let plain: Vec<_> = plain.collect();
    for (at, (name, networks)) in plain.iter().enumerate() {
        let shared = plain[..at].iter().find_map(|(other, theirs)| {
            let meets = |(address, prefix): &&(std::net::IpAddr, u8)| {
                theirs.iter().any(|(network, other)| in_subnet(*address, *network, *prefix.min(other)))
            };
            networks.iter().find(meets).map(|network| (other, network))
        });
        if let Some((other, (address, prefix))) = shared {
            let line = pod.annotation(super::annotation::NETWORKS).map_or(0, |entry| entry.line);
            let seen = format!("{name} and {other} are both in {address}/{prefix}");
            let path = pod.path_of("metadata.annotations");
            sheet.find(&ONE_SUBNET, pod.place(line), path, seen, "a subnet or a routing rule for each rail");
        }
    }
}
