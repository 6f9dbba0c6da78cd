"""The sole writer of host namespaces: claim, correct, release (rewriting-rules 1).

The claim labels on a host namespace are the source of truth.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from cachetools import LRUCache

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.virtual_clusters import (
    Claims,
    Phase,
    Scopes,
    claim_of,
    claims_in,
    former_names,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    NotFoundError,
)
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    Object,
    annotations_of,
    gvk_of,
    labels_of,
    uid_of,
)
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.vocabulary import (
    ADOPTED_ANNOTATION,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    NAMESPACE_LABEL,
    NODE_SELECTOR_ANNOTATION,
    WORK_ANNOTATION,
    is_ours,
)
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent, pod_security_changes
from karmada_vc_agent.translation.translate import claimed_namespace
from karmada_vc_agent.work import namespace_content
from karmada_vc_agent.work.host_objects import Applied, Check, HostObjects
from karmada_vc_agent.work.namespace_content import (
    DefaultObjects,
    NamespaceRights,
    begin_release,
    delete_namespace,
    end_release,
)
from karmada_vc_agent.work.rules.apply_plan import ForeignError

_log = logging.getLogger(__name__)

NAMESPACES = Resource(NAMESPACE, "namespaces", namespaced=False)
REMEMBERED = 16_384
"""Namespaces whose defaults are recorded; one that is dropped has them checked once more."""

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
    """Claims host namespaces, corrects the claimed ones, and releases them.

    Each acts by its phase (cluster/virtual_clusters.py), one at a time for each namespace.
    """

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
            raise _refused(
                Code.NAMESPACE_CLAIM_CONFLICT,
                "two host namespaces have the claim for this namespace",
            )
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
                raise RetryError(
                    f"{Code.NAMESPACE_TERMINATING}: the namespace is being deleted on the host"
                )
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
        """Set a claimed host namespace up, and keep it so while rights in it are granted.

        Yields False for one that is not claimed any more, which is left alone. Raises as `correct`.
        """
        async with self._lock(name):
            held = self.claims.holder_of(name)
            is_claimed = (
                held is not None
                and held.cluster == vc.name
                and self.claims.phase(name) is Phase.CLAIMED
            )
            if held is not None and is_claimed and not self._is_equipped(vc, name):
                await self._equip(vc, held.namespace, name)
            yield is_claimed

    @asynccontextmanager
    async def _owning(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None = None
    ) -> AsyncIterator[HostNamespace]:
        """Hold the lock of the host namespace that is, or will be, claimed for a virtual one."""
        while True:
            name = self._place_of(vc, namespace, desired)
            async with self._lock(name):
                if self._place_of(vc, namespace, desired) == name:
                    yield name
                    return

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _place_of(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None
    ) -> HostNamespace:
        """Return the host namespace that has the claim, or would get it."""
        name = self.claims.of(vc.name).get(namespace) or self._left(vc).get(namespace)
        return name or HostNamespace(self._desired(vc, namespace, desired)["metadata"]["name"])

    def _desired(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None
    ) -> Object:
        return desired or claimed_namespace(vc, namespace, self.settings, "")

    def _is_equipped(self, vc: VirtualCluster, name: HostNamespace) -> bool:
        """Return whether a claimed namespace is set up by the current settings; no request."""
        is_claimed = self.claims.phase(name) is Phase.CLAIMED
        return is_claimed and self._equipped.get(name) == self._equipment(vc, name)

    def _equipment(self, vc: VirtualCluster, name: HostNamespace) -> tuple[str, VirtualCluster]:
        """Return what a namespace is set up by; a sync that began earlier has older settings."""
        live = self.claims.store.get("", name)
        return uid_of(live), self.virtual_clusters.get(vc.name, vc)

    async def _equip(
        self, vc: VirtualCluster, namespace: VirtualNamespace, name: HostNamespace
    ) -> None:
        """Do what has to be before anything is applied there; what is right costs no request.

        What is admitted before is not checked again.
        """
        live = self.claims.store.get("", name)
        equipment = uid, current = self._equipment(vc, name)
        await self.rights.ensure(vc.name, namespace, name, uid)
        if live is not None:
            await self._correct_metadata(current, namespace, live)
        await self.defaults.ensure(current, namespace, name)
        self._equipped[name] = equipment

    async def _correct_metadata(
        self, vc: VirtualCluster, namespace: VirtualNamespace, live: Object
    ) -> None:
        """Correct what the host decides by: the node selector, the Pod Security level."""
        name = live["metadata"]["name"]
        desired = annotations_of(claimed_namespace(vc, namespace, self.settings, ""))
        selector = desired[NODE_SELECTOR_ANNOTATION]
        if annotations_of(live).get(NODE_SELECTOR_ANNOTATION) != selector:
            _log.info(
                "Correcting node selector of namespace",
                extra={"virtual_cluster": vc.name, "namespace": name, "selector": selector},
            )
            patch = {"metadata": {"annotations": {NODE_SELECTOR_ANNOTATION: selector}}}
            await self._patch(live, patch)
        changes = pod_security_changes(live, vc)
        if changes:
            await self._patch(live, {"metadata": changes})

    async def _patch(self, live: Object, patch: Object) -> None:
        """Patch a namespace, and not another one that has its name by now."""
        path = _path(live["metadata"]["name"])
        self.claims.store.accept(await self.host.patch_same(path, live, patch))

    async def correct(self, vc: VirtualCluster, namespace: VirtualNamespace) -> None:
        """Correct a claimed namespace: our rights, node selector, Pod Security, default objects.

        Ends a release that was begun. Raises RetryError, KubeError.
        """
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
        """Apply the Namespace manifest of a Work; None while it is not needed (OnDemand).

        desired: the host Namespace object. Raises the errors of `claim` and `check`.
        """
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
        """Release a namespace without a Work: delete what the agent created, else unclaim it.

        Raises RetryError, KubeError; ConflictError if another one has its name.
        """
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
                    self.claims.store.accept(
                        await begin_release(self.host, live, self.settings.agent_name)
                    )
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
        """Return whether a host namespace may hold something of ours that is to be removed.

        Not if it is not claimed, or being deleted with all that is in it. Raises KubeError.
        """
        phase = self.claims.phase(namespace)
        if phase is Phase.UNCLAIMED:
            try:
                live = await self.host.get(_path(namespace))
            except NotFoundError:
                return False
            phase = self.claims.phase(namespace, live)
        return phase in (Phase.CLAIMED, Phase.RELEASING)

    def _left(self, vc: VirtualCluster) -> Mapping[VirtualNamespace, HostNamespace]:
        """Return what a virtual cluster claimed under earlier names."""
        return left_behind(self.claims, self.virtual_clusters, vc.name)

    async def _take_over(self, vc: VirtualCluster, live: Object) -> None:
        """Change the claim of an earlier name into one of the name of now.

        Another Work made it: the next one enters itself.
        """
        _log.info(
            "Taking over namespace of a former name",
            extra={"virtual_cluster": vc.name, "namespace": live["metadata"]["name"]},
        )
        patch = {
            "metadata": {
                "labels": {CLUSTER_LABEL: vc.name},
                "annotations": {WORK_ANNOTATION: ""},
            }
        }
        await self._patch(live, patch)

    async def _create_or_adopt(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None
    ) -> None:
        desired_namespace = self._desired(vc, namespace, desired)
        name = desired_namespace["metadata"]["name"]
        try:
            live = await self.host.create("/api/v1/namespaces", desired_namespace)
        except AlreadyExistsError:
            live = await self.host.get(_path(name))
            claim = claim_of(live)
            if claim is not None:
                if claim != (vc.name, namespace, self.settings.agent_name):
                    raise _refused(
                        Code.NAMESPACE_CLAIM_CONFLICT,
                        "the host namespace is claimed by another virtual cluster, namespace or "
                        "agent",
                        name,
                    ) from None
            else:
                live = await self._adopt(vc, desired_namespace, live)
        self.claims.store.accept(live)

    async def _adopt(self, vc: VirtualCluster, desired_namespace: Object, live: Object) -> Object:
        name = live["metadata"]["name"]
        allowed = annotations_of(live).get(ALLOW_ADOPTION_ANNOTATION) == vc.name
        if not allowed and name not in vc.adopt_namespaces:
            detail = (
                "its host namespace exists and is not claimed by any virtual cluster; an "
                "administrator can allow it with adoptNamespaces"
            )
            raise _refused(Code.NAMESPACE_NOT_OWNED, detail, name)
        _log.info("Adopting namespace", extra={"virtual_cluster": vc.name, "namespace": name})
        annotations: dict[str, str | None] = {
            **dict.fromkeys(_OF_OTHERS & annotations_of(live).keys()),
            ADOPTED_ANNOTATION: "true",
            NODE_SELECTOR_ANNOTATION: annotations_of(desired_namespace)[NODE_SELECTOR_ANNOTATION],
        }
        labels = {key: value for key, value in labels_of(desired_namespace).items() if is_ours(key)}
        patch = {"metadata": {"labels": labels, "annotations": annotations}}
        return await self.host.patch_same(_path(name), live, patch)


def _path(name: str) -> str:
    return f"/api/v1/namespaces/{name}"


def _refused(code: Code, detail: str, name: str = "") -> RefusedError:
    """Return the error of a refusal that depends on the host namespace `name`."""
    return RefusedError(code, "metadata.namespace", detail, name)


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
    cluster = labels.get(CLUSTER_LABEL, "")
    if cluster in virtual_clusters and gvk_of(obj) in namespace_content.RESOURCES:
        yield cluster, VirtualNamespace(labels.get(NAMESPACE_LABEL, ""))


async def reconcile_namespace(
    writer: NamespaceWriter,
    claims: Claims,
    virtual_clusters: Mapping[str, VirtualCluster],
    is_registered: Callable[[str], bool],
    pair: Pair,
) -> None:
    """Correct one claimed namespace; create `default`, take over what a former name had.

    is_registered: the Cluster of a virtual cluster is on the hub and not being deleted.
    """
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
