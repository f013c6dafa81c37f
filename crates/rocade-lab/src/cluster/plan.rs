//! Names, addresses and files of a cluster: pure text, no process. What a node finds in its seed is decided here.

use serde_json::{Value, json};

/// The nodes, in order; node N of the tables below is the N-th from 1.
pub const NODES: [&str; 2] = ["node1", "node2"];
/// The network of a rail, without its last octet; rail N is `ethN` and `rxeN` on every node.
pub const RAILS: [&str; 2] = ["10.8.10", "10.8.20"];
/// Where API server and kubectl are: the lab's own end of the management network.
pub const LAB_ADDRESS: &str = "10.7.0.254";
/// First address of the service range, where Pods look for the API server.
pub const API_SERVICE_ADDRESS: &str = "10.96.0.1";
/// 4096 bytes of payload and the headers of RoCE around them.
pub const RAIL_MTU: u16 = 4200;
/// Packets that wait for a node at most. A fabric that carries RoCE loses none, and 32 QPs of soft-RoCE may have 4096 under
/// way; of the 1000 that a tap keeps by default some were lost each time.
const QUEUED: u32 = 10_000;

/// Folders of CNI configurations on a node, and the rails that a Pod gets by each beside the Pods' network. The first is
/// the default runtime's, the others are of containerd.toml's runtime handlers.
pub const CNI_FOLDERS: [(&str, &[usize]); 4] =
    [("etc/cni/net.d", &[1, 2]), ("etc/cni/no-rail", &[]), ("etc/cni/rail1", &[1]), ("etc/cni/rail2", &[2])];

/// Management address of node `number`.
pub fn address(number: usize) -> String {
    format!("10.7.0.{number}")
}

/// Address of node `number` on rail `rail` (from 1).
pub fn rail_address(number: usize, rail: usize) -> String {
    format!("{}.{number}", RAILS[rail - 1])
}

/// The MAC of a node's interface: 0 is management, others are rails.
pub fn mac(number: usize, interface: usize) -> String {
    format!("52:54:00:07:{interface:02x}:{number:02x}")
}

/// Name of the tap behind it.
pub fn tap(number: usize, interface: usize) -> String {
    format!("n{number}e{interface}")
}

/// Bridges, taps and routes, as the shell script that the holder runs.
pub fn render_network() -> String {
    let mut lines = vec![];
    for (interface, bridge) in ["mgmt", "rail1", "rail2"].iter().enumerate() {
        let mtu = if interface == 0 { 1500 } else { RAIL_MTU };
        lines.push(format!("ip link add {bridge} mtu {mtu} type bridge"));
        for number in 1..=NODES.len() {
            let tap = tap(number, interface);
            lines.push(format!("ip tuntap add {tap} mode tap"));
            lines.push(format!("ip link set {tap} mtu {mtu} txqueuelen {QUEUED} master {bridge} up"));
        }
        lines.push(format!("ip link set {bridge} mtu {mtu} up"));
    }
    lines.push(format!("ip addr add {LAB_ADDRESS}/24 dev mgmt"));
    lines.push(format!("ip addr add {API_SERVICE_ADDRESS}/32 dev lo"));
    for number in 1..=NODES.len() {
        lines.push(format!("ip route add {} via {}", pod_range(number), address(number)));
    }
    lines.push("echo 1 > /proc/sys/net/ipv4/ip_forward".to_string());
    lines.join("\n")
}

/// `ip -batch` lines for the inside of node `number`.
pub fn render_node_network(number: usize) -> String {
    let mut lines = vec!["link set lo up".to_string(), "link set eth0 up".to_string()];
    lines.push(format!("addr add {}/24 dev eth0", address(number)));
    lines.push(format!("route add default via {LAB_ADDRESS}"));
    for rail in 1..=RAILS.len() {
        lines.push(format!("link set eth{rail} mtu {RAIL_MTU} up"));
        lines.push(format!("addr add {}/24 dev eth{rail}", rail_address(number, rail)));
    }
    for other in (1..=NODES.len()).filter(|other| *other != number) {
        lines.push(format!("route add {} via {}", pod_range(other), address(other)));
    }
    lines.join("\n") + "\n"
}

