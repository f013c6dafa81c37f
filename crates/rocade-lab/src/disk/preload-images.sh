# Imports every archive below $2 with the containerd of the tree $1. Mounts are private to this process.
tree=$1
mount -t proc proc "$tree/proc"
mount -t tmpfs run "$tree/run"
mount -t tmpfs tmp "$tree/tmp"
mount --rbind /dev "$tree/dev"
cp "$2"/*.tar "$tree/tmp/"
chroot "$tree" containerd --log-level warn >&2 &
for _ in $(seq 300); do
    [ -S "$tree/run/containerd/containerd.sock" ] && break
    sleep 0.1
done
for archive in "$tree"/tmp/*.tar; do
    chroot "$tree" ctr -n k8s.io images import --snapshotter overlayfs "/tmp/${archive##*/}" >&2
done
chroot "$tree" ctr -n k8s.io images ls -q
kill -TERM $!
wait $! || true
mkdir -p "$tree/etc/dropbear"
chroot "$tree" dropbearkey -t ed25519 -f /etc/dropbear/dropbear_ed25519_host_key >&2
