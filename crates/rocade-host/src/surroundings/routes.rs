//! Routes and rules, with interfaces by name.

use rocade_core::Host;
use rocade_core::host::{Route, Rule};

use crate::netlink::RouteRecord;
use crate::root::Root;

/// RT_TABLE_MAIN, RT_TABLE_LOCAL (include/uapi/linux/rtnetlink.h).
const MAIN: u32 = 254;
const LOCAL: u32 = 255;

pub(super) fn read(root: &Root, host: &mut Host) {
    match root.routes() {
        Ok(records) => {
            let routes = records.into_iter().filter(|record| record.table != LOCAL);
            host.routes = routes.map(|record| name_interface(record, host)).collect();
            host.default_route_netdev = tell_default(&host.routes);
        }
        Err(refusal) => {
            host.unknown.insert("routes".into(), refusal.to_string());
            host.unknown.insert("default_route_netdev".into(), refusal.to_string());
        }
    }
    match root.rules() {
        Ok(records) => {
            let rule = |record: crate::netlink::RuleRecord| Rule {
                ipv6: record.ipv6,
                priority: record.priority,
                source: record.source,
                destination: record.destination,
                input: record.input,
                output: record.output,
                table: record.table,
            };
            host.rules = records.into_iter().map(rule).collect();
        }
        Err(refusal) => drop(host.unknown.insert("rules".into(), refusal.to_string())),
    }
}

fn name_interface(record: RouteRecord, host: &Host) -> Route {
    let netdev = host.netdevs.iter().find(|netdev| Some(netdev.ifindex) == record.interface);
    Route {
        table: record.table,
        kind: record.kind,
        destination: record.destination,
        gateway: record.gateway,
        netdev: netdev.map(|netdev| netdev.name.clone()),
        metric: record.metric,
        source: record.source,
    }
}

fn tell_default(routes: &[Route]) -> Option<String> {
    let default = |route: &&Route| route.table == MAIN && route.destination.1 == 0 && route.kind == "unicast";
    let with_netdev = routes.iter().filter(default).filter(|route| route.netdev.is_some());
    let order = |route: &&Route| (route.destination.0.is_ipv6(), route.metric.unwrap_or(0));
    with_netdev.min_by_key(order).and_then(|route| route.netdev.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(netdev: &str, destination: &str, metric: Option<u32>, table: u32) -> Route {
        Route {
            table,
            kind: "unicast".into(),
            destination: (destination.parse().unwrap(), 0),
            gateway: None,
            netdev: Some(netdev.into()),
            metric,
            source: None,
        }
    }

    #[test]
    fn the_default_route_is_that_of_the_main_table_with_the_lowest_metric() {
        let routes = [
            route("v6", "::", None, 254),
            route("slow", "0.0.0.0", Some(600), 254),
            route("rail", "0.0.0.0", None, 301),
            route("fast", "0.0.0.0", Some(100), 254),
        ];
        assert_eq!(tell_default(&routes).as_deref(), Some("fast"));
        assert_eq!(tell_default(&routes[..1]).as_deref(), Some("v6"));
    }
}
