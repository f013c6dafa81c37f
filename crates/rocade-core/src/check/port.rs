//! Rules about one port and its link: RDC20x to RDC21x. Comparisons between rails are in `compare`.

use super::rails::{At, unlike};
use super::{Case, Rule, Sheet, is_reached, port_name, why};
use crate::finding::Severity;
use crate::host::{
    Accessible, CharDevice, FunctionKind, Hca, LinkLayer, Port, Relation, RoleKind, Transport,
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC201",
        severity: Severity::Warning,
        title: "A port is not ACTIVE",
        why: "Nothing goes over it. An error where most of its kind on the host are ACTIVE and it is its card's only port; a note on a virtual \
              function, and where its interface was set down: one unused port of a card is no failure by itself.",
        cure: "look at cable, transceiver and the switch port at the other end",
        judge: not_active,
    },
    Rule {
        code: "RDC202",
        severity: Severity::Error,
        title: "An InfiniBand port waits for a subnet manager",
        why: "The link is up, but until a subnet manager gives it a LID nothing can be addressed to it.",
        cure: "start or reach a subnet manager (opensm, or the switch's): `sminfo -C HCA -P PORT` asks for it",
        judge: no_subnet_manager,
    },
    Rule {
        code: "RDC203",
        severity: Severity::Error,
        title: "A port's state cannot be read",
        why: "The driver answers with an error: the device is being removed, or its firmware does not answer.",
        cure: "see `dmesg` for the driver's reason; look again when a driver reload is done",
        judge: state_unreadable,
    },
    Rule {
        code: "RDC204",
        severity: Severity::Error,
        title: "An HCA has no verbs device node",
        why: "Programs open /dev/infiniband/uverbsN. Without it the HCA is seen and cannot be used.",
        cure: "modprobe ib_uverbs, and see that udev (or the container's device list) makes the node",
        judge: no_verbs_node,
    },
    Rule {
        code: "RDC205",
        severity: Severity::Warning,
        title: "Some of an HCA's device nodes are missing",
        why: "Half a set means modules are half loaded or a driver was reloaded: diagnostics (umad) fail, and a Pod that \
              is given the rest gets something useless.",
        cure: "modprobe ib_umad; after a driver reload recreate the containers that hold the old nodes",
        judge: nodes_incomplete,
    },
    Rule {
        code: "RDC206",
        severity: Severity::Warning,
        title: "A link runs with fewer lanes than it has",
        why: "A port of four lanes that came up with one or two has lost most of its rate: a bad cable or transceiver.",
        cure: "reseat or change the cable; `mlxlink -d DEVICE` shows the lanes",
        judge: lanes_lost,
    },
    Rule {
        code: "RDC207",
        severity: Severity::Warning,
        title: "A LAG has members without link",
        why: "The bond still works, with part of its rate and no spare.",
        cure: "look at cable and switch port of the named member",
        judge: lag_degraded,
    },
    Rule {
        code: "RDC208",
        severity: Severity::Warning,
        title: "A card has planes without link",
        why: "A card with several planes spreads each connection over them: with one down it is slower, not dead. Its \
              first port need not be a plane, so the card is judged by its planes alone.",
        cure: "look at cable and switch port of the named plane",
        judge: planes_degraded,
    },
    Rule {
        code: "RDC209",
        severity: Severity::Note,
        title: "A function that manages NVSwitches",
        why: "It looks like an InfiniBand HCA and belongs to the fabric manager: it carries no traffic of jobs, must stay \
              on the host, and counts neither as a rail nor as broken.",
        cure: "leave it out of resources, tests and NCCL_IB_HCA",
        judge: switch_management,
    },
    Rule {
        code: "RDC210",
        severity: Severity::Note,
        title: "No subnet manager can run on a port of an NVSwitch manager",
        why: "cap_mask says IsSMDisabled: the NVLink subnet manager has to run on another of these functions.",
        cure: "give the subnet manager a port that does not say so",
        judge: subnet_manager_disabled,
    },
    Rule {
        code: "RDC211",
        severity: Severity::Warning,
        title: "A port is only a limited member of its partition",
        why: "Limited members (P_Key 0x7fff) talk to full members only, not to each other: jobs start and then fail for \
              some pairs.",
        cure: "give the port's GUID full membership in the subnet manager's partitions (opensm: partitions.conf, =full)",
        judge: limited_member,
    },
    Rule {
        code: "RDC212",
        severity: Severity::Note,
        title: "A port does not speak RC over InfiniBand or RoCE",
        why: "EFA, iWARP and usNIC need other libraries or rdma_cm; programs made for InfiniBand or RoCE cannot use them.",
        cure: "use libfabric on EFA, rdma_cm (-R) on iWARP",
        judge: other_transport,
    },
    Rule {
        code: "RDC213",
        severity: Severity::Note,
        title: "Two RDMA devices are halves of one physical port",
        why: "One offers verbs, the other subnet management. A container that gets only one cannot open both kinds of MAD.",
        cure: "grant both or neither, and count them as one port",
        judge: split_plane,
    },
    Rule {
        code: "RDC214",
        severity: Severity::Note,
        title: "An HCA does not name its interface by its own function",
        why: "A bond over both ports of a card makes one RDMA device of two functions; configuration by the name of the \
              bond or of one member means that device.",
        cure: "name the bond, or the HCA itself",
        judge: lag_named,
    },
    Rule {
        code: "RDC215",
        severity: Severity::Error,
        title: "An InfiniBand port is ACTIVE without a usable LID",
        why: "Without LID or subnet manager's LID nothing can be addressed.",
        cure: "see the subnet manager's log for this port's GUID",
        judge: no_lid,
    },
];

