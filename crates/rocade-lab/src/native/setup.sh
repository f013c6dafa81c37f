# In the native node's namespaces, before anything runs in them: what kubelet and containerd write to, made their own.
# FOLDER (the run folder), CGROUP (a name) and NODES ("name major minor" a line) are set before this.
mkdir /run/native
mount --bind "$FOLDER" /run/native
cd /run/native
mkdir -p kubelet/device-plugins manifests cni volume-plugins containerd

# Directories that are not on the machine may come into being, but not on the machine.
mkdir /run/lib /run/lib.work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib,workdir=/run/lib.work lib /var/lib
mkdir -p /var/lib/kubelet
mount --bind kubelet /var/lib/kubelet
mount -t tmpfs log /var/log

# /proc/sys is the machine's. The kubelet insists on writing these few and may write copies of them.
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p "/run/sysctl/${key%/*}"
    cat "/proc/sys/$key" > "/run/sysctl/$key"
    mount --bind "/run/sysctl/$key" "/proc/sys/$key"
done

# The same hierarchies as outside; all that runs here is below one group in each.
grep -E '^[^ ]+ /sys/fs/cgroup[^ ]* cgroup2? ' /proc/mounts > /run/cgroups
grep -q ' /sys/fs/cgroup cgroup2 ' /run/cgroups || mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
while read -r _ dir type options _; do
    mkdir -p "$dir"
    mount -t "$type" -o "$options" "$type" "$dir"
    mkdir -p "$dir/$CGROUP"
done < /run/cgroups

mkdir /run/dev
mount -t tmpfs -o mode=755 dev /run/dev
for node in null zero full random urandom tty kmsg; do
    cp -a "/dev/$node" /run/dev/
done
mkdir /run/dev/pts /run/dev/shm /run/dev/mqueue /run/dev/infiniband
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /run/dev/pts
mount -t tmpfs shm /run/dev/shm
mount -t mqueue mqueue /run/dev/mqueue
ln -s pts/ptmx /run/dev/ptmx
ln -s /proc/self/fd /run/dev/fd
echo "$NODES" | while read -r name major minor; do
    [ -z "$name" ] || mknod -m 666 "/run/dev/infiniband/$name" c "$major" "$minor"
done
mount --move /run/dev /dev
