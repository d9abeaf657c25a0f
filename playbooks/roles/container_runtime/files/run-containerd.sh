set -eu
unit=containerd.service
files="/etc/containerd /etc/systemd/system/$unit /usr/local/bin/containerd /usr/local/bin/containerd-shim-runc-v2"
if systemctl is-active --quiet "$unit" && [ -e /run/containerd/started ]; then
  # shellcheck disable=SC2086 # a list of paths without spaces
  newer=$(find $files -newer /run/containerd/started)
else
  newer=all
fi
if [ -n "$newer" ]; then
  systemctl daemon-reload
  systemctl restart "$unit"
  echo "restarted $unit"
fi
if ! systemctl is-enabled --quiet "$unit"; then
  systemctl enable --quiet "$unit"
  echo "enabled $unit"
fi
