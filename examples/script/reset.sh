# Runs on a machine, as root: takes away what machine.sh, network.sh, kubeadm and the kubelet have made of it.
# shellcheck shell=bash
set -euo pipefail
before=/var/lib/before-kubernetes
kubeadm reset --force --cleanup-tmp-dir
systemctl disable --quiet --now kubelet pod-routes containerd
systemctl stop kubepods.slice 2>/dev/null || true # there is one with the cgroup driver systemd
rm -rf /etc/{cni,containerd,kubernetes} /etc/systemd/system/{containerd,kubelet,pod-routes}.service \
  /etc/modules-load.d/kubernetes.conf /etc/sysctl.d/90-kubernetes.conf /opt/{cni,containerd} /run/{containerd,nri} \
  /usr/local/bin/{kubeadm,kubectl,kubelet,runc,containerd*,ctr} \
  /var/lib/{cni,containerd,etcd,kubelet} /var/log/{containers,pods}
xargs --no-run-if-empty rm -rf <$before/absent
systemctl daemon-reload
systemctl reset-failed kubelet pod-routes containerd 2>/dev/null || true
find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} +

ip link delete cni0 2>/dev/null || true
ip route flush proto 250
comm -13 $before/tables <(nft list tables | sort) | xargs --no-run-if-empty -L 1 nft delete
for _ in 1 2; do # twice: ip_forward changes other settings
  sysctl --quiet --ignore --load $before/sysctl 2>/dev/null || true
done
rm -r $before
