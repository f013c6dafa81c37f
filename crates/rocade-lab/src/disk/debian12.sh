#!/bin/sh
# debian12 COMMAND…: runs it in Debian 12's own tree, with the devices and networks of this node.
root=/opt/debian12
if ! [ -e $root/proc/self ]; then
    mkdir -p $root/dev $root/proc $root/sys $root/tmp
    for part in dev proc sys; do mount --bind /$part $root/$part; done
    touch $root/usr/bin/rocade
    mount --bind "$(command -v rocade)" $root/usr/bin/rocade
fi
exec chroot $root "$@"
