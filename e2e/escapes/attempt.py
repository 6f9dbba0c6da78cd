"""One attempted escape: what is tried, and how its outcome is put into words."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ParamSpec

from e2e.lab.api import Api, ApiError, Object
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import STARTED_S, within
from e2e.lab.works import condition

P = ParamSpec("P")

DOMAIN = "virtualcluster.kubeedge.io"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
POD_CIDR = "198.51.100.0/24"
"""The setting `podCIDRs` of the scene."""
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([\w-]+)\.")
_CODE = re.compile(r"refused [^:]+: (\w+): ")


def serves_mutating_policies(host: Api) -> bool:
    """Return whether a host serves MutatingAdmissionPolicy, as from 1.36 on."""
    group = host.get("/apis/admissionregistration.k8s.io/v1")
    return any(each["kind"] == "MutatingAdmissionPolicy" for each in group["resources"])


@dataclass(frozen=True, slots=True)
class Scene:
    """Two branches that one agent serves.

    home: host namespace of `mine`, in which pods can be made. tenant: a ServiceAccount in it to
    which the host's own `cluster-admin` is bound there, more than any branch is ever given.
    """

    lab: Lab
    mine: Group
    theirs: Group
    home: str
    tenant: Api
    operator: Api
    tenancy: str = "Shared"

    @property
    def places(self) -> bool:
        """Whether the host adds missing selectors by MutatingAdmissionPolicy, as from 1.36 on."""
        return serves_mutating_policies(self.lab.host)

    @property
    def namespace(self) -> str:
        """Namespace of the hub that both branches have."""
        return self.lab.id


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the table in docs/isolation.md.

    act: tries it, and returns what became of it, seen on the servers. strict: the outcome in
    profile Strict, where it is another. placed: on a host that adds missing selectors.
    """

    title: str
    outcome: str
    act: Callable[[Scene], str]
    strict: str = ""
    placed: str = ""

    def expected(self, scene: Scene) -> str:
        """Return the outcome in the profile of a scene, on its host."""
        if self.placed and scene.places:
            return self.placed
        tenancy = scene.tenancy
        return self.strict or self.outcome if tenancy == "Strict" else self.outcome


def refused_by_rbac(error: ApiError) -> str:
    is_rbac = error.code == 403 and " cannot " in str(error)
    return "forbidden (403), no right" if is_rbac else f"another answer: {error}"


def refused_by_policy(error: ApiError) -> str:
    found = _POLICY.search(str(error))
    return f"refused (422) by `{found[1]}`" if found and error.code == 422 else str(error)


def refused_to_node(error: ApiError) -> str:
    """Say that plugin NodeRestriction refused it, or whatever else did."""
    is_plugin = error.code == 403 and " cannot " not in str(error) and "node" in str(error)
    return "forbidden (403) by NodeRestriction" if is_plugin else str(error)


def kubelet(scene: Scene, node: str) -> Api:
    """Return a client with what the certificate of a kubelet says: user and group."""
    return scene.lab.host.acting_as(f"system:node:{node}", "system:nodes")


def answer(
    says: Callable[[ApiError], str], act: Callable[P, object], *args: P.args, **named: P.kwargs
) -> str:
    """Return how a server answers to an act."""
    try:
        act(*args, **named)
    except ApiError as error:
        return says(error)
    return "done"


def all_alike(outcomes: Iterable[str]) -> str:
    """Return the one outcome of several attempts, or all of them."""
    return "; ".join(dict.fromkeys(outcomes))


def by_work(scene: Scene, *manifests: Object) -> str:
    """Send manifests in a Work; return the code of its refusal, or "applied"."""
    name = f"escape-{uuid.uuid4().hex[:6]}"
    work = scene.lab.create_work(scene.mine, name, *manifests)

    def look() -> Object:
        return condition(scene.lab.hub.get(work), "Applied")

    applied = within(STARTED_S, look)
    if applied["status"] == "True":
        return "applied"
    codes = _CODE.findall(applied["message"])
    if len(codes) != len(manifests):
        return str(applied["message"])
    return all_alike(f"refused, `{code}`" for code in codes)


@contextmanager
def unchanged(api: Api, path: str) -> Iterator[None]:
    """Fail where an object is not the same afterwards."""
    before = _without_version(api.get(path))
    yield
    assert _without_version(api.get(path)) == before


def _without_version(obj: Object) -> Object:
    for field in ("resourceVersion", "managedFields"):
        obj["metadata"].pop(field, None)
    return obj
