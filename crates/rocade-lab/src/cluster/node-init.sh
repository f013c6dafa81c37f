#!/bin/sh
# First program on a lab node's own disk: mounts, network, soft-RoCE, then the services, each started again when it
# ends. Their output goes to ports that the lab reads from outside, so it is there when the node is not.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
. /lab/node.env
bb=/usr/bin/busybox
keep() { while :; do "$@"; echo "lab: $1 ended with $?"; sleep 1; done; }

$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mkdir -p /dev/pts /dev/shm
$bb mount -t devpts devpts /dev/pts
$bb mount -t tmpfs shm /dev/shm
$bb mount -t tmpfs run /run
$bb mount -t tmpfs tmp /tmp
$bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
$bb mount --make-rshared /
$bb ln -sf /proc/self/fd /dev/fd
$bb hostname "$NODE"
echo 1 > /proc/sys/net/ipv4/ip_forward
modprobe -a overlay veth macvlan rdma_rxe ib_uverbs ib_umad rdma_ucm sch_ingress cls_flower act_pedit act_skbedit
ip -batch /lab/network
tc -batch /lab/steering
# A rail does not answer ARP for the addresses of Pods that rail-cni.sh gives it.
for rail in $RAILS; do echo 3 > "/proc/sys/net/ipv4/conf/eth$rail/arp_ignore"; done
for rail in $RAILS; do rdma link add "rxe$rail" type rxe netdev "eth$rail"; done
keep dropbear -F -E -s -r /etc/dropbear/dropbear_ed25519_host_key >/dev/null 2>&1 &
echo "lab: network is up at $($bb cut -d' ' -f1 /proc/uptime) s"
while [ -z "$KUBERNETES" ]; do wait; sleep 1; done
# The runtime's own default, as `base_runtime_spec` takes it, with one limit more.
ctr oci spec | $bb sed 's/"rlimits": \[/&{"type":"RLIMIT_MEMLOCK","hard":18446744073709551615,"soft":18446744073709551615},/' \
    >/run/memlock.json
keep containerd --config /lab/containerd.toml >/dev/vport0p1 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.2; done
echo "lab: containerd is up at $($bb cut -d' ' -f1 /proc/uptime) s"
# Of a device list the kubelet tells in manager.go, at level 2.
keep kubelet --config /lab/kubelet.json --kubeconfig /lab/kubeconfig --hostname-override "$NODE" \
    --node-ip "$ADDRESS" --v 1 --vmodule manager=2 >/dev/vport0p2 2>&1 &
while :; do wait; sleep 1; done
