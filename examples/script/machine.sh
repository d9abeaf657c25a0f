# Runs on a machine, as root: container runtime, Kubernetes binaries and kernel settings, so that kubeadm can work.
# shellcheck shell=bash disable=SC2154 # cluster.sh puts the VMATRIX_* variables before it
set -euo pipefail
registry=$VMATRIX_IMAGE_REGISTRY

# What Kubernetes is going to change or to make, for reset.sh.
before=/var/lib/before-kubernetes
if [ ! -e $before ]; then
  mkdir -m 0700 $before
  settings='^(net[.]|kernel[.](panic|keys)|vm[.](overcommit_memory|panic_on_oom))'
  sysctl --all --pattern "$settings" >$before/sysctl 2>/dev/null || true
  nft list tables | sort >$before/tables
  for path in /etc/ca-certificates /root/.kube /run/{netns,xtables.lock} /usr/{lib/modules,libexec/kubernetes} \
    /usr/{,local/}share/ca-certificates; do
    [ -e "$path" ] || echo "$path"
  done >$before/absent
fi

get() { curl --fail --silent --show-error --retry 3 "$VMATRIX_MIRROR_URL/bin/$1/$2/$3"; }
mkdir -p /opt/cni/bin /etc/kubernetes "/etc/containerd/certs.d/$registry"
for program in kubeadm kubectl kubelet; do
  get $program "$VMATRIX_VAR_cluster_kubernetes_version" $program >/usr/local/bin/$program
done
get runc "$VMATRIX_VAR_cluster_runc_version" runc >/usr/local/bin/runc
chmod 0755 /usr/local/bin/{kubeadm,kubectl,kubelet,runc}
get containerd "$VMATRIX_VAR_cluster_containerd_version" containerd.tar | tar -x --no-same-owner -C /usr/local/bin
get cni-plugins "$VMATRIX_VAR_cluster_cni_plugins_version" cni-plugins.tar | tar -x --no-same-owner -C /opt/cni/bin

printf '%s\n' overlay br_netfilter >/etc/modules-load.d/kubernetes.conf
modprobe --all --quiet overlay br_netfilter || true # a kernel that has them built in has no such modules
printf '%s = 1\n' net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables >/etc/sysctl.d/90-kubernetes.conf
sysctl --quiet --load /etc/sysctl.d/90-kubernetes.conf

cat >/etc/containerd/config.toml <<END
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '$registry/pause:$VMATRIX_VAR_cluster_pause_version'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = ${VMATRIX_VAR_cluster_containerd_restrict_oom_score_adj:-false}
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = ${VMATRIX_VAR_cluster_containerd_systemd_cgroup:-true}
END
printf "[host.'http://%s']\n" "$registry" >"/etc/containerd/certs.d/$registry/hosts.toml"

cat >/etc/systemd/system/containerd.service <<END
[Unit]
After=network.target
[Service]
Type=notify
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
LimitNOFILE=1048576
TasksMax=infinity
[Install]
WantedBy=multi-user.target
END
cat >/etc/systemd/system/kubelet.service <<END
[Unit]
After=network-online.target containerd.service
Wants=network-online.target
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\
  --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \$KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --quiet --now containerd
systemctl enable --quiet kubelet # kubeadm starts it
