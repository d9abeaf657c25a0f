# Start when it does not run or its unit is newer, else reload when its configuration is newer.
set -eu
unit=api-endpoint.service
if ! systemctl is-active --quiet "$unit" ||
  [ -n "$(find "/etc/systemd/system/$unit" -newer /run/api-endpoint-started)" ]; then
  systemctl daemon-reload
  systemctl restart "$unit"
  echo "restarted $unit"
elif [ -n "$(find /etc/api-endpoint -newer /run/api-endpoint-loaded)" ]; then
  systemctl reload "$unit"
  echo "reloaded $unit"
fi
if ! systemctl is-enabled --quiet "$unit"; then
  systemctl enable --quiet "$unit"
  echo "enabled $unit"
fi
