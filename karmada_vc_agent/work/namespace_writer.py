"""The sole writer of host namespaces, and of what the agent has there (rewriting-rules 1).

The claim labels on a host namespace are the source of truth.

Rights: everywhere else it may only read, except Secrets. The roles are created by `join`, which
lets the agent bind just these; an agent with broader rights creates no bindings.

Release: Rights that a virtual cluster has by its claim end with it: the default objects, the
RoleBindings of its ClusterRoleBindings, and the agent's own. The mark of the phase is first, so
that no writer adds what was removed, the claim is removed last (ADR 59). Each step can be repeated.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from weakref import WeakValueDictionary

from cachetools import LRUCache

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.virtual_clusters import (
    Claims,
    HeldError,
    Phase,
    Scopes,
    claim_of,
    claims_in,
    former_names,
    phase_of,
    unclaim,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource, is_allowed_by_rules, own_user_name
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Need,
    NotFoundError,
)
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    uid_of,
)
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.namespace_defaults import (
    DEFAULT_KINDS,
    QUOTA_NAME,
    empty_quota,
    is_made_by_agent,
    namespace_defaults,
    pod_security_changes,
)
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX
from karmada_vc_agent.translation.translate import claimed_namespace
from karmada_vc_agent.work.host_objects import Applied, Check, HostObjects, LiveObjects, StoreOf
from karmada_vc_agent.work.rules.apply_plan import ForeignError

_log = logging.getLogger(__name__)


HELD_WITHIN_S = 5.0
"""A server honours a new binding, and new labels in policies, after some milliseconds."""
ASK_AGAIN_S = 0.05
REMEMBERED = 16_384
"""Namespaces whose rights and default objects are recorded; of others they are checked again."""
NAMESPACES = Resource(NAMESPACE, "namespaces", namespaced=False)
_GVK = GroupVersionKind(vocabulary.RBAC_GROUP, "v1", "RoleBinding")
BINDINGS = Resource(_GVK, "rolebindings", namespaced=True, verbs=frozenset(("list", "watch")))
_PROOFS = (
    ("delete", "", "configmaps"),
    ("get", "", "secrets"),
    ("create", vocabulary.RBAC_GROUP, "rolebindings"),
)
"""Verb, group and resource of rights that only the agent's role in a namespace grants."""
_Versions = tuple[str | None, ...]


@dataclass(eq=False)
class NamespaceRights:
    """Sole writer of the bindings. store_of: the informer store of a resource."""

    host: ApiClient
    store_of: StoreOf
    agent: str
    _: KW_ONLY
    follows_kinds: bool
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        of_kinds, own = own_bindings(self.agent)
        self._roles = {own: vocabulary.namespace_role(self.agent)}
        if self.follows_kinds:
            self._roles[of_kinds] = vocabulary.NAMESPACE_ADMIN
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
        self._account = self._account or await own_user_name(self.host)
        deadline = self.clock() + HELD_WITHIN_S
        labels = {
            vocabulary.CLUSTER_LABEL: cluster,
            vocabulary.NAMESPACE_LABEL: virtual,
            vocabulary.AGENT_LABEL: self.agent,
        }
        bindings = [
            await self._bind(_binding(name, role, self._account, labels, host), deadline)
            for name, role in self._roles.items()
        ]
        while not await self._has_rights(host):
            if self.clock() > deadline:
                text = f"the agent lacks its rights in namespace {virtual}: {JOIN_OF_THIS_VERSION}"
                raise RetryError(text)
            await asyncio.sleep(ASK_AGAIN_S)
        self._held[host] = (uid, tuple(_version(binding) for binding in bindings))

    def forget(self, host: HostNamespace) -> None:
        """Forget the rights in a namespace that is released."""
        self._held.pop(host, None)

    def _versions(self, host: HostNamespace) -> _Versions:
        store = self.store_of(BINDINGS)
        if store is None or not store.is_synced:
            return ()
        return tuple(_version(store.get(host, name)) for name in self._roles)

    async def _has_rights(self, host: HostNamespace) -> bool:
        for proof in _PROOFS:
            if not await is_allowed_by_rules(self.host, Need(*proof, host)):
                return False
        return True

    async def _bind(self, desired: Object, deadline: float) -> Object:
        """Create one binding; retry until the server has seen the claim, as the policy needs."""
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        while True:
            try:
                live = await self.host.create(BINDINGS.path(namespace), desired)
            except AlreadyExistsError:
                path = BINDINGS.path(namespace, name)
                live = await self.host.get(path)
                content = {part: desired[part] for part in ("roleRef", "subjects")}
                if content != {part: live.get(part) for part in content}:
                    _log.info("Correcting own rights", extra={"namespace": namespace})
                    live = await self.host.replace(path, {**live, **content})
            except HeldError:
                raise
            except (ForbiddenError, InvalidError):
                if self.clock() > deadline:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            LiveObjects(self.host, self.store_of).observe(BINDINGS, live)
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
            live = await self.host.replace_same(path, live, desired)
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
    """Remove what an agent made in a releasing namespace, then its claim. Raises KubeError."""
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
            is_default = own in DEFAULT_KINDS[each] and vocabulary.CLUSTER_LABEL in labels_of(obj)
            if is_converted or is_default:
                with suppress(NotFoundError):
                    await host.delete(resource.path(name, own))
    for binding in own_bindings(agent):
        with suppress(NotFoundError):
            await host.delete(BINDINGS.path(name, binding))
    # The cache may have its identity alone (ADR 63).
    whole = await host.get(NAMESPACES.path(name=name))
    return await _patch(host, live, unclaim(whole), agent, as_user)


