"""The roles that RoleBindings name: none too strong, and none needed before the binding.

Works come in no order, and an API server refuses a RoleBinding to a role that is not there to
a caller without the right to `bind` it. The agent has none, so that the server goes on judging each
role that is there: no binding gives more than the agent may do. Instead an empty role is
there while the binding is written. Where it cannot be removed again, that is tried with the next
binding and by the count of orphans (work/work_finalizer.py). Why: docs/adr/0024.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import quote

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from karmada_vc_agent.model import domain, karmada, kinds
from karmada_vc_agent.model.kinds import RBAC_API, RBAC_GROUP, TENANT_ROLES
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
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.rbac_rules import Allow

_log = logging.getLogger(__name__)

ATTEMPTS = 5
"""Roles are created and deleted meanwhile, also by other writes of bindings to the same one."""
LEFT = 1000
"""Stand-ins whose removal failed, that are remembered; the count of orphans finds all."""
_RESERVED = ("vc:", "vc-")
"""No Work may contain a role with such a name, so none is prepared for one either."""


class _Left(NamedTuple):
    """A stand-in that is to be removed. user: with whose rights it was made."""

    path: str
    live: Object
    user: str


class _Bound(NamedTuple):
    """How roles of one kind are read and created.

    path: of their collection, with the namespace of the binding. of_the_host: names of roles that
    are not checked. marks: labels that a placeholder copies.
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
        of_the_host=frozenset(TENANT_ROLES.values()),
        marks=(domain.CLUSTER_LABEL,),
    ),
}
_ANNOTATIONS = frozenset((domain.STAND_IN_ANNOTATION, domain.WORK_ANNOTATION))
BINDINGS = frozenset({kinds.ROLE_BINDING})
"""Kinds whose objects refer to a role."""

Write = Callable[[], Awaitable[Object]]


class BoundRoles:
    """Writes RoleBindings, and empty roles for the duration of such a write.

    allow_of: in profile Strict, `allow` of a virtual cluster.
    """

    def __init__(self, host: ApiClient, allow_of: Callable[[str], Allow] = lambda _: None) -> None:
        self._host = host
        self._allow_of = allow_of
        self._left: deque[_Left] = deque(maxlen=LEFT)

    async def writing(self, obj: Object, as_user: str, write: Write) -> Object:
        """Write an object of any kind; return the server's answer.

        as_user: whose rights to use; "" = the agent's. ClusterRoles are always written by the
        agent. Raises KubeError, RetryError if a role grants more than virtual clusters may.
        """
        bound = _bound(obj)
        if bound is None:
            return await write()
        role = _stand_in(obj, bound)
        collection = bound.path.format(namespace=obj["metadata"]["namespace"])
        # The server accepts "?" and "#" in the name of a role, and a tenant chooses it.
        path = f"{collection}/{quote(role['metadata']['name'], safe='')}"
        user = as_user if bound.is_namespaced else ""
        cluster = labels_of(obj).get(domain.CLUSTER_LABEL, "")
        is_reserved = role["metadata"]["name"].startswith(_RESERVED)
        await self._remove_left()
        made: list[Object] = []
        try:
            for _ in range(ATTEMPTS):
                is_there = await self._judge(path, self._allow_of(cluster))
                try:
                    return await write()
                except NotFoundError as error:
                    if made or is_reserved or not _may_be_about(role, error):
                        raise
                    missing = error
                if is_there:
                    continue  # deleted meanwhile: check once more
                try:
                    made.append(await self._host.create(collection, role, user))
                except AlreadyExistsError:
                    continue  # created meanwhile: check it
                except (ForbiddenError, InvalidError, NotFoundError):
                    break
            raise missing
        finally:
            for live in made:
                await self._remove(_Left(path, live, user))

    async def _remove_left(self) -> None:
        """Try once more to remove one that could not be removed: one more request, not many."""
        if self._left:
            await self._remove(self._left.popleft())

    async def _remove(self, left: "_Left") -> None:
        """Remove a stand-in, or keep it for later; the caller raises in any case."""
        if not await remove_stand_in(self._host, left.path, left.live, left.user):
            self._left.append(left)

    async def _judge(self, path: str, allow: Allow) -> bool:
        """Deny a role that no Work could have created like this; return whether the role exists.

        The server itself denies only what the agent may not do.
        """
        try:
            role = await self._host.get(path)
        except NotFoundError:
            return False
        for rule in maps_at(role, "rules"):
            for excess in rbac_rules.excess(rule, allow):
                name = role["metadata"]["name"]
                text = (
                    f'{gvk_of(role).kind} "{name}" of the host is not bound: it allows {excess}, '
                    "which no virtual cluster may"
                )
                raise RetryError(text)
        return True


def _bound(obj: Object) -> _Bound | None:
    """Return the kind of role that an object binds; None if the role is not to be checked."""
    if gvk_of(obj).group_kind not in BINDINGS:
        return None  # the common case, on each write
    name = dig(obj, "roleRef", "name")
    if not isinstance(name, str) or not name or "/" in name:
        return None  # the server knows no role with such a name
    bound = BOUND.get(GroupKind(RBAC_GROUP, text_at(obj, "roleRef", "kind")))
    return None if bound is None or name in bound.of_the_host else bound


def _stand_in(binding: Object, bound: _Bound) -> Object:
    """Return the empty role that a binding refers to.

    It has the labels of the binding, so that the Work of the role takes it over.
    """
    kind, marks = binding["roleRef"]["kind"], labels_of(binding)
    labels = {key: marks[key] for key in bound.marks if key in marks}
    metadata: Object = {
        "name": binding["roleRef"]["name"],
        "labels": labels | {karmada.MANAGED_LABEL: "true"},
    }
    if bound.is_namespaced:
        metadata["namespace"] = binding["metadata"]["namespace"]
    metadata["annotations"] = {domain.STAND_IN_ANNOTATION: "true"}
    if work := annotations_of(binding).get(domain.WORK_ANNOTATION):
        metadata["annotations"][domain.WORK_ANNOTATION] = work
    return {"apiVersion": RBAC_API, "kind": kind, "metadata": metadata, "rules": []}


def is_stand_in(obj: Object) -> bool:
    """Return whether an object is an unmodified placeholder role.

    It is created and deleted with each attempt to write its binding: retrying because of it would
    never end.
    """
    bound = BOUND.get(gvk_of(obj).group_kind)
    if bound is None or obj.get("rules") or domain.STAND_IN_ANNOTATION not in annotations_of(obj):
        return False
    marks = {karmada.MANAGED_LABEL, *bound.marks}
    is_bare = labels_of(obj).keys() <= marks and "aggregationRule" not in obj
    return is_bare and annotations_of(obj).keys() <= _ANNOTATIONS


async def remove_stand_in(host: ApiClient, path: str, live: Object, as_user: str = "") -> bool:
    """Delete a stand-in unless another writer changed it; return whether nothing is left to remove.

    The Work of the role may have taken it over by now.
    """
    try:
        await host.delete_same(path, live, as_user, is_unchanged=True)
    except (ConflictError, NotFoundError):
        return True
    except KubeError as error:
        _log.warning("Leaving an empty role for now", extra={"path": path, "reason": str(error)})
        return False
    return True


def _may_be_about(role: Object, error: NotFoundError) -> bool:
    """Return whether the server reports a missing role.

    kube-apiserver 1.34.4 says `rolebindings… "<name of the role>" not found`.
    """
    return f'.{RBAC_GROUP} "{role["metadata"]["name"]}" not found' in str(error)
