//! /proc/net/bonding/NAME (drivers/net/bonding/bond_procfs.c): the bond first, then its members.

use rocade_core::host::{Bond, BondMember};

pub(super) fn parse(text: &str) -> Bond {
    let mut bond = Bond::default();
    for line in text.lines() {
        let Some((key, value)) = line.trim_start().split_once(": ") else { continue };
        let value = value.trim();
        if key == "Slave Interface" {
            bond.members.push(BondMember {
                netdev: value.to_owned(),
                mii_up: None,
                link_failures: None,
                aggregator: None,
            });
        } else if let Some(member) = bond.members.last_mut() {
            match key {
                "MII Status" => member.mii_up = Some(value == "up"),
                "Link Failure Count" => member.link_failures = value.parse().ok(),
                "Aggregator ID" => member.aggregator = value.parse().ok(),
                _ => {}
            }
        } else {
            match key {
                "Bonding Mode" => bond.mode = Some(value.to_owned()),
                "Currently Active Slave" => {
                    bond.active = Some(value.to_owned()).filter(|name| name != "None")
                }
                "MII Status" => bond.mii_up = Some(value == "up"),
                "Number of ports" => bond.aggregated_ports = value.parse().ok(),
                _ => {}
            }
        }
    }
    bond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_down_is_told_from_its_bond() {
        let text = "Ethernet Channel Bonding Driver: v6.1\n\nBonding Mode: IEEE 802.3ad Dynamic link aggregation\n\
                    MII Status: up\n\n802.3ad info\nActive Aggregator Info:\n\tAggregator ID: 1\n\tNumber of ports: 1\n\n\
                    Slave Interface: a\nMII Status: up\nLink Failure Count: 0\nAggregator ID: 1\n\n\
                    Slave Interface: b\nMII Status: down\nLink Failure Count: 3\nAggregator ID: 2\n";
        let bond = parse(text);
        assert_eq!((bond.mii_up, bond.aggregated_ports), (Some(true), Some(1)));
        let members: Vec<_> = bond
            .members
            .iter()
            .map(|m| (m.netdev.as_str(), m.mii_up, m.link_failures, m.aggregator))
            .collect();
        assert_eq!(members, [("a", Some(true), Some(0), Some(1)), ("b", Some(false), Some(3), Some(2))]);
    }
}