/// The Pods' network of node `number`.
pub fn pod_range(number: usize) -> String {
    format!("10.244.{number}.0/24")
}

/// The CNI configuration of Pods' eth0; Pods of both nodes reach each other by the routes above.
pub fn cni_pod_network(number: usize) -> Value {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": pod_range(number)}]],
        "routes": [{"dst": "0.0.0.0/0"}]});
    let plugins = json!([{"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": ipam}]);
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})
}

/// The CNI configuration of Pods' `ethRAIL` on node `number`: a macvlan child of the rail, as a
/// NetworkAttachmentDefinition would have it, and the lab's own plugin that lets soft-RoCE serve it.
pub fn cni_rail(number: usize, rail: usize) -> Value {
    let (network, parent) = (RAILS[rail - 1], format!("eth{rail}"));
    let range = json!({"subnet": format!("{network}.0/24"), "rangeStart": format!("{network}.{}", number * 64 + 1),
        "rangeEnd": format!("{network}.{}", number * 64 + 62)});
    let ipam = json!({"type": "host-local", "ranges": [[range]]});
    let plugins = json!([
        {"type": "macvlan", "master": parent, "mode": "bridge", "mtu": RAIL_MTU, "ipam": ipam},
        {"type": "lab-rail", "rail": parent},
    ]);
    json!({"cniVersion": "1.0.0", "name": format!("rail{rail}"), "plugins": plugins})
}

/// `tc -batch` lines of a node: RoCE packets for any macvlan child of a rail go to the rail itself.
pub fn render_node_steering(number: usize) -> String {
    let rails = (1..=RAILS.len()).map(|rail| {
        let mac = mac(number, rail);
        format!(
            "qdisc add dev eth{rail} clsact\nfilter add dev eth{rail} ingress protocol ip flower ip_proto udp \
             dst_port 4791 action pedit ex munge eth dst set {mac} pipe action skbedit ptype host\n"
        )
    });
    rails.collect()
}

/// Access of `system:masters` by a static token, for kubelets, controllers and kubectl.
pub fn kubeconfig(token: &str, certificate: &str) -> Value {
    let server = format!("https://{LAB_ADDRESS}");
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": certificate}}],
        "users": [{"name": "lab", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}]})
}

/// KubeletConfiguration of a small emulated node: nothing is evicted, anyone on the lab's network may ask.
pub fn kubelet_configuration() -> Value {
    json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": [], "failSwapOn": false,
        "localStorageCapacityIsolation": false, "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%",
            "nodefs.inodesFree": "0%"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"}, "makeIPTablesUtilChains": false,
        "tlsCertFile": "/lab/lab.crt", "tlsPrivateKeyFile": "/lab/lab.key",
        "nodeStatusUpdateFrequency": "5s", "resolvConf": "", "clusterDNS": ["10.96.0.10"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_interfaces_share_a_mac_or_an_address() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 1..=NODES.len() {
            for interface in 0..=RAILS.len() {
                assert!(seen.insert(mac(number, interface)));
                let at = if interface == 0 { address(number) } else { rail_address(number, interface) };
                assert!(seen.insert(at));
            }
        }
    }

    #[test]
    fn no_pod_address_of_a_rail_is_a_nodes_or_another_nodes_pods() {
        let range = |number| cni_rail(number, 1)["plugins"][0]["ipam"]["ranges"][0][0].clone();
        let last =
            |value: &Value| value.as_str().unwrap().rsplit('.').next().unwrap().parse::<usize>().unwrap();
        let ends: Vec<_> = (1..=NODES.len())
            .map(|it| (last(&range(it)["rangeStart"]), last(&range(it)["rangeEnd"])))
            .collect();
        assert!(ends[0].0 > NODES.len() && ends[0].1 < ends[1].0 && ends[1].1 < 254, "{ends:?}");
    }

    #[test]
    fn each_node_routes_to_the_pods_of_the_other_one_and_not_to_its_own() {
        let text = render_node_network(1);
        assert!(text.contains("route add 10.244.2.0/24 via 10.7.0.2"), "{text}");
        assert!(!text.contains("10.244.1.0"), "{text}");
    }
}
