# What an API server presents to etcd, as YAML; nothing while it is not there.
set -eu
pki=/etc/kubernetes/pki
[ -e $pki/apiserver-etcd-client.key ] || exit 0
for part in ca=etcd/ca.crt certificate=apiserver-etcd-client.crt key=apiserver-etcd-client.key; do
  echo "${part%%=*}: |"
  sed 's/^/  /' "$pki/${part#*=}"
done