fn not_active(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for at in case.ports().filter(counts) {
        let (hca, port) = at;
        let Some(state) =
            port.state.as_deref().filter(|state| *state != "ACTIVE" && *state != "ACTIVE_DEFER")
        else {
            continue;
        };
        if state == "INIT" && is_infiniband(port) {
            continue;
        }
        let mut seen = vec![state.to_owned()];
        seen.extend(port.phys_state.clone());
        if let Some(downed) = port.counter("link_downed").and_then(|c| c.value).filter(|n| *n > 0) {
            seen.push(format!("link_downed {downed}"));
        }
        let severity = how_bad(case, &at);
        let cure = why_down(case, hca, port);
        let finding = sheet.find(port_name(hca, port), seen.join(", "), "ACTIVE, LinkUp");
        finding.severity = severity;
        finding.cure = cure.unwrap_or_else(|| std::mem::take(&mut finding.cure));
    }
}

/// Whether the port's state says something: planes are judged by their card, switch managers not at all, and ports
/// without GIDs stand for what an embedded switch has.
fn counts((hca, port): &At<'_>) -> bool {
    hca.planes.is_none() && hca.role.kind != RoleKind::Bridge && port.gid_table_len != Some(0)
}

fn how_bad(case: &Case<'_>, at: &At<'_>) -> Severity {
    let (hca, port) = at;
    // What a VF's link does is told to its PF, often by who owns the machine that the VF was given to.
    if matches!(hca.function, Some(FunctionKind::Vf | FunctionKind::Sf)) {
        return Severity::Note;
    }
    let like: Vec<At<'_>> =
        case.alike.iter().find(|ports| ports.iter().any(|p| same(p, at))).cloned().unwrap_or_default();
    let up = like.iter().filter(|(_, port)| port.state.as_deref() == Some("ACTIVE")).count();
    // An IPoIB interface says nothing about its port.
    let ethernet = port.netdev.as_deref().filter(|_| port.link_layer == LinkLayer::Ethernet);
    let netdev = ethernet.and_then(|name| case.host.netdev(name));
    let alone = up >= 2 && up * 2 > like.len() && !sibling_is_up(case, hca);
    match (alone, netdev.is_some_and(|netdev| !netdev.up)) {
        (true, false) => Severity::Error,
        (true, true) | (false, false) => Severity::Warning,
        (false, true) => Severity::Note,
    }
}

/// Whether another port of the same card is ACTIVE: this one may be its unused second.
fn sibling_is_up(case: &Case<'_>, hca: &Hca) -> bool {
    let siblings = hca.companions.iter().filter(|c| c.relation == Relation::SameCard);
    let mut ports =
        siblings.filter_map(|c| case.host.hca(c.hca.as_ref()?.as_str())).chain([hca]).flat_map(|h| &h.ports);
    ports.any(|port| port.state.as_deref() == Some("ACTIVE"))
}

fn same(a: &At<'_>, b: &At<'_>) -> bool {
    a.0.name == b.0.name && a.1.port == b.1.port
}

fn why_down(case: &Case<'_>, hca: &Hca, port: &Port) -> Option<String> {
    let netdev = port.netdev.as_deref();
    if port.link_layer == LinkLayer::Ethernet
        && let Some(netdev) = netdev.and_then(|name| case.host.netdev(name)).filter(|netdev| !netdev.up)
    {
        return Some(format!("ip link set dev {} up", netdev.name));
    }
    match (port.phys_state.as_deref()?, &port.link_layer) {
        ("Disabled", LinkLayer::InfiniBand) => Some(format!(
            "the port is switched off: `ibportstate -C {} -P {} 1 enable`, or at the switch",
            hca.name, port.port
        )),
        ("Disabled", _) => Some("the port is switched off: set its interface up".into()),
        ("Polling", _) => {
            Some("no partner answers: look at cable, transceiver and the switch port at the other end".into())
        }
        _ => None,
    }
}

