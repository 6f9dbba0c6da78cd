"""What a component is, and the command lines that hub and hosts have in common."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from control_planes.pki import ClusterPki

PORT, PEER_PORT = "{port}", "{peer_port}"
HEALTH_PORT, ADMIN_PORT = "{health_port}", "{admin_port}"
LOOPBACK = "127.0.0.1"
TLS_HEALTH = f"https://{LOOPBACK}:{PORT}"
PLAIN_HEALTH = f"http://{LOOPBACK}:{PORT}"
PLAIN_HEALTH_APART = f"http://{LOOPBACK}:{HEALTH_PORT}"
# What all servers of one set share; any private range will do, nothing is routed.
SERVICE_RANGE = "10.96.0.0/16"


class Ports(NamedTuple):
    """Ports of a component, chosen at its start."""

    main: int
    peer: int
    health: int
    admin: int


@dataclass(frozen=True, slots=True)
class Component:
    """A program with its command line.

    arguments, health: {port}, {peer_port}, {health_port} and {admin_port} stand for ports that are
    chosen at the start. ca: file with the authority of an https health URL. has_low_ports: it
    refuses those that systems give out by themselves. panics: it is known to, and is started
    again then, as a kubelet would.
    """

    name: str
    program: str
    arguments: tuple[str, ...]
    health: str
    ca: str = ""
    has_low_ports: bool = False
    panics: bool = False

    def with_ports(self, ports: Ports) -> "Component":
        """Return the component with real ports in place."""

        def fill(text: str) -> str:
            for placeholder, port in zip(_PLACEHOLDERS, ports, strict=True):
                text = text.replace(placeholder, str(port))
            return text

        arguments = tuple(fill(argument) for argument in self.arguments)
        return replace(self, arguments=arguments, health=fill(self.health))


_PLACEHOLDERS = (PORT, PEER_PORT, HEALTH_PORT, ADMIN_PORT)


def etcd(data: Path) -> Component:
    """Describe the one etcd of a set; each API server has a key prefix of its own in it."""
    client, peer = f"http://{LOOPBACK}:{PORT}", f"http://{LOOPBACK}:{PEER_PORT}"
    return Component(
        "etcd",
        "etcd",
        (
            f"--data-dir={data / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--snapshot-count=10000",
            f"--quota-backend-bytes={8 * 2**30}",
            "--log-level=warn",
        ),
        f"{client}/health",
    )


def kine(cluster: str, data: Path) -> Component:
    """Describe a datastore of one host on SQLite, as K3s has it."""
    options = "_journal_mode=WAL&_synchronous=OFF&_busy_timeout=30000&_txlock=immediate"
    return Component(
        f"{cluster}-kine",
        "kine",
        (
            f"--endpoint=sqlite://{data / f'{cluster}.db'}?{options}&cache=shared",
            f"--listen-address=http://{LOOPBACK}:{PORT}",
            f"--metrics-bind-address={LOOPBACK}:{HEALTH_PORT}",
        ),
        f"{PLAIN_HEALTH_APART}/metrics",
    )


def api_server(cluster: str, pki: ClusterPki, etcd_port: int, *extra: str) -> Component:
    return Component(
        f"{cluster}-kube-apiserver",
        "kube-apiserver",
        (
            f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
            f"--etcd-prefix=/{cluster}",
            *serving(pki),
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",
            f"--client-ca-file={pki.ca}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.file('service-account.pub')}",
            f"--service-account-signing-key-file={pki.file('service-account.key')}",
            f"--requestheader-client-ca-file={pki.file('front-proxy-ca.crt')}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={pki.file('front-proxy-client.crt')}",
            f"--proxy-client-key-file={pki.file('front-proxy-client.key')}",
            *extra,
        ),
        f"{TLS_HEALTH}/readyz",
        str(pki.ca),
    )


def controller_manager(cluster: str, pki: ClusterPki, controllers: str, *extra: str) -> Component:
    name = f"{cluster}-kube-controller-manager"
    return Component(
        name,
        "kube-controller-manager",
        (
            f"--controllers={controllers}",
            *client_of_api_server(pki, name),
            *serving(pki),
            "--leader-elect=false",
            f"--cluster-signing-cert-file={pki.ca}",
            f"--cluster-signing-key-file={pki.file('ca.key')}",
            f"--root-ca-file={pki.ca}",
            f"--service-account-private-key-file={pki.file('service-account.key')}",
            "--use-service-account-credentials=true",
            # By default 20 requests a second: 1,000 new nodes keep their taints for two minutes.
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            *extra,
        ),
        f"{TLS_HEALTH}/healthz",
        str(pki.ca),
    )


def serving(pki: ClusterPki) -> tuple[str, ...]:
    """Return the flags of every Kubernetes server: on loopback, with the cluster's certificate."""
    return (
        f"--bind-address={LOOPBACK}",
        f"--secure-port={PORT}",
        f"--tls-cert-file={pki.file('server.crt')}",
        f"--tls-private-key-file={pki.file('server.key')}",
    )


def client_of_api_server(pki: ClusterPki, component: str) -> tuple[str, ...]:
    """Return the flags of a server that asks its API server who its own callers are."""
    kubeconfig = component_kubeconfig(pki, component)
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    )


def aggregated(name: str, pki: ClusterPki, etcd_port: int, health: str) -> Component:
    """Describe an aggregated API server with a part of etcd. health: a path."""
    storage = (f"--etcd-servers=http://{LOOPBACK}:{etcd_port}", f"--etcd-prefix=/{name}")
    flags = (*client_of_api_server(pki, name), *storage, *serving(pki))
    return Component(name, name, flags, f"{TLS_HEALTH}/{health}", str(pki.ca))


def component_kubeconfig(pki: ClusterPki, component: str) -> Path:
    return pki.directory / f"{component}.kubeconfig"
