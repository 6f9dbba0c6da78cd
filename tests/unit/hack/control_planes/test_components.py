"""Command lines of the control planes for tests."""

import re
from pathlib import Path

import pytest

from control_planes import access, component, host, hub, launch
from control_planes.component import Component, Ports
from control_planes.pki import ClusterPki, create_cluster_pki

PORTS = Ports(4001, 4002, 4003, 4004)
ALLOWED_KARMADA_FLAGS = {
    "kubeconfig",
    "metrics-bind-address",
    "health-probe-bind-address",
    "bind-address",
    "secure-port",
    "cert-dir",
    "tls-cert-file-name",
    "tls-private-key-file-name",
}


@pytest.fixture(name="pki", scope="module")
def make_pki(tmp_path_factory: pytest.TempPathFactory) -> ClusterPki:
    return create_cluster_pki(tmp_path_factory.mktemp("pki") / "hub", "hub")


@pytest.fixture(name="components", scope="module")
def describe_components(pki: ClusterPki) -> list[Component]:
    return [
        component.etcd(Path("data")),
        *hub.components(pki, 2379).values(),
        *access.components(pki, 2379).values(),
        access.proxy_agent(1, pki, 8091),
        access.proxy_agent(2, pki, 8091),
        *host.components("host", pki, 2379, Path("kwok")).values(),
        *host.components("host2", pki, 2379, Path("kwok")).values(),
    ]


def test_everything_listens_on_loopback_only(components: list[Component]) -> None:
    for one in components:
        placed = one.with_ports(PORTS)
        addresses = re.findall(
            r"(?:bind-address|listen-\S+-urls|server-address)=(\S+)", str(placed)
        )
        assert addresses, one.name
        for address in addresses:
            assert re.match(r"(http://)?127\.0\.0\.1\b|0'", address), f"{one.name}: {address}"


def test_ports_are_filled_in_everywhere(components: list[Component]) -> None:
    for one in components:
        placed = one.with_ports(PORTS)
        assert "{" not in " ".join([*placed.arguments, placed.health])
        assert f":{PORTS.health if one.has_low_ports else PORTS.main}/" in placed.health


def test_names_and_etcd_prefixes_are_unique(components: list[Component]) -> None:
    names = [one.name for one in components]
    prefixes = [text for one in components for text in one.arguments if "etcd-prefix" in text]

    assert len(set(names)) == len(names)
    assert len(set(prefixes)) == len(prefixes) == 5


@pytest.mark.parametrize(
    "name", ["karmada-webhook", "karmada-controller-manager", "karmada-scheduler"]
)
def test_karmada_keeps_its_defaults(pki: ClusterPki, name: str) -> None:
    arguments = hub.components(pki, 2379)[name].arguments
    flags = {argument.removeprefix("--").partition("=")[0] for argument in arguments}

    assert flags <= ALLOWED_KARMADA_FLAGS


def test_hosts_restrict_nodes_as_kubeadm_has_it(pki: ClusterPki) -> None:
    api_server = host.components("host", pki, 2379, Path("kwok"))["host-kube-apiserver"]
    assert "--authorization-mode=Node,RBAC" in api_server.arguments
    assert "--enable-admission-plugins=NodeRestriction" in api_server.arguments


def test_hosts_are_numbered_from_the_second() -> None:
    assert [host.host_name(number) for number in (1, 2, 3)] == ["host", "host2", "host3"]


def test_a_host_of_a_gateway_leads_to_one_agent_of_the_proxy() -> None:
    found = [address for number in range(1, 10) for address in access.addresses(number)]
    assert len(set(found)) == len(found)


def test_low_ports_are_free_and_below_those_of_outgoing_connections() -> None:
    ports = launch.low_ports(4)
    assert len(set(ports)) == 4
    assert all(1024 <= port <= 49151 for port in ports)
