//! Which ports do the same job on one host, and which of them is unlike the others.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::Case;
use crate::host::{FunctionKind, Hca, Host, Port, RoleKind, Transport};

/// A port with its HCA.
pub(super) type At<'a> = (&'a Hca, &'a Port);

/// Ports of one kind of card and one transport that a job would use together; at least two.
pub(super) fn alike<'a>(case: &Case<'a>) -> Vec<Vec<At<'a>>> {
    let mut kinds: BTreeMap<String, Vec<At<'a>>> = BTreeMap::new();
    for at in case.rails() {
        let (hca, port) = at;
        kinds.entry(format!("{:?} {:?}", port.transport, hca.pci_id)).or_default().push(at);
    }
    kinds.into_values().filter(|ports| ports.len() > 1).collect()
}

/// Whether a port carries, or would carry, the traffic of jobs: hardware, neither storage nor a switch's manager, no
/// part of a virtualised card.
pub(super) fn is_rail((hca, port): &At<'_>) -> bool {
    let plane = hca.planes.as_ref().is_none_or(|planes| planes.ports.contains(&port.port));
    let speaks = matches!(
        port.transport,
        Transport::Roce | Transport::Infiniband | Transport::Opa | Transport::Efa | Transport::Iwarp
    );
    let whole = !matches!(hca.function, Some(FunctionKind::Vf | FunctionKind::Sf));
    let job = !matches!(hca.role.kind, RoleKind::Storage | RoleKind::Bridge);
    plane && speaks && whole && job && !hca.software && port.gid_table_len != Some(0)
}

/// Whether an HCA is of the fabric: by its role, or by being like one that is. Cards of another kind that carry the
/// host's own traffic are not, where there is a fabric beside them.
pub(super) fn is_of_fabric(host: &Host, hca: &Hca) -> bool {
    let transport = |hca: &Hca| hca.ports.first().map(|port| port.transport);
    let is_like = |other: &Hca| other.pci_id == hca.pci_id && transport(other) == transport(hca);
    let mut fabric = host.hcas.iter().filter(|other| other.role.kind == RoleKind::Fabric).peekable();
    hca.role.kind != RoleKind::Management || fabric.peek().is_none() || fabric.any(is_like)
}

/// What most say, and who says otherwise.
#[derive(Debug, PartialEq)]
pub(super) struct Unlike<S, V> {
    /// The value of more of them than any other.
    pub usual: V,
    /// The others.
    pub odd: Vec<(S, V)>,
}

/// Finds the values that differ from what most have; None where all are alike or no value leads.
pub(super) fn unlike<S: Clone, V: Clone + Ord>(values: &[(S, V)]) -> Option<Unlike<S, V>> {
    let mut counts: BTreeMap<&V, usize> = BTreeMap::new();
    for (_, value) in values {
        *counts.entry(value).or_default() += 1;
    }
    let (usual, most) = counts.iter().max_by_key(|(_, count)| **count)?;
    if counts.len() < 2 || counts.values().filter(|count| *count == most).count() > 1 {
        return None;
    }
    let odd = values.iter().filter(|(_, value)| value != *usual).cloned().collect();
    Some(Unlike { usual: (*usual).clone(), odd })
}

/// Where two values are as frequent: `9000 on a, b; 1500 on c, d`. None where all are alike or one value leads.
pub(super) fn tie<S: Display, V: Ord + Display>(values: &[(S, V)]) -> Option<String> {
    let mut holders: BTreeMap<&V, Vec<String>> = BTreeMap::new();
    for (subject, value) in values {
        holders.entry(value).or_default().push(subject.to_string());
    }
    let most = holders.values().map(Vec::len).max()?;
    if holders.len() < 2 || holders.values().filter(|names| names.len() == most).count() < 2 {
        return None;
    }
    let parts = holders.iter().map(|(value, names)| format!("{value} on {}", names.join(", ")));
    Some(parts.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_is_who_differs_from_most() {
        let found = unlike(&[("a", 9000), ("b", 1500), ("c", 9000)]).unwrap();
        assert_eq!(found, Unlike { usual: 9000, odd: vec![("b", 1500)] });
        assert_eq!(unlike(&[("a", 1), ("b", 1)]), None);
    }

    #[test]
    fn of_two_that_differ_neither_is_the_odd_one() {
        let values = [("a", 9000), ("b", 1500)];
        assert_eq!(unlike(&values), None);
        assert_eq!(tie(&values).unwrap(), "1500 on b; 9000 on a");
        assert_eq!(tie(&[("a", 1), ("b", 1)]), None);
        assert_eq!(tie(&[("a", 1), ("b", 1), ("c", 2)]), None);
    }
}