async def delete_namespace(host: ApiClient, live: Object, agent: str, as_user: str = "") -> None:
    """Delete a claimed namespace. Raises KubeError, ConflictError if it was claimed again."""
    path = NAMESPACES.path(name=live["metadata"]["name"])
    with suppress(NotFoundError):
        try:
            await host.delete_same(path, live, as_user)
        except ConflictError:
            if phase_of(await host.get(path), agent) is Phase.CLAIMED:
                raise


async def _patch(host: ApiClient, live: Object, patch: Object, agent: str, as_user: str) -> Object:
    """Patch a claimed namespace; return it as it is if it was released: policies deny that."""
    path = NAMESPACES.path(name=live["metadata"]["name"])
    try:
        return await host.patch_same(path, live, patch, as_user)
    except (ConflictError, ForbiddenError, InvalidError):
        now = await host.get(path)
        if phase_of(now, agent) is not Phase.UNCLAIMED:
            raise
        return now


_OF_OTHERS = frozenset((vocabulary.WORK_NAME_ANNOTATION, vocabulary.WORK_NAMESPACE_ANNOTATION))
"""What another agent of Karmada may have left there."""

Pair = tuple[str, VirtualNamespace]
"""Virtual cluster and virtual namespace."""


def left_behind(
    claims: Claims, virtual_clusters: Mapping[str, VirtualCluster], cluster: str
) -> Mapping[VirtualNamespace, HostNamespace]:
    """Return the namespaces that are claimed for former names of a virtual cluster."""
    return claims.left_by(former_names(virtual_clusters, cluster))


