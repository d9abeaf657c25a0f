"""Where the cell has an ingress controller, who is outside of the cluster gets at every node what Ingresses say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.commands import on_machine
from harness.validate.conformance.curated import AGNHOST
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, NotRun, eventually, require
from harness.validate.inspection import Inspection
from harness.validate.topics import ingress
from harness.validate.topics.ingress import (
    EMPTY,
    FIRST,
    HOSTS,
    IDLE,
    PATHS,
    RED,
    Page,
    Pages,
    PublishedIngresses,
    get_page,
)
from harness.validate.variables import TRAEFIK, asked_for

pytestmark = pytest.mark.when(phase=asked_for(TRAEFIK))
LOGS = "kubectl --kubeconfig kubeconfig -n traefik logs daemonset/traefik"
SERVED = (
    "Traefik's log on that node; the Ingresses of namespace vmatrix-ingress; iptables-save -t nat or nft list ruleset"
)
UNREACHED = "this process reaches machines through the infra cluster's API alone, and not their network"
DEFAULT_CLASS = "cluster_ingress_default_class"


@pytest.fixture(scope="module")
def ask(inspection: Inspection, timeouts: Timeouts) -> ingress.Ask:
    """Return what asks as a browser outside of the cluster: this process."""
    if any(machine.tunnels is not None for machine in inspection.guest.environment.machines):
        raise NotRun(UNREACHED)
    return partial(get_page, seconds=timeouts.probe_proxy)


@pytest.fixture(scope="module")
def published(
    inspection: Inspection, mirror: Mirror, timeouts: Timeouts, ask: ingress.Ask
) -> Iterator[PublishedIngresses]:
    """Return Ingresses and what is behind them, which are there for the checks of this module."""
    image = inspection.probe_image(AGNHOST, mirror.images)
    try:
        yield ingress.place(inspection.api, inspection.expected.nodes, image, timeouts)
    finally:
        ingress.remove(inspection.api, Deadline.after(timeouts.probe_remove))


def nodes(expected: ExpectedGuest) -> dict[str, str]:
    """Return the addresses of the nodes by name."""
    return {name: expected.addresses[name] for name in expected.nodes}


def become(pages: Pages, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts) -> list[Mismatch]:
    """Wait for pages to be what they must be; return those that are not."""
    return eventually(
        lambda: ingress.misrouted(pages, nodes(expected), ask),
        deadline=Deadline.after(timeouts.probe_follow),
        what="every node to serve the Ingresses",
    )


def test_every_node_serves_each_host_from_its_backend(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    require(
        become(ingress.HOST_PAGES, expected, ask, timeouts),
        claim="every node answers for each host of an Ingress from the backend of its rule, and for others with 404",
        look=SERVED,
        do=LOGS,
    )


def test_paths_lead_to_the_backend_of_the_rule_that_fits_best(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    require(
        become(ingress.PATH_PAGES, expected, ask, timeouts),
        claim="of type Prefix, a path is followed by elements, and the longest counts; of type Exact, by nothing",
        look="--providers.kubernetesingress.strictprefixmatching of Traefik; the rules of the Ingress paths",
        do=LOGS,
    )


def test_tls_shows_the_certificate_in_the_secret_of_the_host(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    def judge() -> list[Mismatch]:
        shown = ingress.foreign_certificates(published.certificates, nodes(expected), ask)
        return shown or ingress.misrouted(ingress.SECURE_PAGES, nodes(expected), ask)

    for renewed in (False, True):
        if renewed:
            published.certify(FIRST)
        require(
            eventually(judge, deadline=Deadline.after(timeouts.probe_follow), what="every node to show certificates"),
            claim=f"every node shows the certificate in the Secret of the host{' once it is renewed' * renewed}",
            look="Traefik's log; what of the Secret it may read: kubectl get clusterrole traefik -o yaml",
            do=on_machine(expected, f"openssl s_client -connect ADDRESS:443 -servername {FIRST} </dev/null"),
        )


def test_a_service_without_endpoints_is_unavailable_until_it_has_one(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    page = Page(EMPTY, "/")
    for pod, pages in ((IDLE, ingress.EMPTY_PAGES), (RED, {page: RED}), (IDLE, ingress.EMPTY_PAGES)):
        published.stand_behind(IDLE, pod)
        require(
            become(pages, expected, ask, timeouts),
            claim="a host whose Service has no endpoints is answered with 503, and from a pod once there is one",
            look="the EndpointSlices of the Service; --providers.kubernetesingress.allowemptyservices of Traefik",
            do=LOGS,
        )


def test_an_ingress_is_served_if_its_class_is_the_controllers(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    default = bool(expected.variables.get(DEFAULT_CLASS, True))
    require(
        become(ingress.class_pages(default=default), expected, ask, timeouts),
        claim="an Ingress of another class is not served; one of none is if Traefik's class is the default",
        look="the annotation is-default-class of the IngressClasses; the arguments of Traefik",
        do="kubectl --kubeconfig kubeconfig get ingressclasses -o yaml",
    )


def test_the_status_of_an_ingress_shows_where_it_is_served(
    published: PublishedIngresses, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    served = {HOSTS.name: Page(FIRST, "/"), "paths": Page(PATHS, "/docs"), "empty": Page(EMPTY, "/")}
    require(
        eventually(
            lambda: ingress.wrong_statuses(published.addresses(), served, ["foreign"], ask),
            deadline=Deadline.after(timeouts.probe_follow),
            what="Traefik to write addresses into Ingresses",
        ),
        claim="the status of each Ingress that is served has an address at which it is served, and no other has one",
        look="Traefik's log; may it update ingresses/status: kubectl get clusterrole traefik -o yaml",
        do=LOGS,
    )


def test_a_rule_that_changes_and_one_that_goes_is_followed(
    published: PublishedIngresses, expected: ExpectedGuest, ask: ingress.Ask, timeouts: Timeouts
) -> None:
    for what, given, pages in ingress.CHANGES:
        if given is None:
            published.take(HOSTS.name)
        else:
            published.give(given)
        require(
            become(pages, expected, ask, timeouts),
            claim=f"every node does what Ingresses say once {what}",
            look=SERVED,
            do=LOGS,
        )
