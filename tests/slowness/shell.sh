# Functions for the commands of slowness.yml.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
LINK=$(ip -o route show default | sed -E 's/.* dev ([^ ]+).*/\1/' | head -1)

# groups_of PROGRAM CONTROLLER: the control group of a program, as a folder; controller "": cgroup v2.
groups_of() {
  pid=$(pgrep -x -o "$1")
  if [ -n "$2" ]; then
    path=$(sed -nE "s/^[0-9]+:([^:]*,)?$2(,[^:]*)?:(.*)\$/\\3/p" "/proc/$pid/cgroup")
    mount=$(sed -nE "s/^cgroup ([^ ]+) cgroup ([^ ]*,)?$2(,| ).*/\\1/p" /proc/mounts | head -1)
  else
    path=$(sed -nE 's/^0::(.*)$/\1/p' "/proc/$pid/cgroup")
    mount=$(sed -nE 's/^[^ ]+ ([^ ]+) cgroup2 .*/\1/p' /proc/mounts | head -1)
  fi
  [ -n "$mount" ] && [ -d "$mount$path" ]
  echo "$mount$path"
}

# device: the numbers of the disk that etcd's data are on.
device() { stat -c %d /var/lib/etcd | awk '{ printf "%d:%d\n", int($1 / 256), $1 % 256 }'; }