@dataclass(eq=False)
class NamespaceWriter:
    """Claims, corrects and releases host namespaces, one step at a time for each."""

    host: ApiClient
    claims: Claims
    host_objects: HostObjects
    settings: TranslationSettings
    defaults: DefaultObjects
    rights: NamespaceRights
    virtual_clusters: Mapping[str, VirtualCluster]
    scopes: Scopes

    def __post_init__(self) -> None:
        self.scopes.ended.subscribe(self._end)
        self._equipped: LRUCache[HostNamespace, tuple[str, VirtualCluster]] = LRUCache(REMEMBERED)
        # A lock exists for as long as a caller holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def claim(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None = None
    ) -> HostNamespace:
        """Return the claimed host namespace of a virtual one, created or adopted if needed.

        desired: what to create, if a Work contains it. Raises RefusedError, RetryError, KubeError.
        """
        if self.claims.is_claimed_twice(vc.name, namespace):
            text = "two host namespaces have the claim for this namespace"
            raise _refused(Code.NAMESPACE_CLAIM_CONFLICT, text)
        place = self.claims.of(vc.name).get(namespace)
        if place is not None and self._is_equipped(vc, place):
            return place
        async with self._owning(vc, namespace, desired) as name:
            if namespace not in self.claims.of(vc.name):
                left = self.claims.store.get("", name) if namespace in self._left(vc) else None
                if left is not None:
                    await self._take_over(vc, left)
                else:
                    await self._create_or_adopt(vc, namespace, desired)
                self._equipped.pop(name, None)
            phase = self.claims.phase(name)
            if phase is Phase.TERMINATING:
                text = "the namespace is being deleted on the host"
                raise RetryError(f"{Code.NAMESPACE_TERMINATING}: {text}")
            if phase is Phase.RELEASING:
                await self._end_release(name)
                raise RetryError(f"{Code.NAMESPACE_TERMINATING}: its claim was being released")
            if not self._is_equipped(vc, name):
                await self._equip(vc, namespace, name)
            return name

    async def claim_with_share(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None = None
    ) -> HostNamespace:
        """Claim a namespace; wait for its share of the quota if it is new. Raises as `claim`."""
        name = await self.claim(vc, namespace, desired)
        await self.defaults.divisions.share(vc.name, name)
        return name

    @asynccontextmanager
    async def equipped(self, vc: VirtualCluster, name: HostNamespace) -> AsyncIterator[bool]:
        """Set a namespace up, and keep it so; yields False if it is not claimed any more."""
        async with self._lock(name):
            held = self.claims.holder_of(name)
            if self.claims.phase(name) is not Phase.CLAIMED or not held or held.cluster != vc.name:
                yield False
                return
            if not self._is_equipped(vc, name):
                await self._equip(vc, held.namespace, name)
            yield True

    @asynccontextmanager
    async def _owning(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None = None
    ) -> AsyncIterator[HostNamespace]:
        new = (desired or claimed_namespace(vc, namespace, self.settings, ""))["metadata"]["name"]

        def place() -> HostNamespace:
            name = self.claims.of(vc.name).get(namespace) or self._left(vc).get(namespace)
            return name or HostNamespace(new)

        while True:
            name = place()
            async with self._lock(name):
                if place() == name:
                    yield name
                    return

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _is_equipped(self, vc: VirtualCluster, name: HostNamespace) -> bool:
        is_claimed = self.claims.phase(name) is Phase.CLAIMED
        return is_claimed and self._equipped.get(name) == self._equipment(vc, name)

    def _equipment(self, vc: VirtualCluster, name: HostNamespace) -> tuple[str, VirtualCluster]:
        """Return what a namespace is set up by; a sync that began earlier has older settings."""
        return uid_of(self.claims.store.get("", name)), self.virtual_clusters.get(vc.name, vc)

    async def _equip(
        self, vc: VirtualCluster, namespace: VirtualNamespace, name: HostNamespace
    ) -> None:
        """Do what has to be before anything is applied there; what is right costs no request."""
        live = self.claims.store.get("", name)
        equipment = uid, current = self._equipment(vc, name)
        await self.rights.ensure(vc.name, namespace, name, uid)
        if live is not None:
            # What the host decides by: the node selector, the Pod Security level.
            key = vocabulary.NODE_SELECTOR_ANNOTATION
            selector = annotations_of(claimed_namespace(current, namespace, self.settings, ""))[key]
            if annotations_of(live).get(key) != selector:
                extra = {"virtual_cluster": vc.name, "namespace": name, "selector": selector}
                _log.info("Correcting node selector of namespace", extra=extra)
                await self._patch(live, {"metadata": {"annotations": {key: selector}}})
            if changes := pod_security_changes(live, current):
                await self._patch(live, {"metadata": changes})
        await self.defaults.ensure(current, namespace, name)
        self._equipped[name] = equipment

    async def _patch(self, live: Object, patch: Object) -> None:
        """Patch a namespace, and not another one that has its name by now."""
        path = NAMESPACES.path(name=live["metadata"]["name"])
        self.claims.store.accept(await self.host.patch_same(path, live, patch))

    async def correct(self, vc: VirtualCluster, namespace: VirtualNamespace) -> None:
        """Correct a claimed namespace, or end its release. Raises RetryError, KubeError."""
        name = self.claims.of(vc.name).get(namespace)
        if name is None:
            return
        async with self._lock(name):
            if self.claims.of(vc.name).get(namespace) != name:
                return
            match self.claims.phase(name):
                case Phase.CLAIMED:
                    await self._equip(vc, namespace, name)
                case Phase.RELEASING:
                    await self._end_release(name)

    async def apply(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object, check: Check
    ) -> Applied | None:
        """Apply the Namespace manifest of a Work; None while it is not needed (OnDemand)."""
        is_claimed = namespace in self.claims.of(vc.name)
        if vc.namespaces != "Always" and not is_claimed and not self._left(vc).get(namespace):
            return None
        name = await self.claim_with_share(vc, namespace, desired)
        async with self._lock(name):
            if self.claims.phase(name) is not Phase.CLAIMED:
                raise RetryError("the claim on its host namespace ended meanwhile")
            live = self.claims.store.get("", name)
            if live is not None and labels_of(live).get(vocabulary.MANAGED_LABEL) != "true":
                # Claimed before its Work arrived, or adopted: the claim is the permission.
                mark = {"metadata": {"labels": {vocabulary.MANAGED_LABEL: "true"}}}
                await self._patch(live, mark)
            try:
                return await self.host_objects.apply(NAMESPACES, desired, check)
            except ForeignError:
                detail = "another virtual cluster claims it"
                raise _refused(Code.NAMESPACE_CLAIM_CONFLICT, detail, name) from None

    async def release(
        self, vc: VirtualCluster, namespace: VirtualNamespace, *, preserve: bool
    ) -> None:
        """Delete a namespace that the agent created, else unclaim it. Raises RetryError."""
        name = self.claims.of(vc.name).get(namespace)
        if name is None:
            return
        async with self._lock(name):
            live, held = self.claims.store.get("", name), self.claims.holder_of(name)
            if live is None or held is None or held[:2] != (vc.name, namespace):
                return
            self._equipped.pop(name, None)
            if self.claims.phase(name) is Phase.TERMINATING:
                return
            with suppress(NotFoundError):
                if preserve or not is_made_by_agent(live):
                    marked = await begin_release(self.host, live, self.settings.agent_name)
                    self.claims.store.accept(marked)
                    await self._end_release(name)
                else:
                    extra = {"virtual_cluster": vc.name, "namespace": name}
                    _log.info("Deleting namespace", extra=extra)
                    await delete_namespace(self.host, live, self.settings.agent_name)

    async def _end_release(self, name: HostNamespace) -> None:
        """Remove what is ours in a namespace, then its claim; callers hold its lock."""
        live, held = self.claims.store.get("", name), self.claims.holder_of(name)
        if live is None or held is None:
            return
        # An earlier attempt may have removed them, and failed after that.
        await self.rights.ensure(held.cluster, held.namespace, name, uid_of(live))
        released = await end_release(self.host, live, self.settings.agent_name)
        self.rights.forget(name)
        self.claims.store.accept(released)

    def _end(self, cluster: str) -> None:
        for name in self.claims.of(cluster).values():
            self._equipped.pop(name, None)

    def forget_all(self) -> None:
        """Forget which namespaces have their default objects: the host went back in time."""
        self._equipped.clear()

    async def may_hold(self, namespace: str) -> bool:
        """Return whether a host namespace may hold something of ours. Raises KubeError."""
        phase = self.claims.phase(namespace)
        if phase is Phase.UNCLAIMED:
            live = await self.host.find(NAMESPACES.path(name=namespace))
            if live is None:
                return False
            phase = self.claims.phase(namespace, live)
        return phase in (Phase.CLAIMED, Phase.RELEASING)

    def _left(self, vc: VirtualCluster) -> Mapping[VirtualNamespace, HostNamespace]:
        return left_behind(self.claims, self.virtual_clusters, vc.name)

    async def _take_over(self, vc: VirtualCluster, live: Object) -> None:
        extra = {"virtual_cluster": vc.name, "namespace": live["metadata"]["name"]}
        _log.info("Taking over namespace of a former name", extra=extra)
        labels, annotations = {vocabulary.CLUSTER_LABEL: vc.name}, {vocabulary.WORK_ANNOTATION: ""}
        await self._patch(live, {"metadata": {"labels": labels, "annotations": annotations}})

    async def _create_or_adopt(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None
    ) -> None:
        desired = desired or claimed_namespace(vc, namespace, self.settings, "")
        name = desired["metadata"]["name"]
        try:
            live = await self.host.create("/api/v1/namespaces", desired)
        except AlreadyExistsError:
            live = await self.host.get(NAMESPACES.path(name=name))
            refuse_taken(vc, namespace, self.settings.agent_name, live)
            if claim_of(live) is None:
                live = await self._adopt(vc, desired, live)
        self.claims.store.accept(live)

    async def _adopt(self, vc: VirtualCluster, desired_namespace: Object, live: Object) -> Object:
        name = live["metadata"]["name"]
        _log.info("Adopting namespace", extra={"virtual_cluster": vc.name, "namespace": name})
        selector = annotations_of(desired_namespace)[vocabulary.NODE_SELECTOR_ANNOTATION]
        annotations: dict[str, str | None] = {
            **dict.fromkeys(_OF_OTHERS & annotations_of(live).keys()),
            vocabulary.ADOPTED_ANNOTATION: "true",
            vocabulary.NODE_SELECTOR_ANNOTATION: selector,
        }
        labels = {
            key: value
            for key, value in labels_of(desired_namespace).items()
            if vocabulary.is_ours(key)
        }
        patch = {"metadata": {"labels": labels, "annotations": annotations}}
        return await self.host.patch_same(NAMESPACES.path(name=name), live, patch)


