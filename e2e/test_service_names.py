"""Names of template namespaces resolve to the Services of the own virtual cluster.

CoreDNS is real and reads the real host; only what the kubelet does is done here: it hands the
ConfigMap over as a file, and a pod's DNS settings to the pod's resolver.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.dns import CoreDns
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within


@pytest.fixture
def dns(request: pytest.FixtureRequest, tmp_path: Path, lab: Lab) -> Iterator[CoreDns]:
    path = request.config.getoption("--coredns")
    if not path:
        pytest.skip("no CoreDNS: give its program with --coredns")
    dns = CoreDns(Path(path).absolute(), tmp_path / "dns", lab.host.kubeconfig)
    try:
        yield dns
    finally:
        dns.stop()


@pytest.mark.smoke
def test_each_virtual_cluster_resolves_to_its_own_services(lab: Lab, dns: CoreDns) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    _serve(
        lab,
        group_a.settings(serviceNames="SearchDomain"),
        group_b.settings(serviceNames="SearchDomain"),
    )
    shop, client = lab.namespace("-shop"), lab.namespace("-client")
    odd = lab.namespace("-v-odd")  # its host namespace has a name with a hash
    web, odd_web = objects.service(shop), objects.service(odd)
    app = objects.deployment(client)
    for templates in ([web], [odd_web], [app]):
        lab.propagate(templates, group_a, group_b)
    for group in (group_a, group_b):
        pod = _pod_spec(lab, app, group)
        own = _address(lab, shop, group)
        assert f"{shop}-v-" in group.host_namespace(shop)
        for name in (f"web.{shop}", f"web.{shop}.svc", f"web.{shop}.svc.cluster.local"):
            within(THROUGH_HUB_S, _resolves, lab, dns, name, (pod, client, group), own)
        within(
            THROUGH_HUB_S,
            _resolves,
            lab,
            dns,
            f"web.{odd}",
            (pod, client, group),
            _address(lab, odd, group),
        )
        assert dns.resolve("nothing.at-all", pod, group.host_namespace(client)) is None
    assert _address(lab, shop, group_a) != _address(lab, shop, group_b)


@pytest.mark.parametrize("mode", ["SearchDomain", "VirtualFirst"])
def test_host_namespace_of_the_same_name(lab: Lab, dns: CoreDns, mode: str) -> None:
    group = lab.group("a")
    # First: an agent for the whole host, of another story, brings each namespace of the hub there.
    lab.host.create(objects.namespace(f"{lab.id}-shop"))
    _serve(lab, group.settings(serviceNames=mode), clusterDNS=["127.0.0.1"])
    shop, client = lab.namespace("-shop"), lab.namespace("-client")
    app = objects.deployment(client)
    lab.propagate([objects.service(shop)], group)
    lab.propagate([app], group)
    pod = _pod_spec(lab, app, group)
    own = _address(lab, shop, group)
    try:
        foreign = lab.host.create(objects.service(shop))["spec"]["clusterIP"]
        full = f"web.{shop}.svc.cluster.local"
        # The whole name without a dot at its end goes through the search list first.
        within(THROUGH_HUB_S, _resolves, lab, dns, full, (pod, client, group), own)
        within(THROUGH_HUB_S, _resolves, lab, dns, f"{full}.", (pod, client, group), foreign)
        short = own if mode == "VirtualFirst" else foreign
        within(THROUGH_HUB_S, _resolves, lab, dns, f"web.{shop}", (pod, client, group), short)
        api = lab.host.get("/api/v1/namespaces/default/services/kubernetes")["spec"]["clusterIP"]
        within(THROUGH_HUB_S, _resolves, lab, dns, "kubernetes.default", (pod, client, group), api)
    finally:
        lab.host.delete(f"/api/v1/namespaces/{shop}")


def _serve(lab: Lab, *entries: Object, **settings: list[str]) -> None:
    lab.serve(*entries, dnsNamespace=f"{lab.id}-agent", **settings)


def _resolves(
    lab: Lab, dns: CoreDns, name: str, who: tuple[Object, str, Group], expected: str
) -> None:
    dns.take_over(
        lab.host.get(f"/api/v1/namespaces/{lab.id}-agent/configmaps/{lab.id}-service-names")
    )
    pod, namespace, group = who
    found = dns.resolve(name, pod, group.host_namespace(namespace))
    assert found == expected, f"{name} in {group.name}: {found}, not {expected}"


def _address(lab: Lab, namespace: str, group: Group) -> str:
    """Return the address of Service `web` of a virtual namespace."""
    claim = "virtualcluster.kubeedge.io"
    selector = f"{claim}/cluster={group.name},{claim}/namespace={namespace}"

    def look() -> str:
        found = lab.host.list(collection("v1", "Service"), selector)
        assert len(found) == 1
        (service,) = found
        return str(service["spec"]["clusterIP"])

    return within(THROUGH_HUB_S, look)


def _pod_spec(lab: Lab, app: Object, group: Group) -> Object:
    """Return the spec of a real pod of a Deployment."""

    def look() -> Object:
        pods = lab.pods(group.host_namespace(app["metadata"]["namespace"]))
        assert pods
        spec: Object = pods[0]["spec"]
        return spec

    return within(THROUGH_HUB_S, look)
