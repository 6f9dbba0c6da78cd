"""The roles that RoleBindings name: none too strong, and none needed before the binding.

Works come in no order, and an API server refuses a RoleBinding to a role that is not there to
whoever has no right to `bind` it. The agent has none, so that the server goes on judging each
role that is there: no binding gives more than the agent may do. Instead an empty role stands
there while the binding is written. Why: docs/adr/0024.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from karmada_vc_agent.model import domain, karmada, kinds
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    maps_at,
    text_at,
)
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP
from karmada_vc_agent.translation import rbac_rules

ATTEMPTS = 5
"""Roles come and go meanwhile, and other bindings to the same one have theirs."""
_RESERVED = ("vc:", "vc-")
"""No Work may bring a role of such a name, so none is prepared for one either."""


class _Bound(NamedTuple):
    """How roles of one kind are found and made.

    path: of their collection, with the namespace of the binding. of_the_host: names of roles
    that are not looked at. marks: labels that a stand-in takes over.
    """

    path: str
    is_namespaced: bool
    of_the_host: frozenset[str]
    marks: tuple[str, ...]


BOUND = {
    kinds.ROLE: _Bound(
        f"/apis/{RBAC_API}/namespaces/{{namespace}}/roles",
        is_namespaced=True,
        of_the_host=frozenset(),
        marks=(domain.CLUSTER_LABEL, domain.NAMESPACE_LABEL),
    ),
    kinds.CLUSTER_ROLE: _Bound(
        f"/apis/{RBAC_API}/clusterroles",
        is_namespaced=False,
        of_the_host=frozenset((NAMESPACE_ADMIN, "admin", "edit", "view")),
        marks=(domain.CLUSTER_LABEL,),
    ),
}
BINDINGS = frozenset({kinds.ROLE_BINDING})
"""Kinds whose objects name a role."""

Write = Callable[[], Awaitable[Object]]


class BoundRoles:
    """Writes RoleBindings, and empty roles for as long as such a write takes.

    is_strict: whether the profile is Strict.
    """

    def __init__(self, host: ApiClient, *, is_strict: bool) -> None:
        self._host = host
        self._is_strict = is_strict

    async def writing(self, obj: Object, as_user: str, write: Write) -> Object:
        """Return what the server answers to the write of an object, of any kind.

        as_user: with whose rights; empty = the agent's. ClusterRoles are the agent's in any case.
        Raises KubeError, RetryError where a role holds more than virtual clusters may.
        """
        bound = _bound(obj)
        if bound is None:
            return await write()
        role = _stand_in(obj, bound)
        collection = bound.path.format(namespace=obj["metadata"]["namespace"])
        # The server takes "?" and "#" in the name of a role, and a tenant chooses it.
        path = f"{collection}/{quote(role['metadata']['name'], safe='')}"
        user = as_user if bound.is_namespaced else ""
        is_reserved = role["metadata"]["name"].startswith(_RESERVED)
        made: list[Object] = []
        try:
            for _ in range(ATTEMPTS):
                is_there = await self._judge(path)
                try:
                    return await write()
                except NotFoundError as error:
                    if made or is_reserved or not _may_be_about(role, error):
                        raise
                    missing = error
                if is_there:
                    continue  # it went: it is looked at once more
                try:
                    made.append(await self._host.create(collection, role, user))
                except AlreadyExistsError:
                    continue  # it came: it is judged
                except (ForbiddenError, InvalidError, NotFoundError):
                    break
            raise missing
        finally:
            for live in made:
                # The Work of the role may have taken it over by now.
                with suppress(ConflictError, NotFoundError):
                    await self._host.delete_same(path, live, user, is_unchanged=True)

    async def _judge(self, path: str) -> bool:
        """Refuse a role that no Work could have brought as it is; return whether there is one.

        The server refuses only what the agent itself may not do.
        """
        try:
            role = await self._host.get(path)
        except NotFoundError:
            return False
        for rule in maps_at(role, "rules"):
            for excess in rbac_rules.excess(rule, is_strict=self._is_strict):
                name = role["metadata"]["name"]
                text = (
                    f'{gvk_of(role).kind} "{name}" of the host is not bound: it allows {excess}, '
                    "which no virtual cluster may"
                )
                raise RetryError(text)
        return True


def _bound(obj: Object) -> _Bound | None:
    """Return what kind of role an object binds; None where the role is not to be looked at."""
    if gvk_of(obj).group_kind not in BINDINGS:
        return None  # the common case: each write asks
    name = dig(obj, "roleRef", "name")
    if not isinstance(name, str) or not name or "/" in name:
        return None  # the server knows none of such a name
    bound = BOUND.get(GroupKind(RBAC_GROUP, text_at(obj, "roleRef", "kind")))
    return None if bound is None or name in bound.of_the_host else bound


def _stand_in(binding: Object, bound: _Bound) -> Object:
    """Return the empty role that a binding names.

    It has the marks of the binding, so that the Work of the role takes it over.
    """
    kind, marks = binding["roleRef"]["kind"], labels_of(binding)
    labels = {key: marks[key] for key in bound.marks if key in marks}
    metadata: Object = {
        "name": binding["roleRef"]["name"],
        "labels": labels | {karmada.MANAGED_LABEL: "true"},
    }
    if bound.is_namespaced:
        metadata["namespace"] = binding["metadata"]["namespace"]
    work = annotations_of(binding).get(domain.WORK_ANNOTATION)
    if work:
        metadata["annotations"] = {domain.WORK_ANNOTATION: work}
    return {"apiVersion": RBAC_API, "kind": kind, "metadata": metadata, "rules": []}


def is_stand_in(obj: Object) -> bool:
    """Whether an object is such an empty role; none that anybody wrote to, and no other one.

    It comes and goes with each try to write its binding: who tried again because of it would
    try without end.
    """
    bound = BOUND.get(gvk_of(obj).group_kind)
    if bound is None or obj.get("rules"):
        return False
    marks = {karmada.MANAGED_LABEL, *bound.marks}
    is_bare = labels_of(obj).keys() <= marks and "aggregationRule" not in obj
    return is_bare and annotations_of(obj).keys() == {domain.WORK_ANNOTATION}


def _may_be_about(role: Object, error: NotFoundError) -> bool:
    """Whether the server says that a role is missing.

    kube-apiserver 1.34.4 says `rolebindings… "<name of the role>" not found`.
    """
    return f'.{RBAC_GROUP} "{role["metadata"]["name"]}" not found' in str(error)
