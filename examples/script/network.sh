# Runs on a machine, as root: a bridge for its pods, and a route to the pods of every other node.
# VMATRIX_NODES has a line `NAME SUBNET ADDRESS` for each node.
# shellcheck shell=bash disable=SC2154 # cluster.sh puts the VMATRIX_* variables before it
set -euo pipefail
pods=$VMATRIX_VAR_cluster_pod_cidr
routes=
while read -r name subnet address; do
  if [ "$name" = "$HOSTNAME" ]; then
    own=$subnet
  else
    routes+="ExecStart=/usr/sbin/ip route replace $subnet via $address proto 250"$'\n'
  fi
done <<<"$VMATRIX_NODES"

cat >/etc/systemd/system/pod-routes.service <<END
[Unit]
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-/usr/sbin/ip route flush proto 250
${routes}ExecStart=/usr/sbin/nft -f /etc/kubernetes/masquerade.nft
[Install]
WantedBy=multi-user.target
END
cat >/etc/kubernetes/masquerade.nft <<END
table ip pod-routes
delete table ip pod-routes
table ip pod-routes {
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ip saddr $own ip daddr != { $pods, 224.0.0.0/4 } masquerade
  }
}
END
systemctl daemon-reload
systemctl enable --quiet pod-routes
systemctl restart pod-routes

mkdir -p /etc/cni/net.d
cat >/etc/cni/net.d/10-bridge.conflist <<END
{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "$own"}]]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}, "backend": "nftables"}
  ]
}
END
