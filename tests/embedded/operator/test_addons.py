"""Add-ons with manifests: applied, pruned and put back in a guest, for which a real API server stands."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from harness.kube.applyset import ID, KINDS, PART_OF
from harness.kube.client import Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.objects import condition, deleting, dig
from harness.kube.resources import CONFIG_MAP, CRD, DEPLOYMENT, NAMESPACE, SECRET, SERVICE
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.controllers import addons
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.addon_guest import PlayedGuest, config, service, web
from tests.embedded.operator.conftest import StartManager, fresh_namespace
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.recorded import RecordedCluster
from tests.embedded.operator.world import OPTIONS

SYSTEM = "kube-system"


@pytest.fixture
def guest(
    infra: EmbeddedProvider, declared: Declared, api: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PlayedGuest]:
    """Return a guest whose kubeconfig is there, and which is looked at often."""
    monkeypatch.setattr(addons, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(addons, "SOON_SECONDS", 0.1)
    content = base64.b64encode(infra.kubeconfig().read_bytes()).decode()
    declared.api.create(
        SECRET, SECRET.manifest("one-kubeconfig", declared.namespace, labels={}, data={"value": content})
    )
    with fresh_namespace(api, {}) as space:
        made = PlayedGuest(declared, api, space)
        yield made
        api.delete(CONFIG_MAP, made.parent, SYSTEM)


@pytest.fixture
def kept(guest: PlayedGuest, manager: StartManager) -> PlayedGuest:
    """Return a guest in which a Deployment, a Service and a ConfigMap are kept."""
    guest.give(web("shop"), service("shop"), config("shop", colour="red"))
    guest.declare(guest.entry())
    manager("addons")
    guest.told("Ready")
    return guest


def wait(probe: Callable[[], bool | NotYet], what: str) -> None:
    """Wait until a probe is content."""
    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)


def no_entry(guest: PlayedGuest) -> None:
    """Wait until nothing is told of the add-on any more."""
    wait(lambda: not guest.state() or NotYet(f"it says {guest.state()}"), "no entry")


def is_another(uid: str, obj: Json) -> bool:
    """Tell whether an object is not the one that was there."""
    return bool(obj["metadata"]["uid"] != uid) and not deleting(obj)


def parent(guest: PlayedGuest) -> Json:
    found = guest.api.get(CONFIG_MAP, guest.parent, SYSTEM)
    assert found is not None
    return found


def test_manifests_are_applied_as_one_set_and_told(kept: PlayedGuest) -> None:
    own = labels_of(parent(kept))[ID]
    for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP):
        found = kept.seen(kind, "shop")
        assert labels_of(found)[PART_OF] == own
        managers = {(m["manager"], m["operation"]) for m in found["metadata"]["managedFields"]}
        assert (f"vmatrix-addon-{kept.addon}", "Apply") in managers
    assert parent(kept)["metadata"]["annotations"][KINDS] == "ConfigMap,Deployment.apps,Service"
    told = kept.state()
    assert (told["objects"], told["ready"]) == (3, True)


def test_keys_count_in_their_order_and_others_do_not(guest: PlayedGuest, manager: StartManager) -> None:
    second, first = (yaml.safe_dump(guest.within(config(name, a="b"))) for name in ("second", "first"))
    guest.give(b_yaml=second, a_yml=first, notes_txt="no YAML: [")
    guest.declare(guest.entry())
    manager("addons")
    assert guest.told("Ready")["objects"] == 2
    a, b = (guest.seen(CONFIG_MAP, name) for name in ("first", "second"))
    assert int(a["metadata"]["resourceVersion"]) < int(b["metadata"]["resourceVersion"])


def test_what_is_deleted_or_changed_by_hand_is_put_back(kept: PlayedGuest) -> None:
    for kind in (DEPLOYMENT, SERVICE):
        old = kept.seen(kind, "shop")["metadata"]["uid"]
        kept.api.delete(kind, "shop", kept.space)
        kept.seen(kind, "shop", partial(is_another, old))
    kept.api.merge(CONFIG_MAP, "shop", {"data": {"colour": "blue", "mine": "stays"}}, kept.space)
    found = kept.seen(CONFIG_MAP, "shop", lambda one: one["data"]["colour"] == "red")
    assert found["data"]["mine"] == "stays"
    kept.api.merge(CONFIG_MAP, "shop", {"metadata": {"labels": {PART_OF: None}}, "data": {"colour": "x"}}, kept.space)
    kept.seen(CONFIG_MAP, "shop", lambda one: one["data"]["colour"] == "red" and PART_OF in labels_of(one))

    def told() -> bool | NotYet:
        said = kept.api.events_of(kept.declared.namespace, "one")
        mine = [line for line in said if "AddonRepaired" in line]
        return any('.data.colour: conflict with "' in line for line in mine) or NotYet(f"there are {said}")

    wait(told, "who changed it")


def test_nothing_is_written_while_nothing_differs(
    guest: PlayedGuest, manager: StartManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RecordedCluster] = []

    def opened(path: Path) -> RecordedCluster:
        asked.append(RecordedCluster.open(path))
        return asked[-1]

    monkeypatch.setattr(Cluster, "from_kubeconfig", staticmethod(opened))
    guest.give(web("shop"), service("shop"))
    guest.declare(guest.entry())
    client = manager("addons").cluster
    assert isinstance(client, RecordedCluster)
    guest.told("Ready")
    guest.seen(DEPLOYMENT, "shop", lambda one: "deployment.kubernetes.io/revision" in one["metadata"]["annotations"])

    def looks(count: int) -> int:
        """Wait for so many more looks; return how many there are then."""
        wanted = len(asked) + count

        def enough() -> bool | NotYet:
            return len(asked) >= wanted or NotYet(f"{len(asked)} looks")

        wait(enough, "looks")
        return len(asked)

    begin, written = looks(3), len(client.writes())
    end = looks(3)
    assert [request for one in asked[begin : end - 1] for request in one.writes()] == []
    assert len(client.writes()) == written


def test_what_left_the_manifests_goes_and_nothing_else(kept: PlayedGuest) -> None:
    kept.api.create(CONFIG_MAP, kept.within(config("others", a="b")))
    kept.give(web("shop"))
    kept.gone(SERVICE, "shop")
    kept.gone(CONFIG_MAP, "shop")
    kept.told("Ready")
    wait(
        lambda: parent(kept)["metadata"]["annotations"][KINDS] == "Deployment.apps" or NotYet("older kinds"),
        "the kinds of the set",
    )
    assert kept.get(CONFIG_MAP, "others") is not None
    kept.edit()
    kept.gone(DEPLOYMENT, "shop")
    no_entry(kept)
    assert kept.api.get(CONFIG_MAP, kept.parent, SYSTEM) is None
    assert kept.get(CONFIG_MAP, "others") is not None


def test_an_add_on_that_was_removed_while_no_manager_ran_goes(
    guest: PlayedGuest, manager: StartManager, infra: EmbeddedProvider
) -> None:
    guest.give(service("shop"))
    guest.declare(guest.entry())
    first = manager("addons")
    guest.told("Ready")
    for controller in first.controllers:
        controller.stop()
        assert controller.join(WAIT_SECONDS)
    guest.edit()
    manager("addons")
    guest.gone(SERVICE, "shop")


def test_definitions_and_namespaces_come_first_and_go_last(guest: PlayedGuest, manager: StartManager) -> None:
    word = guest.addon.replace("-", "")
    names = {"kind": word.capitalize(), "plural": f"{word}s", "singular": word}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "shop.example", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": {"name": f"{word}s.shop.example"}, "spec": spec}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": word}}
    own = {"apiVersion": "shop.example/v1", "kind": names["kind"], "metadata": {"name": "a", "namespace": word}}
    guest.give(all_yml=yaml.safe_dump_all([own, space, crd]))
    guest.declare(guest.entry())
    manager("addons")
    assert guest.told("Ready")["objects"] == 3
    guest.edit()
    guest.gone(CRD, f"{word}s.shop.example")
    guest.gone(NAMESPACE, word)


def test_a_namespace_that_others_made_or_need_stays(guest: PlayedGuest, manager: StartManager) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": guest.space}}
    guest.give(all_yml=yaml.safe_dump_all([space, guest.within(config("a", b="c"))]))
    guest.declare(guest.entry())
    manager("addons")
    guest.told("Ready")
    guest.edit()
    guest.gone(CONFIG_MAP, "a")
    no_entry(guest)
    assert not deleting(guest.api.get(NAMESPACE, guest.space) or {"metadata": {"deletionTimestamp": "gone"}})


BAD: dict[str, tuple[Json, str]] = {
    "no namespace": ({"metadata": {"namespace": "nowhere"}}, 'namespaces "nowhere" not found'),
    "invalid": ({"spec": {"ports": [{"port": 99999}]}}, "Service"),
    "unknown kind": (
        {"kind": "Shop", "apiVersion": "shop.example/v9"},
        "the cluster does not serve shop.example/v9 Shop",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_applied_is_told_by_name(guest: PlayedGuest, manager: StartManager, case: str) -> None:
    changes, words = BAD[case]
    bad = service("bad")
    bad = {**bad, **changes, "metadata": {**bad["metadata"], **changes.get("metadata", {})}}
    guest.give(config("good", a="b"), bad)
    guest.declare(guest.entry())
    manager("addons")
    told = guest.told("NotApplied", words)
    assert "bad: " in told["message"]
    assert "digest" not in told
    guest.seen(CONFIG_MAP, "good")
    guest.give(config("good", a="b"))
    guest.told("Ready")


def test_what_another_tool_holds_is_not_taken(guest: PlayedGuest, manager: StartManager) -> None:
    theirs = guest.within(config("shop", colour="green"))
    guest.api.apply(CONFIG_MAP, theirs, manager="helm")
    guest.give(config("shop", colour="red"))
    guest.declare(guest.entry())
    manager("addons")
    told = guest.told("NotApplied", 'conflict with "helm"')
    assert f"ConfigMap {guest.space}/shop" in told["message"]
    assert ".data.colour" in told["message"]
    assert guest.seen(CONFIG_MAP, "shop")["data"] == {"colour": "green"}


def test_manifests_that_cannot_be_read_change_nothing(kept: PlayedGuest) -> None:
    kept.give(all_yml="a: [")
    kept.told("NoManifests", "ConfigMap shop, all.yml:1: malformed YAML")
    kept.give(notes_txt="x")
    kept.told("NoManifests", "ConfigMap shop has no key that ends with .yml or .yaml")
    kept.api.delete(CONFIG_MAP, "shop", kept.declared.namespace)
    kept.told("NoManifests", f"spec.addons[{kept.addon}].manifests: there is no ConfigMap shop")
    assert all(kept.get(kind, "shop") is not None for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return a folder and the URL under which its files are served."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_file_is_applied_only_if_it_is_the_one_that_was_meant(
    guest: PlayedGuest, manager: StartManager, site: tuple[Path, str]
) -> None:
    folder, url = site
    text = yaml.safe_dump(guest.within(config("shop", a="b")))
    (folder / "shop.yml").write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    guest.declare(guest.entry(url=f"{url}/shop.yml", sha256="0" * 64))
    manager("addons")
    guest.told("NoManifests", f"wrong checksum: expected sha256:{'0' * 64}, got sha256:{sha256}")
    assert guest.get(CONFIG_MAP, "shop") is None
    guest.edit(guest.entry(url=f"{url}/shop.yml", sha256=sha256))
    guest.told("Ready")
    guest.seen(CONFIG_MAP, "shop")


def test_the_condition_waits_for_rollouts_and_says_which(guest: PlayedGuest, manager: StartManager) -> None:
    guest.give(web("shop", replicas=1))
    guest.declare(guest.entry(), deletion={"machines": "Leave"})  # its Cluster keeps the owner that it was made with
    manager("addons", "clusterdeployment", options=OPTIONS)

    def said(status: str, words: str) -> None:
        def look() -> bool | NotYet:
            one = condition(guest.declared.get("one", CLUSTER_DEPLOYMENT), "AddonsReady") or {}
            return (one.get("status") == status and words in one["message"]) or NotYet(f"it is {one}")

        wait(look, f"AddonsReady={status}: {words}")

    said("False", f"{guest.addon}: Deployment {guest.space}/shop: 0 of 1 are available")
    guest.give(web("shop"))
    said("True", "")


def test_guests_are_left_alone_during_operations_and_with_no_cluster(guest: PlayedGuest, manager: StartManager) -> None:
    guest.give(config("shop", a="b"))
    guest.declare(guest.entry())
    guest.declared.works("one", "upgrade", "m-0")
    context = manager("addons")
    queue = context.controllers[0]

    def idle() -> bool | NotYet:
        return (queue.reconciles > 0 and not len(queue.queue)) or NotYet("it was not looked at")

    wait(idle, "a look")
    assert guest.state() == {}
    guest.declared.worked("one", "upgrade", "m-0")
    guest.told("Ready")
    guest.declared.worked("one", "reset")
    no_entry(guest)


def test_a_deletion_waits_for_no_add_on(kept: PlayedGuest) -> None:
    kept.api.delete(SECRET, "one-kubeconfig", kept.declared.namespace)
    kept.told("Unreachable", "there is no Secret one-kubeconfig")
    kept.api.delete(CLUSTER_DEPLOYMENT, "one", kept.declared.namespace)
    kept.declared.gone("one", CLUSTER_DEPLOYMENT)


def test_a_built_in_add_on_of_which_something_is_gone_is_told(guest: PlayedGuest, manager: StartManager) -> None:
    guest.declare({"name": "metrics-server"})
    made = {"applied": {"digest": "d", "variables": {"cluster_metrics_server_version": "0.9.0"}}, "sequence": 3}
    guest.api.merge(CLUSTER, "one", {"status": made}, guest.declared.namespace, subresource="status")
    manager("addons")
    told = guest.told("Missing", "Deployment kube-system/metrics-server", "metrics-server")
    assert (told["ready"], told["sequence"]) == (False, 3)
    assert dig(guest.declared.get("one", CLUSTER), "status", "addons") == [told]
