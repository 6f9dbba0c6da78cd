"""What a claimed namespace has of the agent: its rights, default objects, release.

Rights: everywhere else it may only read, except Secrets. The roles are created by `join`, which
lets the agent bind just these; an agent with broader rights creates no bindings.

Release: Rights that a virtual cluster has by its claim end with it: the default objects, the
RoleBindings of its ClusterRoleBindings, and the agent's own. The claim is removed last, since the
agent may write in claimed namespaces only. The mark of the phase is first, so that no writer adds
what was removed (ADR 59). Each step can be repeated.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cachetools import LRUCache

from karmada_vc_agent.cluster.virtual_clusters import HeldError, Phase, phase_of, unclaim
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource, is_allowed, own_user_name
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Need,
    NotFoundError,
)
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of, labels_of
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.translation.namespace_defaults import (
    DEFAULT_KINDS,
    QUOTA_NAME,
    empty_quota,
    namespace_defaults,
)
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.work.host_objects import LiveObjects, StoreOf

_log = logging.getLogger(__name__)

HELD_WITHIN_S = 5.0
"""A server honours a new binding, and new labels in policies, after some milliseconds."""
ASK_AGAIN_S = 0.05
REMEMBERED = 16_384
"""Namespaces whose rights are recorded; one that is forgotten costs its next claim three reviews.
"""
_GVK = GroupVersionKind(vocabulary.RBAC_GROUP, "v1", "RoleBinding")
BINDINGS = Resource(_GVK, "rolebindings", namespaced=True, verbs=frozenset(("list", "watch")))
_PROOFS = (
    *(("delete", "", "configmaps"), ("get", "", "secrets")),
    ("create", vocabulary.RBAC_GROUP, "rolebindings"),
)
"""Verb, group and resource of rights that only the agent's role in a namespace grants."""
_Versions = tuple[str | None, ...]


