"""The Pods of the agent and of its gateway: what both have, and what each adds."""

from dataclasses import dataclass

from karmada_vc_agent.access.agent_nodes import OffGroups
from karmada_vc_agent.model.objects import Object

HEALTH_PORT_NAME = "health"
MEMORY_REQUEST, MEMORY_LIMIT = "128Mi", "512Mi"
"""Measured (docs/performance.md, "What to request"): what 100 virtual clusters take at rest, and

above what two take at most that fill all their bounds at once (ADR 68).
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program in a Pod of its own.

    account: ServiceAccount. labels: of the Pod. ports: name -> number, with that of its health.
    mounts: (volume, path), read only. volumes: what is mounted. off_groups: requirements that keep
    the Pod off the nodes of virtual clusters: who has such a node would have its tokens.
    """

    name: str
    account: str
    image: str
    args: list[str]
    labels: dict[str, str]
    ports: dict[str, int]
    mounts: list[tuple[str, str]]
    volumes: list[Object]
    off_groups: OffGroups
    env: tuple[Object, ...] = ()


def pod_spec(program: Program) -> Object:
    """Return the spec of its Pods."""
    return {
        "serviceAccountName": program.account,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": program.off_groups.affinity(),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": program.labels},
            }
        ],
        "containers": [_container(program)],
        "volumes": [*program.volumes, {"name": "tmp", "emptyDir": {"medium": "Memory"}}],
    }


def _container(program: Program) -> Object:
    mounts: list[Object] = [
        {"name": name, "mountPath": path, "readOnly": True} for name, path in program.mounts
    ]
    mounts.append({"name": "tmp", "mountPath": "/tmp"})  # noqa: S108 - inside the container
    ports = [{"name": name, "containerPort": port} for name, port in program.ports.items()]
    return {
        "name": program.name,
        "image": program.image,
        "args": program.args,
        **({"env": list(program.env)} if program.env else {}),
        "ports": ports,
        **_probes(program.ports[HEALTH_PORT_NAME]),
        "resources": {
            "requests": {"cpu": "50m", "memory": MEMORY_REQUEST},
            "limits": {"memory": MEMORY_LIMIT},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probes(port: int) -> Object:
    return {
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": port},
            "initialDelaySeconds": 15,
            "periodSeconds": 15,
            "timeoutSeconds": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}, "periodSeconds": 10},
    }
