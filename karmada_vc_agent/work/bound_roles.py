"""The roles that RoleBindings name: none too strong, and none needed before the binding."""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import quote

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import (
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

_RESERVED = ("vc:", "vc-")
"""No Work may contain a role with such a name, so none is prepared for one either."""


class _Bound(NamedTuple):
    """How roles of one kind are read and created.

    of_the_host: names of roles that are not checked. marks: labels that a placeholder copies.
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


async def write_binding(
    host: ApiClient, obj: Object, as_user: str, write: Write, allow: Allow = None
) -> Object:
    """Write an object of any kind, with an empty role if it binds one that is missing.

    Works come in no order, and an API server refuses a binding to a role that is not there to who
    may not `bind`. So an empty role is there meanwhile, and the server judges each role (ADR 24).
    as_user: "" = the agent itself. allow: in profile Strict. Returns the answer. Raises KubeError,
    AlreadyExistsError if the role is created meanwhile, RetryError if it grants too much.
    """
    bound = _bound(obj)
    if bound is None:
        return await write()
    role = _stand_in(obj, bound)
    collection = bound.path.format(namespace=obj["metadata"]["namespace"])
    # The server accepts "?" and "#" in the name of a role, and a tenant chooses it.
    path = f"{collection}/{quote(role['metadata']['name'], safe='')}"
    user = as_user if bound.is_namespaced else ""
    await _judge(host, path, allow)
    try:
        return await write()
    except NotFoundError as error:
        is_reserved = role["metadata"]["name"].startswith(_RESERVED)
        if is_reserved or not _may_be_about(role, error):
            raise
        missing = error
    try:
        made = await host.create(collection, role, user)
    except (ForbiddenError, InvalidError, NotFoundError):
        raise missing from None
    try:
        await _judge(host, path, allow)
        return await write()
    finally:
        await remove_stand_in(host, path, made, user)


async def _judge(host: ApiClient, path: str, allow: Allow) -> None:
    """Deny a role that no Work could have created like this.

    The server itself denies only what the agent may not do.
    """
    try:
        role = await host.get(path)
    except NotFoundError:
        return
    for rule in maps_at(role, "rules"):
        for excess in rbac_rules.excess(rule, allow):
            text = (
                f'{gvk_of(role).kind} "{role["metadata"]["name"]}" of the host is not bound: it '
                f"allows {excess}, which no virtual cluster may"
            )
            raise RetryError(text)


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
    """Return whether an object is an unmodified empty role, which comes with each attempt."""
    bound = BOUND.get(gvk_of(obj).group_kind)
    if bound is None or obj.get("rules") or domain.STAND_IN_ANNOTATION not in annotations_of(obj):
        return False
    marks = {karmada.MANAGED_LABEL, *bound.marks}
    is_bare = labels_of(obj).keys() <= marks and "aggregationRule" not in obj
    return is_bare and annotations_of(obj).keys() <= _ANNOTATIONS


async def remove_stand_in(host: ApiClient, path: str, live: Object, as_user: str = "") -> None:
    """Delete a stand-in unless another writer changed it: the Work of the role may have it now."""
    try:
        await host.delete_same(path, live, as_user, is_unchanged=True)
    except (ConflictError, NotFoundError):
        pass
    except KubeError as error:
        _log.warning("Leaving an empty role for now", extra={"path": path, "reason": str(error)})


def _may_be_about(role: Object, error: NotFoundError) -> bool:
    """Return whether the server reports a missing role.

    kube-apiserver 1.34.4 says `rolebindings… "<name of the role>" not found`.
    """
    return f'.{RBAC_GROUP} "{role["metadata"]["name"]}" not found' in str(error)