class NamespaceRights:
    """Sole writer of the bindings. store_of: the informer store of a resource."""

    def __init__(
        self,
        host: ApiClient,
        store_of: StoreOf,
        agent: str,
        *,
        follows_kinds: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._store_of = store_of
        self._agent = agent
        of_kinds, own = own_bindings(agent)
        self._roles = {own: vocabulary.namespace_role(agent)}
        if follows_kinds:
            self._roles[of_kinds] = vocabulary.NAMESPACE_ADMIN
        self._clock = clock
        self._account = ""
        self._held: LRUCache[HostNamespace, tuple[str, _Versions]] = LRUCache(REMEMBERED)
        """Namespace -> its uid and the versions of our bindings when it had the rights."""

    async def ensure(
        self, cluster: str, virtual: VirtualNamespace, host: HostNamespace, uid: str
    ) -> None:
        """Acquire our rights in a claimed namespace. Raises RetryError, KubeError."""
        recorded_uid, versions = self._held.get(host, ("", ()))
        is_recorded, now = recorded_uid == uid != "", self._versions(host)
        if is_recorded and now in (versions, ()):
            return
        # The server may not have noticed yet that a binding of ours was changed.
        if not (is_recorded and any(versions)) and await self._has_rights(host):
            self._held[host] = (uid, now)
            return
        self._account = self._account or await own_user_name(self._host)
        deadline = self._clock() + HELD_WITHIN_S
        labels = {
            vocabulary.CLUSTER_LABEL: cluster,
            vocabulary.NAMESPACE_LABEL: virtual,
            vocabulary.AGENT_LABEL: self._agent,
        }
        bindings = [
            await self._bind(_binding(name, role, self._account, labels, host), deadline)
            for name, role in self._roles.items()
        ]
        while not await self._has_rights(host):
            if self._clock() > deadline:
                text = f"the agent lacks its rights in namespace {virtual}: {JOIN_OF_THIS_VERSION}"
                raise RetryError(text)
            await asyncio.sleep(ASK_AGAIN_S)
        self._held[host] = (uid, tuple(_version(binding) for binding in bindings))

    def forget(self, host: HostNamespace) -> None:
        """Forget the rights in a namespace that is released."""
        self._held.pop(host, None)

    def _versions(self, host: HostNamespace) -> _Versions:
        """Return the versions of our bindings; () while they are not listed."""
        store = self._store_of(BINDINGS)
        if store is None or not store.is_synced:
            return ()
        return tuple(_version(store.get(host, name)) for name in self._roles)

    async def _has_rights(self, host: HostNamespace) -> bool:
        for proof in _PROOFS:
            if not await is_allowed(self._host, Need(*proof, host)):
                return False
        return True

    async def _bind(self, desired: Object, deadline: float) -> Object:
        """Create one binding; retry until the server has seen the claim, as the policy needs."""
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        while True:
            try:
                live = await self._host.create(BINDINGS.path(namespace), desired)
            except AlreadyExistsError:
                path = BINDINGS.path(namespace, name)
                live = await self._host.get(path)
                content = {part: desired[part] for part in ("roleRef", "subjects")}
                if content != {part: live.get(part) for part in content}:
                    _log.info("Correcting own rights", extra={"namespace": namespace})
                    live = await self._host.replace(path, {**live, **content})
            except HeldError:
                raise
            except (ForbiddenError, InvalidError):
                if self._clock() > deadline:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            store = self._store_of(BINDINGS)
            if store is not None:
                store.observe(live)
            return live


def _version(binding: Object | None) -> str | None:
    version: str | None = dig(binding, "metadata", "resourceVersion")
    return version


def own_bindings(agent: str) -> tuple[str, str]:
    """Return the names of all that an agent may have there; the last one lets it delete them."""
    return f"vc-agent:{agent}:kinds", f"vc-agent:{agent}"


def _binding(
    name: str, role: str, user: str, labels: Mapping[str, str], host: HostNamespace
) -> Object:
    subject: Object = {"apiGroup": vocabulary.RBAC_GROUP, "kind": "User", "name": user}
    if account := vocabulary.service_account_of(user):
        subject = {"kind": "ServiceAccount", "name": account[1], "namespace": account[0]}
    return {
        "apiVersion": vocabulary.RBAC_API,
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": host, "labels": dict(labels)},
        "roleRef": {"apiGroup": vocabulary.RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


_PLURALS = ("resourcequotas", "limitranges", "networkpolicies", "rolebindings")
RESOURCES = {
    gvk: Resource(gvk, plural, namespaced=True, verbs=BINDINGS.verbs)
    for gvk, plural in zip(DEFAULT_KINDS, _PLURALS, strict=True)
}
QUOTAS = RESOURCES[GroupVersionKind("", "v1", "ResourceQuota")]
_CONTENT = ("spec", "roleRef", "subjects")


class NamespaceShares:
    """The shares of quotas, by host namespace; without the feature of quotas there are none."""

    def expect(self, cluster: str, namespace: str) -> None:
        """Record a host namespace whose quota was just created, and has no share yet."""

    async def share(self, cluster: str, namespace: str) -> None:
        """Wait until a new namespace has its share, for a bounded time."""


@dataclass(eq=False)
class DefaultObjects:
    """Keeps the default objects of namespaces; quotas are filled by their controller."""

    host: ApiClient
    store_of: StoreOf
    settings: TranslationSettings
    divisions: NamespaceShares

    def __post_init__(self) -> None:
        self._objects = LiveObjects(self.host, self.store_of)

    async def ensure(
        self, vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace
    ) -> None:
        """Create or correct the default objects of a namespace. Raises KubeError."""
        given = self.settings.infrastructure, self.settings.pod_cidrs, self.settings.gateway
        desired, kept = namespace_defaults(vc, virtual, host, *given), set()
        if vc.quota:  # before anyone is bound who may create what it counts
            await self._make_quota(vc, virtual, host)
            kept.add((QUOTAS.gvk, QUOTA_NAME))
        for obj in desired:
            await self._correct(vc, obj)
            kept.add((gvk_of(obj), obj["metadata"]["name"]))
        for gvk, names in DEFAULT_KINDS.items():
            for name in names:
                if (gvk, name) not in kept:
                    await self._remove(RESOURCES[gvk], host, name)

    async def _correct(self, vc: VirtualCluster, desired: Object) -> None:
        resource = RESOURCES[gvk_of(desired)]
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        live = await self._objects.get(resource, namespace, name)
        if live is None:
            live = await self._create(resource, desired)
        is_same = all(desired.get(part) == live.get(part) for part in _CONTENT)
        if is_same and labels_of(desired).items() <= labels_of(live).items():
            return
        extra = {"virtual_cluster": vc.name, "namespace": namespace, "object": name}
        _log.info("Correcting default of namespace", extra=extra)
        path = resource.path(namespace, name)
        if live.get("roleRef") != desired.get("roleRef"):
            await self.host.delete(path)  # roleRef is immutable
            live = await self._create(resource, desired)
        else:
            version = live["metadata"]["resourceVersion"]
            metadata = {**desired["metadata"], "resourceVersion": version}
            live = await self.host.replace(path, {**desired, "metadata": metadata})
        self._observe(resource, live)

    async def _make_quota(
        self, vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace
    ) -> None:
        live = await self._objects.get(QUOTAS, host, QUOTA_NAME)
        desired = empty_quota(vc, virtual, host)
        if live is None:
            self.divisions.expect(vc.name, host)
            live = await self._create(QUOTAS, desired)
        labels, path = desired["metadata"]["labels"], QUOTAS.path(host, QUOTA_NAME)
        if not labels.items() <= labels_of(live).items():
            patch = {"metadata": {"labels": labels}}
            self._observe(QUOTAS, await self.host.merge_patch(path, patch))

    async def _remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete a default object in the informer, which holds only objects with our label."""
        if self._objects.cached(resource, namespace, name) is None:
            return
        _log.info("Removing default of namespace", extra={"namespace": namespace, "object": name})
        with suppress(NotFoundError):
            await self.host.delete(resource.path(namespace, name))

    async def _create(self, resource: Resource, desired: Object) -> Object:
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        try:
            live = await self.host.create(resource.path(namespace), desired)
        except AlreadyExistsError:
            return await self.host.get(resource.path(namespace, name))
        self._observe(resource, live)
        return live

    def _observe(self, resource: Resource, live: Object) -> None:
        if vocabulary.CLUSTER_LABEL in labels_of(live):  # otherwise no informer has it
            self._objects.observe(resource, live)


_MARK: Object = {"metadata": {"annotations": {vocabulary.RELEASING_ANNOTATION: "true"}}}


async def begin_release(host: ApiClient, live: Object, agent: str, as_user: str = "") -> Object:
    """Mark a claimed namespace as RELEASING; return it. Raises KubeError."""
    if phase_of(live, agent) is not Phase.CLAIMED:
        return live
    return await _patch(host, live, _MARK, agent, as_user)


async def end_release(host: ApiClient, live: Object, agent: str, as_user: str = "") -> Object:
    """Remove what an agent made in a namespace, then its claim; return the namespace.

    live: left alone unless RELEASING. as_user: "" = the caller. Reads the server. Raises KubeError.
    """
    if phase_of(live, agent) is not Phase.RELEASING:
        return live
    name = live["metadata"]["name"]
    _log.info("Releasing namespace", extra={"namespace": name})
    # Rights are removed before what bounds their use.
    for resource in reversed(RESOURCES.values()):
        answer = await host.get(resource.path(name))
        for obj in answer.get("items") or ():
            own, each = obj["metadata"]["name"], resource.gvk
            # What is of the claim, not of a Work; it may lack our labels.
            is_converted = each == BINDINGS.gvk and own.startswith(CONVERTED_PREFIX)
            if is_converted or (
                own in DEFAULT_KINDS[each] and vocabulary.CLUSTER_LABEL in labels_of(obj)
            ):
                with suppress(NotFoundError):
                    await host.delete(resource.path(name, own))
    for binding in own_bindings(agent):
        with suppress(NotFoundError):
            await host.delete(BINDINGS.path(name, binding))
    # The cache may have its identity alone (ADR 63).
    whole = await host.get(_path(live))
    return await _patch(host, live, unclaim(whole), agent, as_user)


async def delete_namespace(host: ApiClient, live: Object, agent: str, as_user: str = "") -> None:
    """Delete a claimed namespace with all that is in it.

    Raises KubeError; ConflictError if another one has its name, and a claim of the agent.
    """
    with suppress(NotFoundError):
        try:
            await host.delete_same(_path(live), live, as_user)
        except ConflictError:
            if phase_of(await host.get(_path(live)), agent) is Phase.CLAIMED:
                raise


async def _patch(host: ApiClient, live: Object, patch: Object, agent: str, as_user: str) -> Object:
    """Patch a claimed namespace; return it as it is if another process has released it.

    Policies deny the agent what it does not claim. Raises KubeError.
    """
    try:
        return await host.patch_same(_path(live), live, patch, as_user)
    except (ConflictError, ForbiddenError, InvalidError):
        now = await host.get(_path(live))
        if phase_of(now, agent) is not Phase.UNCLAIMED:
            raise
        return now


def _path(live: Object) -> str:
    return f"/api/v1/namespaces/{live['metadata']['name']}"
