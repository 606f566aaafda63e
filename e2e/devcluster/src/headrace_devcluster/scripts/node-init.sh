#!/bin/sh
# Becomes a cluster's node: joins its control group, then holds its namespaces open.
#
#   node-init.sh join  HOSTNAME PAUSE DATA READY PROCS_FILE...
#   node-init.sh setup HOSTNAME PAUSE DATA READY
#
# Everything of the cluster runs in the process-id namespace made here, so the kernel ends all of
# it when this process ends, and the mounts and the network go with their namespaces. Joining the
# control group comes first and must succeed: that is how a node is found again when its starter
# was killed before it could write down the process id.
set -eu
stage=$1 hostname=$2 pause=$3 data=$4 ready=$5
shift 5

if [ "$stage" = join ]; then
    for procs in "$@"; do echo $$ >"$procs"; done
    exec unshare --mount --net --pid --uts --ipc --propagation private --mount-proc \
        --kill-child=KILL "$0" setup "$hostname" "$pause" "$data" "$ready"
fi

hostname "$hostname"
# Private copies of the places that components write to without asking.
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir -p "$data/cni-results" "$data/kubelet"
mount --bind "$data/cni-results" /var/lib/cni
mount --bind "$data/kubelet" /var/lib/kubelet
# The kubelet insists on these settings and would change them for the whole machine. It is shown
# what it wants to see instead; nothing else on a node reads them.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    path=${setting%=*}
    file=/run/sysctl-$(echo "$path" | tr / -)
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/$path"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
: >"$ready"
exec "$pause"
