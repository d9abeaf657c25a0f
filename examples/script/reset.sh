# Runs on a machine, as root: takes away what machine.sh, network.sh, kubeadm and the kubelet have made of it.
# shellcheck shell=bash
set -euo pipefail
before=/var/lib/before-kubernetes
kubeadm reset --force --cleanup-tmp-dir
systemctl disable --quiet --now kubelet pod-routes containerd
rm -rf /etc/{cni,containerd,kubernetes} /etc/systemd/system/{containerd,kubelet,pod-routes}.service \
  /etc/modules-load.d/kubernetes.conf /etc/sysctl.d/90-kubernetes.conf /opt/{cni,containerd} /run/{containerd,nri} \
  /run/xtables.lock /usr/local/bin/{kubeadm,kubectl,kubelet,runc,containerd*,ctr} \
  /var/lib/{cni,containerd,etcd,kubelet} /var/log/{containers,pods}
systemctl daemon-reload
ip route flush proto 250
ip link delete cni0 2>/dev/null || true
for table in ip/pod-routes {ip,ip6}/kube-proxy {ip,ip6,inet}/cni_hostport; do
  nft delete table "${table%/*}" "${table#*/}" 2>/dev/null || true
done
find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} +
xargs --no-run-if-empty rm -rf <$before/absent
for _ in 1 2; do sysctl --quiet --ignore --load $before/sysctl 2>/dev/null || true; done # ip_forward changes others
rm -r $before