def _refused(code: Code, detail: str, name: str = "") -> RefusedError:
    return RefusedError(code, "metadata.namespace", detail, name)


def refuse_taken(vc: VirtualCluster, namespace: VirtualNamespace, agent: str, live: Object) -> None:
    """Refuse a host namespace that is claimed otherwise, or that may not be adopted."""
    name, claim = live["metadata"]["name"], claim_of(live)
    if claim is not None and claim != (vc.name, namespace, agent):
        text = "the host namespace is claimed by another virtual cluster, namespace or agent"
        raise _refused(Code.NAMESPACE_CLAIM_CONFLICT, text, name)
    allowed = annotations_of(live).get(vocabulary.ALLOW_ADOPTION_ANNOTATION) == vc.name
    if claim is None and not allowed and name not in vc.adopt_namespaces:
        detail = (
            "its host namespace exists and is not claimed by any virtual cluster; an "
            "administrator can allow it with adoptNamespaces"
        )
        raise _refused(Code.NAMESPACE_NOT_OWNED, detail, name)


DEFAULT_NAMESPACE = VirtualNamespace("default")
"""Karmada never sends a Work for it (contract 10.1), so the agent creates it itself."""


def keys_of_cluster(
    clusters: HubClusters,
    claims: Claims,
    virtual_clusters: Mapping[str, VirtualCluster],
    old: Object | None,
    new: Object | None,
) -> Iterator[Pair]:
    """Yield `default` and what is to be taken over of a virtual cluster whose Cluster is ours."""
    cluster = new or old
    name = cluster["metadata"]["name"] if cluster else ""
    if name in virtual_clusters and clusters.ours(name) is not None:
        for namespace in (DEFAULT_NAMESPACE, *left_behind(claims, virtual_clusters, name)):
            yield name, namespace


