"""Ends the life of a claimed namespace: deletes it, or what the agent made there and the claim.

Rights that a virtual cluster has by its claim end with it: the default objects, the RoleBindings of
its ClusterRoleBindings, and the agent's own. The claim is removed last, since the agent may write
in claimed namespaces only. The mark of the phase is first, so that no writer adds what was removed
(ADR 59). Each step can be repeated.
"""

import logging
from contextlib import suppress

from karmada_vc_agent.cluster.claims import Phase, phase_of, unclaim
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from karmada_vc_agent.model.domain import CLUSTER_LABEL, RELEASING_ANNOTATION
from karmada_vc_agent.model.objects import GroupVersionKind, Object, labels_of
from karmada_vc_agent.translation.namespace_defaults import DEFAULT_KINDS
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.work.namespaces import default_objects
from karmada_vc_agent.work.namespaces.namespace_rights import BINDINGS, own_bindings

_log = logging.getLogger(__name__)

_MARK: Object = {"metadata": {"annotations": {RELEASING_ANNOTATION: "true"}}}


async def begin_release(host: ApiClient, live: Object, agent: str, as_user: str = "") -> Object:
    """Mark a claimed namespace as RELEASING; return it. Raises KubeError."""
    if phase_of(live, agent) is not Phase.CLAIMED:
        return live
    return await _patch(host, live, _MARK, agent, as_user)


async def end_release(host: ApiClient, live: Object, agent: str, as_user: str = "") -> Object:
    """Remove what an agent made in a namespace, then its claim; return the namespace.

    live: the Namespace; left alone unless RELEASING. as_user: who may change claimed namespaces;
    "" = the caller. What is there is read from the server: an informer may lag. Raises KubeError.
    """
    if phase_of(live, agent) is not Phase.RELEASING:
        return live
    name = live["metadata"]["name"]
    _log.info("Releasing namespace", extra={"namespace": name})
    # Rights are removed before what bounds their use.
    for resource in reversed(default_objects.RESOURCES.values()):
        answer = await host.get(resource.path(name))
        for obj in answer.get("items") or ():
            if _is_of_the_claim(resource.gvk, obj):
                with suppress(NotFoundError):
                    await host.delete(resource.path(name, obj["metadata"]["name"]))
    for binding in own_bindings(agent):
        with suppress(NotFoundError):
            await host.delete(BINDINGS.path(name, binding))
    # The cache may have its identity alone (ADR 63).
    whole = await host.get(_path(live))
    return await _patch(host, live, unclaim(whole), agent, as_user)


async def delete_namespace(host: ApiClient, live: Object, agent: str, as_user: str = "") -> None:
    """Delete a claimed namespace with all that is in it.

    Raises KubeError; ConflictError if another one has its name, and a claim of the agent. One that
    is being deleted answers with a conflict, too.
    """
    with suppress(NotFoundError):
        try:
            await host.delete_same(_path(live), live, as_user)
        except ConflictError:
            if phase_of(await host.get(_path(live)), agent) is Phase.CLAIMED:
                raise


async def _patch(host: ApiClient, live: Object, patch: Object, agent: str, as_user: str) -> Object:
    """Patch a claimed namespace; return it as it is if another process has released it.

    Policies deny the agent what it does not claim. Another one under its name is not patched.
    Raises KubeError.
    """
    try:
        return await host.patch_same(_path(live), live, patch, as_user)
    except (ConflictError, ForbiddenError, InvalidError):
        now = await host.get(_path(live))
        if phase_of(now, agent) is not Phase.UNCLAIMED:
            raise
        return now


def _is_of_the_claim(gvk: GroupVersionKind, obj: Object) -> bool:
    """Return whether an object is of the claim, not of a Work; it may lack our labels."""
    name = obj["metadata"]["name"]
    if gvk == BINDINGS.gvk and name.startswith(CONVERTED_PREFIX):
        return True
    return name in DEFAULT_KINDS[gvk] and CLUSTER_LABEL in labels_of(obj)


def _path(live: Object) -> str:
    return f"/api/v1/namespaces/{live['metadata']['name']}"