fn no_subnet_manager(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(counts) {
        if port.state.as_deref() == Some("INIT") && is_infiniband(port) {
            let phys = port.phys_state.as_deref().unwrap_or("link unknown");
            let lid = port.lid.map_or_else(|| "unknown".to_owned(), |lid| lid.to_string());
            sheet.find(port_name(hca, port), format!("INIT, {phys}, LID {lid}: no subnet manager"), "ACTIVE");
        }
    }
}

fn state_unreadable(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(|(_, port)| port.state.is_none()) {
        let name = port_name(hca, port);
        match port.unknown.get("state").map(String::as_str) {
            Some("not recorded") | None => sheet.unjudged(name, why(&port.unknown, "state")),
            Some(reason) => sheet.say(name, format!("reading its state gives {reason}"), "a state"),
        }
    }
}

fn no_verbs_node(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.pod.is_some() {
        return;
    }
    for hca in &case.host.hcas {
        match &hca.uverbs {
            None => {
                let finding =
                    sheet.find(&hca.name, "the kernel made no verbs device", "/dev/infiniband/uverbsN");
                finding.cure = "modprobe ib_uverbs".into();
            }
            Some(device) => judge_node(hca, device, sheet),
        }
    }
}

fn judge_node(hca: &Hca, device: &CharDevice, sheet: &mut Sheet<'_>) {
    let number = format!("{}:{}", device.major, device.minor);
    match device.accessible {
        Accessible::Yes => {}
        Accessible::Unknown => sheet.unjudged(&hca.name, format!("{} could not be looked at", device.path())),
        Accessible::Missing => {
            let finding =
                sheet.find(&hca.name, format!("{} missing", device.path()), format!("the device {number}"));
            finding.cure = format!(
                "let udev make it (`udevadm trigger --subsystem-match=infiniband_verbs`), or by hand: mknod -m 666 {} c {} {}",
                device.path(),
                device.major,
                device.minor
            );
        }
        Accessible::Other => {
            let seen = format!("{} is not the device {number}", device.path());
            let finding = sheet.find(&hca.name, seen, format!("the device {number}"));
            finding.cure =
                "a driver was reloaded after the node was made: remove it and let udev make it anew".into();
        }
    }
}

fn nodes_incomplete(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.host.hcas.iter().filter(|hca| is_reached(hca)) {
        // issm is for a subnet manager alone, and on Ethernet for nobody.
        let nodes = hca.ports.iter().filter_map(|port| port.umad.as_ref());
        let missing: Vec<String> = nodes
            .filter(|device| matches!(device.accessible, Accessible::Missing | Accessible::Other))
            .map(CharDevice::path)
            .collect();
        if !missing.is_empty() {
            let uverbs = hca.uverbs.as_ref().map_or_else(String::new, CharDevice::path);
            let seen = format!("{uverbs} is there, {} not", missing.join(", "));
            sheet.find(&hca.name, seen, "all nodes of the HCA, or none");
        }
    }
}

fn lanes_lost(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        // A port that is down says what it could have.
        let active = ports.iter().filter(|(_, port)| port.state.as_deref() == Some("ACTIVE"));
        let widths: Vec<(String, u32)> =
            active.filter_map(|(hca, port)| Some((port_name(hca, port), port.width?))).collect();
        let Some(found) = unlike(&widths) else { continue };
        for (name, width) in found.odd.into_iter().filter(|(_, width)| *width < found.usual) {
            sheet.say(name, format!("{width}X"), format!("{}X as the other rails", found.usual));
        }
    }
}

fn lag_degraded(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports() {
        let Some(bond) = port.netdev.as_deref().and_then(|name| case.host.netdev(name)?.bond.as_ref()) else {
            continue;
        };
        let down: Vec<&str> =
            bond.members.iter().filter(|m| m.mii_up == Some(false)).map(|m| m.netdev.as_str()).collect();
        let (all, up) = (bond.members.len(), bond.members.len() - down.len());
        // None at all: the port itself is DOWN then, which is another finding.
        if down.is_empty() || up == 0 {
            continue;
        }
        let bond = port.netdev.as_deref().unwrap_or_default();
        let seen = format!("{up} of {all} members of {bond} up, without link: {}", down.join(", "));
        sheet.find(&hca.name, seen, format!("{all} of {all}"));
    }
}