def keys_of_namespace(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[Pair]:
    """Yield the virtual namespaces that a host namespace is, or was, claimed for."""
    for claim in claims_in(old, new):
        if claim.cluster in virtual_clusters:
            yield claim.cluster, claim.namespace


def keys_of_object(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[Pair]:
    """Yield the virtual namespace of a default object that changed."""
    obj = new or old or {}
    labels = labels_of(obj)
    cluster = labels.get(vocabulary.CLUSTER_LABEL, "")
    if cluster in virtual_clusters and gvk_of(obj) in RESOURCES:
        yield cluster, VirtualNamespace(labels.get(vocabulary.NAMESPACE_LABEL, ""))


async def reconcile_namespace(
    writer: NamespaceWriter,
    claims: Claims,
    virtual_clusters: Mapping[str, VirtualCluster],
    is_registered: Callable[[str], bool],
    pair: Pair,
) -> None:
    """Correct a claimed namespace; create `default`, take over what a former name had."""
    cluster, namespace = pair
    vc = virtual_clusters.get(cluster)
    if vc is None:
        return
    if namespace in claims.of(cluster):
        await writer.correct(vc, namespace)
        return
    is_left = namespace in left_behind(claims, virtual_clusters, cluster)
    is_default = namespace == DEFAULT_NAMESPACE and vc.namespaces == "Always"
    if (is_left or is_default) and is_registered(cluster):
        try:
            await writer.claim(vc, namespace)
        except RefusedError as error:
            raise RetryError(error.refusal.detail) from error
