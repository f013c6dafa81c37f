# In a stage's namespaces: the recorded host in place of the machine. FOLDER (the run folder with the tree `host` in it)
# and NETDEVS (names) are set before this.

# Directories that are not on the machine may come into being, but not on the machine.
mkdir /run/lib /run/lib.work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib,workdir=/run/lib.work lib /var/lib
mkdir -p /var/lib/kubelet
mount -t tmpfs kubelet /var/lib/kubelet
mkdir /var/lib/kubelet/device-plugins

for name in $NETDEVS; do
    ip tuntap add dev "$name" mode tap
done

mkdir /run/dev
mount -t tmpfs -o mode=755 dev /run/dev
for node in null zero full random urandom tty; do
    cp -a "/dev/$node" /run/dev/
done
cp -a "$FOLDER/host/dev/infiniband" /run/dev/
mount --move /run/dev /dev
mount --bind "$FOLDER/host/sys" /sys