fn planes_degraded(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.host.hcas.iter().filter(|hca| case.is_own(hca)) {
        let Some(planes) = &hca.planes else { continue };
        let ports: Vec<&Port> = planes.ports.iter().filter_map(|number| hca.port(*number)).collect();
        let down: Vec<&&Port> = ports.iter().filter(|port| port.state.as_deref() != Some("ACTIVE")).collect();
        for port in &down {
            let mut seen = vec![format!("plane {}", port.netdev.as_deref().unwrap_or("without interface"))];
            seen.extend(port.state.clone());
            seen.extend(port.phys_state.clone());
            if let Some(downed) = port.counter("link_downed").and_then(|c| c.value).filter(|n| *n > 0) {
                seen.push(format!("link_downed {downed}"));
            }
            sheet.find(port_name(hca, port), seen.join(", "), "ACTIVE, LinkUp");
        }
        if !down.is_empty() {
            let rate = |ports: &[&Port]| ports.iter().filter_map(|port| port.rate_gbps).sum::<f64>();
            let up: Vec<&Port> =
                ports.iter().copied().filter(|port| port.state.as_deref() == Some("ACTIVE")).collect();
            let best = up.iter().filter_map(|port| port.rate_gbps).fold(0.0, f64::max) * ports.len() as f64;
            let state = if up.is_empty() { "down" } else { "degraded, not dead" };
            let seen =
                format!("{} of {} planes up, {} of {best} Gb/s: {state}", up.len(), ports.len(), rate(&up));
            let severity = if up.is_empty() { Severity::Error } else { Severity::Warning };
            sheet.find(&hca.name, seen, "all planes up").severity = severity;
        }
    }
}

fn switch_management(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.host.hcas.iter().filter(|hca| hca.switch_management == Some(true)) {
        sheet.find(
            &hca.name,
            "NVSwitch management function (VPD SMDL=SW_MNG), not a network HCA",
            "to stay on the host",
        );
    }
}

/// IB_PORT_SM_DISABLED (include/rdma/ib_mad.h).
const SM_DISABLED: u32 = 1 << 10;

fn subnet_manager_disabled(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let managers = case.host.hcas.iter().filter(|hca| hca.switch_management == Some(true));
    for (hca, port) in managers.flat_map(|hca| hca.ports.iter().map(move |port| (hca, port))) {
        if port.cap_mask.is_some_and(|mask| mask & SM_DISABLED != 0) {
            sheet.find(
                &hca.name,
                format!("IsSMDisabled is set in cap_mask of port {}", port.port),
                "nothing: it is information",
            );
        }
    }
}

fn limited_member(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in
        case.ports().filter(|(_, port)| is_infiniband(port) && port.limited_member == Some(true))
    {
        let keys: Vec<String> = port.pkeys.iter().map(|key| key.to_string()).collect();
        sheet.find(
            port_name(hca, port),
            format!("P_Keys {}: limited member", keys.join(", ")),
            "full membership, as 0xffff",
        );
    }
}

fn other_transport(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports() {
        let what = match port.transport {
            Transport::Efa => "EFA: SRD, no RC",
            Transport::Iwarp => "iWARP: no InfiniBand or RoCE GIDs",
            Transport::Usnic => "usNIC: no RDMA operations",
            Transport::Unknown if hca.node_type == Some(7) => "node type 7 (unspecified), link layer Unknown",
            _ => continue,
        };
        sheet.find(port_name(hca, port), what, "InfiniBand or RoCE, where programs need RC");
    }
}

fn split_plane(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in &case.host.hcas {
        for other in hca.companions.iter().filter(|c| c.relation == Relation::SplitPlane) {
            let Some(other) = &other.hca else { continue };
            // Each pair once.
            if hca.name < *other {
                sheet.find(
                    &hca.name,
                    format!("shares one physical port with {other}"),
                    "both granted together",
                );
            }
        }
    }
}

fn lag_named(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports() {
        let Some(netdev) = port.netdev.as_deref().filter(|_| !port.bond_members.is_empty() && !hca.software)
        else {
            continue;
        };
        let seen = format!("{netdev} = {} (LAG of {})", hca.name, port.bond_members.join(", "));
        sheet.find(&hca.name, seen, "to be named so in configurations");
    }
}

/// Highest unicast LID (InfiniBand Architecture Specification, vol. 1, 4.1.3).
const LAST_UNICAST_LID: u16 = 0xbfff;

fn no_lid(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let active = |port: &Port| is_infiniband(port) && port.state.as_deref() == Some("ACTIVE");
    for (hca, port) in case.ports().filter(|at| active(at.1) && counts(at)) {
        let name = port_name(hca, port);
        match (port.lid, port.sm_lid) {
            (None, _) => sheet.unjudged(name, why(&port.unknown, "lid")),
            (Some(lid), _) if lid == 0 || lid > LAST_UNICAST_LID => {
                sheet.say(name, format!("LID {lid}"), "a unicast LID")
            }
            (_, Some(0)) => sheet.say(name, "SM LID 0", "a subnet manager's LID"),
            _ => {}
        }
    }
}

fn is_infiniband(port: &Port) -> bool {
    matches!(port.transport, Transport::Infiniband | Transport::Opa)
}
