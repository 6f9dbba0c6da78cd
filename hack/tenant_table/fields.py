"""What tenants and nodes can write, found from the recording: resources, subresources, fields."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.translation.rbac_rules import admin_rules
from tenant_table.recording import base, load

REACHING = re.compile(
    r"name|node|^ip$|IP|ips|address|cidr|server|endpoint|portal|monitor|secret|ref|class|selector"
    r"|uid|path|port|domain|driver|pool|user|group|key|label|annotation|finalizer|priority"
    r"|privileg|default|audience|signer|param|attribute|provisioner|handler|controller|owner"
    r"|device|volume|ids?$|url|registry|gateway|repositor|rules|resources|verbs|host|nodeport"
    r"|adminaccess",
    re.IGNORECASE,
)
"""Of numbers and switches, those with such names need a row; texts, lists and maps all do. A row
says so of each by name, never of all fields of a type."""
_PLAIN = ("integer", "number", "boolean", "leaf")
_WRITES = {"create", "update", "patch", "connect"}


@dataclass(frozen=True, slots=True)
class Served:
    """A resource, or subresource, and who may write it."""

    name: str
    type: str
    writers: tuple[str, ...]


NODES: Mapping[str, tuple[str, ...]] = {
    "/nodes": ("create", "update", "patch"),
    "/nodes/status": ("update", "patch"),
    "/pods": ("create", "delete"),
    "/pods/status": ("update", "patch"),
    "/pods/eviction": ("create",),
    "/events": ("create", "update", "patch"),
    "/persistentvolumeclaims/status": ("update", "patch"),
    "/serviceaccounts/token": ("create",),
    "authentication.k8s.io/tokenreviews": ("create",),
    "authorization.k8s.io/localsubjectaccessreviews": ("create",),
    "authorization.k8s.io/subjectaccessreviews": ("create",),
    "certificates.k8s.io/certificatesigningrequests": ("create",),
    "certificates.k8s.io/podcertificaterequests": ("create",),
    "coordination.k8s.io/leases": ("create", "update", "patch", "delete"),
    "resource.k8s.io/resourceslices": ("create", "update", "patch", "delete"),
    "storage.k8s.io/csinodes": ("create", "update", "patch", "delete"),
}
"""What Kubernetes lets a node's credential write: the rules of `system:node` (1.34)."""
GATEWAY = ("/namespaces",)
"""What tenants write by the gateway alone."""


@cache
def recorded() -> dict[str, Any]:
    """Return the recording."""
    return load()


def granted(name: str, *, is_strict: bool = False) -> set[str]:
    """Return the verbs on a resource of `virtual-cluster-admin`, which contains all other roles."""
    return _granted(is_strict).get(name, set())


@cache
def _granted(is_strict: bool) -> Mapping[str, set[str]]:  # noqa: FBT001 - cached
    served = recorded()["resources"]
    namespaced = [tuple(name.split("/", 1)) for name, row in served.items() if row["namespaced"]]
    return {
        f"{rule['apiGroups'][0]}/{resource}": set(rule["verbs"])
        for rule in admin_rules([(group, each) for group, each in namespaced], is_strict=is_strict)
        for resource in rule["resources"]
    }


def of_works(name: str) -> Policy:
    """Return what the agent does with Works that contain a resource."""
    row = recorded()["resources"][name]
    group, plural = name.split("/", 1)
    if "/" in plural:
        return Policy.REFUSE
    kind = GroupVersionKind(group, "v1", row["type"].rpartition(".")[2])
    return policy_for(kind, namespaced=row["namespaced"])


@cache
def written() -> tuple[Served, ...]:
    """Return what somebody other than the host itself may write."""
    found = []
    for name, row in recorded()["resources"].items():
        tenants = granted(name) & _WRITES or ("connect" in row["verbs"] and granted(name))
        who = {
            "Works": of_works(name) is not Policy.REFUSE,
            "tenants": bool(tenants),
            "gateway": name in GATEWAY,
            "nodes": name in NODES,
        }
        if any(who.values()):
            writers = tuple(each for each, may in who.items() if may)
            found.append(Served(name, row["type"], writers))
    return tuple(found)


def fields_of(root: str) -> Iterator[tuple[str, str]]:
    """Yield (`Type.field`, its type) of all that lies in a type and may need a row.

    What is under `status` has the row of the subresource by which it is written.
    """
    types, seen, waiting = recorded()["types"], set(), [root]
    while waiting:
        name = base(waiting.pop())
        if name in seen or name not in types:
            continue
        seen.add(name)
        for field, kind in types[name].items():
            if name == root and field in ("status", "apiVersion", "kind"):
                continue
            if base(kind) in types:
                waiting.append(kind)
            elif kind not in _PLAIN or REACHING.search(field):
                yield f"{name.rpartition('.')[2]}.{field}", kind


@cache
def fields() -> frozenset[str]:
    """Return `Type.field` of all that tenants, Works and nodes may write and that needs a row."""
    return frozenset(field for each in written() for field, _ in fields_of(each.type))
