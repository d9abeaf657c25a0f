"""CAs and the key of service accounts are replaced, also by a run that goes on; what was before is refused."""

from __future__ import annotations

from harness.kube.client import Cluster
from harness.until import Deadline
from harness.validate.phases.credentials import accepted, take_credentials
from tests.embedded.playbooks.conftest import Bench, cell_of
from tests.embedded.playbooks.running import give, provide

STATE = "/etc/kubernetes/ca-rotation/state.yml"
# kubeadm is killed while it has certificates signed by the new CAs, some of which then are, and some are not
SIGNING = f'grep -q "^stage: sign" {STATE} 2>/dev/null && pidof kubeadm'
KILL = f"sudo systemd-run --quiet --collect sh -c 'until {SIGNING}; do sleep 0.02; done; kill -KILL $(pidof kubeadm)'"


def test_a_rotation_that_was_killed_goes_on_and_what_was_before_is_refused(bench: Bench) -> None:
    cell = cell_of("all-in-one")
    provide(bench, cell)
    bench.boot(cell)
    bench.play()
    api = Cluster.from_kubeconfig(bench.kubeconfig)
    former = take_credentials(api, bench.kubeconfig, Deadline.after(60))
    assert len(accepted(former, bench.kubeconfig)) == 3
    give(bench, cluster_ca_rotation="first")
    assert bench.on(0, KILL).returncode == 0
    killed = bench.attempt(entry="rotate-ca")
    assert killed.returncode == 2, killed.stdout[-3000:]
    assert "Have all certificates signed" in killed.stdout
    bench.play(entry="rotate-ca")
    assert accepted(former, bench.kubeconfig) == []
    assert {host.changed for host in bench.play(entry="rotate-ca")} == {0}
