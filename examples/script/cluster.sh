#!/bin/bash
# A Kubernetes cluster with one control plane, by kubeadm over SSH: cluster.sh deploy|scale-out|reset
# What it knows of machines and versions is in the environment variables that docs/command.md explains.
# shellcheck disable=SC2154 # vmatrix sets VMATRIX_*
set -euo pipefail
umask 077
here=$(dirname "$(readlink -f "$0")")
first=$VMATRIX_GROUP_CONTROL_PLANE
address_variable=VMATRIX_ADDRESS_${first//-/_}
address=${!address_variable}
ignored=$(tr -d '[]" ' <<<"${VMATRIX_VAR_cluster_kubeadm_ignore_preflight_errors:-}")

on() { ssh -F "$VMATRIX_SSH_CONFIG" "$@"; }
kubectl() { on "$first" sudo kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }

# Run a script on machines, side by side, with our variables; tell vmatrix on which of them it fails.
run_on() {
  local script=$1 machine failed=()
  local -A pids=()
  for machine in $2; do
    { declare -p "${!VMATRIX_@}" && cat "$here/$script"; } | on "$machine" sudo bash -s &
    pids[$machine]=$!
  done
  for machine in $2; do wait "${pids[$machine]}" || failed+=("\"$machine\""); done
  [ ${#failed[@]} -eq 0 ] && return
  machines=$(IFS=, && echo "${failed[*]}")
  echo "{\"summary\": \"$script failed\", \"machines\": [$machines]}" >"$VMATRIX_RESULT"
  exit 1
}

# JSON is YAML: a variable that is a mapping can be merged in as it is.
configuration() {
  local kubelet=${VMATRIX_VAR_cluster_kubelet_config:-"{}"} proxy=${VMATRIX_VAR_cluster_kube_proxy_config:-"{}"}
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $address}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$VMATRIX_VAR_cluster_kubernetes_version
imageRepository: $VMATRIX_IMAGE_REGISTRY
controlPlaneEndpoint: $address:6443
networking:
  podSubnet: $VMATRIX_VAR_cluster_pod_cidr
  serviceSubnet: $VMATRIX_VAR_cluster_service_cidr
  dnsDomain: $VMATRIX_VAR_cluster_dns_domain
dns: {imageTag: v$VMATRIX_VAR_cluster_coredns_version}
etcd: {local: {imageTag: $VMATRIX_VAR_cluster_etcd_version-0}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
<<: $kubelet
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: $VMATRIX_VAR_cluster_kube_proxy_mode
<<: $proxy
END
}

start() {
  echo "TASK [kubeadm init on $first]"
  configuration | on "$first" sudo sh -c "'umask 077; cat >/etc/kubernetes/kubeadm.yml'"
  on "$first" sudo kubeadm init --config /etc/kubernetes/kubeadm.yml --ignore-preflight-errors "'$ignored'"
  on "$first" sudo cat /etc/kubernetes/admin.conf >"$VMATRIX_GUEST_KUBECONFIG"
}

join() {
  local machine command
  command=$(on "$first" sudo kubeadm token create --ttl 1h --print-join-command)
  for machine in $VMATRIX_JOINING_MACHINES; do
    [ "$machine" = "$first" ] && continue
    echo "TASK [kubeadm join on $machine]"
    on "$machine" "sudo $command --ignore-preflight-errors '$ignored'"
  done
  echo "TASK [connect pods]"
  for machine in $VMATRIX_JOINING_MACHINES; do # kubeadm does not wait for the Node, nor for its range of addresses
    kubectl wait --for=create --timeout=60s "node/$machine"
    kubectl wait --for="'jsonpath={.spec.podCIDR}'" --timeout=60s "node/$machine"
  done
  nodes='{range .items[*]}{.metadata.name} {.spec.podCIDR} {.status.addresses[0].address}{"\n"}{end}'
  export VMATRIX_NODES
  VMATRIX_NODES=$(kubectl get nodes --output "'jsonpath=$nodes'")
  run_on network.sh "$VMATRIX_MACHINES"
  echo "TASK [wait for nodes and DNS]"
  kubectl wait --for=condition=Ready nodes --all --timeout=300s
  kubectl --namespace kube-system rollout status deployment/coredns --timeout=300s
}

echo "TASK [machines: $1]"
case $1 in
  deploy) run_on machine.sh "$VMATRIX_MACHINES" && start && join ;;
  scale-out) run_on machine.sh "$VMATRIX_JOINING_MACHINES" && join ;;
  reset) run_on reset.sh "$VMATRIX_MACHINES" ;;
  *) echo "usage: $0 deploy|scale-out|reset" >&2 && exit 2 ;;
esac
