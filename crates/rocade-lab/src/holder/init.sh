# Init of the lab's PID namespace. $1 is the lab's own set-up. Says "ready" when that has passed, then waits: at the
# end of its stdin it ends, and the kernel ends all the rest; told to stay it lives until it is killed.
mount -t tmpfs -o mode=755 lab /run
mount -t sysfs lab /sys
ip link set lo up
eval "$1"
echo ready
exec >&-
if read -r word && [ "$word" = stay ]; then
    while :; do sleep 1000000; done
fi
