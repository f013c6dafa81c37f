#!/bin/sh
# CNI plugin, chained after macvlan on a rail. Soft-RoCE takes its packets from the rail's own netdev alone, so a
# macvlan child's GID would connect and carry nothing. This stands in for what an HCA does in hardware: the rail
# gets the Pod's address too (scope host: it does not answer ARP for it), and node-init's tc rule brings RoCE packets
# for any child there. The child's GID comes first, so that it has the lower index of the two.
config=$(cat)
# The value of prevResult: from its brace to the one that closes it.
result=$(printf %s "$config" | awk '{ text = text $0 } END {
    at = index(text, "\"prevResult\""); if (!at) exit
    text = substr(text, at + 12); text = substr(text, index(text, "{"))
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1); if (c == "{") depth++; if (c == "}" && --depth == 0) break
    }
    print substr(text, 1, i) }')
value() { printf %s "$1" | sed -n "s/.*\"$2\": *\"\\([^\"\\/]*\\).*/\\1/p"; }
rail=$(value "$config" rail)
address=$(value "$result" address)
# Waits, two seconds at most, until the rail's HCA lists the GID of the address.
await_gid() {
    gid=$(echo "$1" | { IFS=. read -r a b c d; printf '0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d"; })
    gids=/sys/class/infiniband/rxe${rail#eth}/ports/1/gids
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        grep -qs "$gid" "$gids"/? "$gids"/?? && return
        sleep 0.2
    done
}
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}' ;;
ADD)
    await_gid "$address"
    ip addr add "$address/32" dev "$rail" scope host || {
        echo "{\"cniVersion\": \"1.0.0\", \"code\": 100, \"msg\": \"cannot add $address to $rail\"}"
        exit 1
    }
    printf '%s\n' "$result"
    ;;
DEL) [ -z "$address" ] || ip addr del "$address/32" dev "$rail" 2>/dev/null || true ;;
esac
