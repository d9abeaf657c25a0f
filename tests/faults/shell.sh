# Functions for the faults' commands. What `keep` and `edit` copy, `back` puts where it was, with its age.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C KUBECONFIG=/etc/kubernetes/admin.conf
KEPT=/root/.vmatrix-fault
MANIFESTS=/etc/kubernetes/manifests

# keep FILE...: copy files, to be put back.
keep() {
  for file; do
    file=$(realpath "$file")
    mkdir -p "$KEPT/tree$(dirname "$file")"
    cp -a "$file" "$KEPT/tree$file"
    echo "$file" >>"$KEPT/list"
  done
}

# put NEW FILE: let a file take the place of another at once, with the rights of the latter.
put() {
  chmod --reference="$2" "$1"
  chown --reference="$2" "$1"
  mv -T "$1" "$2"
}

# edit FILE SED...: change a file; that nothing changes is an error.
edit() {
  file=$(realpath "$1")
  shift
  keep "$file"
  for change; do
    sed -E "$change" "$file" >"$(dirname "$file")/.fault"
    if cmp -s "$file" "$(dirname "$file")/.fault"; then
      rm "$(dirname "$file")/.fault"
      echo "'$change' changes nothing in $file" >&2
      exit 1
    fi
    put "$(dirname "$file")/.fault" "$file"
  done
}

# back: put back everything that was kept.
back() {
  while read -r file; do
    cp -a "$KEPT/tree$file" "$(dirname "$file")/.fault"
    mv -T "$(dirname "$file")/.fault" "$file"
  done <"$KEPT/list"
  rm -rf "$KEPT"
}

# soon COMMAND: wait until a command succeeds.
soon() {
  for _ in $(seq 240); do
    if eval "$1" >/dev/null 2>&1; then return; fi
    sleep 0.5
  done
  echo "in vain: $1" >&2
  exit 1
}

running() { pgrep -f -o "^(/[^ ]*/)?$1( |\$)" || true; }
ready() { soon 'kubectl get --raw /readyz'; }

# renewed PROGRAM PID: wait until another process of a program runs and goes on running, and the API is ready. The first
# one ends at once where the former pod still listens.
renewed() {
  soon "[ -n \"\$(running $1)\" ] && [ \"\$(running $1)\" != \"$2\" ]"
  ready
  soon "now=\$(running $1) && [ -n \"\$now\" ] && sleep 2 && [ \"\$(running $1)\" = \"\$now\" ]"
}

# pod PROGRAM SED: change a static pod's manifest and wait for the new pod.
pod() {
  pid=$(running "$1")
  edit "$MANIFESTS/$1.yaml" "$2"
  renewed "$1" "$pid"
}

# stamp MANIFEST PROGRAM: let a manifest be that of a new pod, so that the restarts of the old one are forgotten.
stamp() {
  sed "/^    undone:/d; s/^  labels:\$/&\n    undone: \"$(date +%s%N)\"/" "$1" >/etc/kubernetes/.fault
  put /etc/kubernetes/.fault "$MANIFESTS/$2.yaml"
}

# pod_back PROGRAM: put its manifest back. Without the API for a while, others have started anew: they are new pods, too.
pod_back() {
  pid=$(running "$1")
  stamp "$KEPT/tree$MANIFESTS/$1.yaml" "$1"
  rm -rf "$KEPT"
  renewed "$1" "$pid"
  forgiven "$1"
}

# forgiven PROGRAM: let the restarts be forgotten of what restarts without the API.
forgiven() {
  case $1 in kube-apiserver | etcd) ;; *) return ;; esac
  for other in kube-controller-manager kube-scheduler; do
    pid=$(running "$other")
    stamp "$MANIFESTS/$other.yaml" "$other"
    renewed "$other" "$pid"
  done
}

# kubelet_again: restart kubelet and wait until it is healthy.
kubelet_again() {
  systemctl daemon-reload
  systemctl restart kubelet
  soon 'curl -sf http://127.0.0.1:10248/healthz'
}

# aged PROGRAM: wait until it runs for longer than the check of files and processes forgives.
aged() { soon "[ \"\$(ps -o etimes= -p \$(running $1))\" -gt 5 ]"; }

# reloads: how often the API server has read its keys for Secrets again.
reloads() {
  kubectl get --raw /metrics | awk '/^apiserver_encryption_config_controller_automatic_reloads_total.*"success"/ { print $NF }'
}

# changed NAMESPACE CONFIGMAP SED: change a ConfigMap. restored NAMESPACE CONFIGMAP: put it back.
changed() {
  mkdir -p "$KEPT"
  kubectl -n "$1" get configmap "$2" -o yaml | grep -vE '^  (resourceVersion|uid|creationTimestamp):' >"$KEPT/map.yaml"
  sed -E "$3" "$KEPT/map.yaml" >"$KEPT/new.yaml"
  if cmp -s "$KEPT/map.yaml" "$KEPT/new.yaml"; then echo "'$3' changes nothing" >&2; exit 1; fi
  kubectl replace -f "$KEPT/new.yaml"
}
restored() {
  kubectl replace -f "$KEPT/map.yaml"
  rm -rf "$KEPT"
}

# drop RULE [ip6]: let this machine drop packets that it forwards, sends or receives. no_drop [ip6]: no more.
drop() {
  family=${2:-ip}
  nft add table "$family" fault
  for hook in forward input output; do
    nft add chain "$family" fault "$hook" "{ type filter hook $hook priority -300; }"
    nft add rule "$family" fault "$hook" "$1" drop
  done
}
no_drop() { nft delete table "${1:-ip}" fault; }
