"""Writes the default objects of claimed namespaces, and deletes those no longer desired."""

import logging

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import AlreadyExistsError, NotFoundError
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.translation.namespace_defaults import (
    DEFAULT_KINDS,
    QUOTA_NAME,
    empty_quota,
    namespace_defaults,
)
from karmada_vc_agent.work.live_objects import LiveObjects, StoreOf

_log = logging.getLogger(__name__)

_WATCHED = frozenset(("list", "watch"))
_PLURALS = ("resourcequotas", "limitranges", "networkpolicies", "rolebindings")
RESOURCES = {
    gvk: Resource(gvk, plural, namespaced=True, verbs=_WATCHED)
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


class DefaultObjects:
    """Keeps the default objects of single namespaces; their only writer.

    Except for the content of a quota, which depends on the other namespaces of the virtual cluster:
    it is created with zeros, and the quotas controller fills it, which `divisions` waits for.
    store_of: the informer store of a resource, with the objects that carry our label.
    """

    def __init__(
        self,
        host: ApiClient,
        store_of: StoreOf,
        settings: TranslationSettings,
        divisions: NamespaceShares,
    ) -> None:
        self._host = host
        self._objects = LiveObjects(host, store_of)
        self._settings = settings
        self.divisions = divisions

    async def ensure(
        self, vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace
    ) -> None:
        """Create or correct the default objects of a namespace. Raises KubeError."""
        desired = namespace_defaults(
            vc,
            virtual,
            host,
            self._settings.infrastructure,
            self._settings.pod_cidrs,
            self._settings.gateway,
        )
        if vc.quota:  # before anyone is bound who may create what it counts
            await self._make_quota(vc, virtual, host)
        for obj in desired:
            await self._correct(vc, obj)
        kept = {(gvk_of(obj), obj["metadata"]["name"]) for obj in desired}
        if vc.quota:
            kept.add((QUOTAS.gvk, QUOTA_NAME))
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
        if _is_right(desired, live):
            return
        extra = {"virtual_cluster": vc.name, "namespace": namespace, "object": name}
        _log.info("Correcting default of namespace", extra=extra)
        path = resource.path(namespace, name)
        if live.get("roleRef") != desired.get("roleRef"):
            await self._host.delete(path)  # roleRef is immutable
            live = await self._create(resource, desired)
        else:
            version = live["metadata"]["resourceVersion"]
            metadata = {**desired["metadata"], "resourceVersion": version}
            live = await self._host.replace(path, {**desired, "metadata": metadata})
        self._observe(resource, live)

    async def _make_quota(
        self, vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace
    ) -> None:
        live = await self._objects.get(QUOTAS, host, QUOTA_NAME)
        desired = empty_quota(vc, virtual, host)
        if live is None:
            self.divisions.expect(vc.name, host)
            live = await self._create(QUOTAS, desired)
        labels = desired["metadata"]["labels"]
        if not labels.items() <= labels_of(live).items():
            patch = {"metadata": {"labels": labels}}
            path = QUOTAS.path(host, QUOTA_NAME)
            self._observe(QUOTAS, await self._host.merge_patch(path, patch))

    async def _remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete a default object in the informer, which holds only objects with our label."""
        if self._objects.cached(resource, namespace, name) is None:
            return
        _log.info("Removing default of namespace", extra={"namespace": namespace, "object": name})
        try:
            await self._host.delete(resource.path(namespace, name))
        except NotFoundError:
            return

    async def _create(self, resource: Resource, desired: Object) -> Object:
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        try:
            live = await self._host.create(resource.path(namespace), desired)
        except AlreadyExistsError:
            return await self._host.get(resource.path(namespace, name))
        self._observe(resource, live)
        return live

    def _observe(self, resource: Resource, live: Object) -> None:
        if CLUSTER_LABEL in labels_of(live):  # otherwise no informer has it
            self._objects.observe(resource, live)


def _is_right(desired: Object, live: Object) -> bool:
    if any(desired.get(part) != live.get(part) for part in _CONTENT):
        return False
    return bool(labels_of(desired).items() <= labels_of(live).items())
