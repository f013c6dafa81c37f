#!/bin/busybox sh
# First program of a lab node: reaches its disk, lays this run's own files over it and hands over to /lab/init.
bb=/bin/busybox
$bb mount -t devtmpfs dev /dev
for module in /modules/*.ko; do $bb insmod "$module" || echo "lab: insmod $module failed"; done
$bb mount -t ext4 /dev/vda /root || exec $bb sh
$bb tar -x -f /dev/vdb -C /root || exec $bb sh
$bb mount --move /dev /root/dev
exec $bb switch_root /root /lab/init
