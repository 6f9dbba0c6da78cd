"""Stock apiserver-network-proxy between the hub and the gateways: manifests of both sides.

The server stands next to Karmada and takes CONNECT from its components; an agent in each edge
cluster connects to it and dials the gateway there. Nobody authenticates at the server and an agent
dials whatever it reaches, so both are fenced by NetworkPolicies.
"""

from typing import Any

from karmada_vc_agent.access.agent_objects import pod_affinity
from karmada_vc_agent.model.objects import Object

SERVER, AGENT_OF_PROXY = "konnectivity-server", "konnectivity-agent"
KARMADA_NAMESPACE = "karmada-system"
CLIENTS = (
    "karmada-aggregated-apiserver",
    "karmada-controller-manager",
    "karmada-metrics-adapter",
    "karmada-search",
)
"""Values of label `app` of the parts of Karmada that reach member clusters."""
VERSION = "v0.34.0"
_FRONTEND, _AGENTS, _HEALTH, _ADMIN, _DNS = 8090, 8091, 8092, 8095, 53
_CERTIFICATES = "/etc/konnectivity"


def hub_objects() -> list[Object]:
    """Return what stands in the cluster that Karmada runs in."""
    args = [
        "--mode=http-connect",
        f"--server-port={_FRONTEND}",
        f"--server-cert={_CERTIFICATES}/tls.crt",
        f"--server-key={_CERTIFICATES}/tls.key",
        f"--agent-port={_AGENTS}",
        f"--cluster-cert={_CERTIFICATES}/tls.crt",
        f"--cluster-key={_CERTIFICATES}/tls.key",
        f"--cluster-ca-cert={_CERTIFICATES}/ca.crt",
        "--proxy-strategies=destHost",
        "--server-count=1",
        f"--health-port={_HEALTH}",
        f"--admin-port={_ADMIN}",
    ]
    ports = (("frontend", _FRONTEND), ("agents", _AGENTS))
    clients = {"matchExpressions": [{"key": "app", "operator": "In", "values": list(CLIENTS)}]}
    ingress = [
        {"from": [{"podSelector": clients}], "ports": [_tcp(_FRONTEND)]},
        {"ports": [_tcp(_AGENTS)]},
        {"ports": [_tcp(_HEALTH)]},
    ]
    return [
        _policy(SERVER, KARMADA_NAMESPACE, {"policyTypes": ["Ingress"], "ingress": ingress}),
        _service(SERVER, ports[:1]),
        # The server is ready once an agent is connected, which therefore must reach it before.
        _service(
            f"{SERVER}-agents",
            ports[1:],
            {"type": "LoadBalancer", "publishNotReadyAddresses": True},
        ),
        _deployment(SERVER, KARMADA_NAMESPACE, "proxy-server", args),
    ]


def host_objects(namespace: str, agent: str, gateway_port: int = 8443) -> list[Object]:
    """Return what stands beside a gateway. agent, namespace: the agent's name and namespace."""
    args = [
        "--proxy-server-host=$(PROXY_SERVER_HOST)",
        f"--proxy-server-port={_AGENTS}",
        f"--ca-cert={_CERTIFICATES}/ca.crt",
        f"--agent-cert={_CERTIFICATES}/tls.crt",
        f"--agent-key={_CERTIFICATES}/tls.key",
        "--agent-identifiers=host=$(GATEWAY_HOST)",
        f"--health-server-port={_HEALTH}",
        f"--admin-server-port={_ADMIN}",
    ]
    gateway = {"podSelector": {"matchLabels": {"app": f"{agent}-gateway"}}}
    egress = [
        {"to": [gateway], "ports": [_tcp(gateway_port)]},
        {"ports": [_tcp(_AGENTS)]},
        {"ports": [{"port": _DNS, "protocol": "UDP"}, _tcp(_DNS)]},
    ]
    fence = {
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [_tcp(_HEALTH)]}],
        "egress": egress,
    }
    made = _deployment(AGENT_OF_PROXY, namespace, "proxy-agent", args)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": AGENT_OF_PROXY}}]
    made["spec"]["template"]["spec"]["affinity"] = pod_affinity()
    return [_policy(AGENT_OF_PROXY, namespace, fence), made]


def _tcp(port: int) -> Object:
    return {"port": port, "protocol": "TCP"}


def _metadata(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace, "labels": {"app": name}}


def _policy(name: str, namespace: str, fence: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(name, namespace),
        "spec": {"podSelector": {"matchLabels": {"app": name}}, **fence},
    }


def _service(name: str, ports: tuple[tuple[str, int], ...], more: Object | None = None) -> Object:
    listed = [{"name": port, "port": number, "targetPort": number} for port, number in ports]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, KARMADA_NAMESPACE),
        "spec": {"type": "ClusterIP", **(more or {}), "selector": {"app": SERVER}, "ports": listed},
    }


def _deployment(name: str, namespace: str, program: str, args: list[str]) -> dict[str, Any]:
    labels = {"app": name}
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": program,
                "image": f"{program}:{VERSION}",
                "args": args,
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": _HEALTH}},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": _HEALTH}},
                "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "certificates", "mountPath": _CERTIFICATES, "readOnly": True}
                ],
            }
        ],
        "volumes": [{"name": "certificates", "secret": {"secretName": name}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, namespace),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
