"""What the agent would write: its own way from manifest to host, with writes that change nothing.

Without a host each object is as if the host had none. With one, its server answers dry runs, but
for what only an earlier object of the plan makes possible, such as what is in a new namespace.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from karmada_vc_agent.cluster.host_objects import ADDRESS_INDEX, HostAddresses, addresses_of
from karmada_vc_agent.cluster.virtual_clusters import (
    NODE_GROUP,
    Claims,
    Membership,
    Scopes,
    VirtualClusters,
    former_names,
)
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.discovery import Discovery, Resource, items_unless_absent
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    key_of,
    labels_of,
    metadata_map,
)
from karmada_vc_agent.model.virtual_cluster import (
    STRICT,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.model.vocabulary import MANAGED_LABEL, is_karmada_key, plural
from karmada_vc_agent.runner.common import TranslationContexts, translation_settings
from karmada_vc_agent.translation.kind_policy import RefusedError, is_cluster_scoped
from karmada_vc_agent.translation.rbac_rules import Allow
from karmada_vc_agent.translation.translate import claimed_namespace
from karmada_vc_agent.work.host_objects import Applied, Check, HostObjects
from karmada_vc_agent.work.manifests import Manifests, ReportedObjects
from karmada_vc_agent.work.namespace_writer import NAMESPACES, NamespaceWriter, refuse_taken
from karmada_vc_agent.work.reporting import Done, Target, WindowGate, WorkManifest
from karmada_vc_agent.work.shared_objects import SharedNames, SharedObjects


class DryClient(ApiClient):
    """A client all of whose writes are dry runs."""

    async def _call(self, request: Any) -> bytes:
        if request.method != "GET":
            request = replace(request, query={**(request.query or {}), "dryRun": "All"})
        return await super()._call(request)


class _Kinds(Discovery):
    """What the host serves and what the plan defines; without a host, what the tables have."""

    defined: Mapping[GroupKind, bool] = {}
    is_offline = True

    def cached(self, gvk: GroupVersionKind) -> Resource | None:
        served, scope = super().cached(gvk), self.defined.get(gvk.group_kind)
        if served is not None or (scope is None and not self.is_offline):
            return served
        namespaced = not is_cluster_scoped(gvk) if scope is None else scope
        return Resource(gvk, plural(gvk.group_kind), namespaced)

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        return self.cached(gvk)


@dataclass(eq=False)
class _Objects(HostObjects):
    """Host objects before and after. may_hold: whether the host has a namespace, "" = it is there.

    changes: (live object or None, what it becomes, whether the host answered), the newest last.
    """

    may_hold: Callable[[str], bool] = lambda _: False
    changes: list[tuple[Object | None, Object, bool]] = field(default_factory=list)

    async def live(self, resource: Resource, namespace: str, name: str) -> Object | None:
        live = await super().live(resource, namespace, name) if self.may_hold(namespace) else None
        if live is not None and resource.gvk == NAMESPACES.gvk:
            metadata_map(live, "labels")[MANAGED_LABEL] = "true"  # the claim is the permission
        return live

    async def apply(
        self, resource: Resource, desired: Object, check: Check, as_user: str = ""
    ) -> Applied:
        _, namespace, name = key_of(desired)
        live = await self.live(resource, namespace, name)
        for field_name in ("labels", "annotations"):  # ids, which only the hub has
            given = ((live or {}).get("metadata") or {}).get(field_name) or {}
            kept = {key: value for key, value in given.items() if is_karmada_key(key)}
            metadata_map(desired, field_name).update(kept | metadata_map(desired, field_name))
        applied, is_answered = None, self.may_hold(namespace)
        if is_answered:
            with suppress(NotFoundError):  # such as a role that the plan makes, too
                applied = await super().apply(resource, desired, check, as_user)
        applied, is_answered = applied or Applied(check(desired, live), True), applied is not None
        self.changes.append((live, applied.live, is_answered))
        return applied


class _Namespaces(NamespaceWriter):
    """Claims namespaces in the store alone."""

    async def claim_with_share(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object | None = None
    ) -> HostNamespace:
        if (place := self.claims.of(vc.name).get(namespace)) is not None:
            return place
        made = desired or claimed_namespace(vc, namespace, self.settings)
        name = made["metadata"]["name"]
        live = self.claims.store.get("", name)
        if live is not None:
            refuse_taken(vc, namespace, self.settings.agent_name, live)
            made = {**live, "metadata": live["metadata"] | {"labels": labels_of(made)}}
        self.claims.store.accept(made)
        return HostNamespace(name)

    async def _patch(self, live: Object, patch: Object) -> None:
        """Change nothing: the host answers for the whole object."""

    @asynccontextmanager
    async def equipped(self, vc: VirtualCluster, name: HostNamespace) -> AsyncIterator[bool]:
        yield name in self.claims.of(vc.name).values()


class Rehearsal:
    """Applies manifests as the agent does; defined: whether kinds of the plan are in namespaces."""

    def __init__(
        self,
        config: AgentConfig,
        vcs: Iterable[VirtualCluster],
        host: ApiClient,
        defined: Mapping[GroupKind, bool],
        *,
        is_offline: bool,
    ) -> None:
        self._host, self.is_offline = host, is_offline
        self._vcs, self._strict = VirtualClusters(vcs), config.tenancy == STRICT
        self._nodes: Store[Node] = Store(Codec(Node), {ADDRESS_INDEX: addresses_of})
        self._spaces: Store[Object] = Store(RawCodec())
        self._groups: Store[Object] = Store(RawCodec())
        self._claims = Claims(self._spaces, config.agent_name)
        self._membership = Membership(self._vcs, self._nodes, lambda _cluster: "")
        self.kinds = _Kinds(host)
        self.kinds.defined, self.kinds.is_offline = defined, is_offline
        self._existing: frozenset[str] = frozenset()
        self._bound_to: dict[str, str] = {}
        server = () if is_offline else (urlsplit(host.credentials.server).hostname,)
        self._contexts = TranslationContexts(
            translation_settings(config),
            self._membership,
            self._claims,
            HostAddresses(self._nodes, server, self._membership.owner_of),
            lambda *_: False,
            self._bound_to.get,
            self.kinds,
            lambda _resource: self._groups,
            lambda: None,
            self._vcs,
        )
        self._prepare()

    def _prepare(self) -> None:
        host, scopes, former = self._host, Scopes(), partial(former_names, self._vcs)
        self._objects = _Objects(
            host,
            lambda _: None,
            allow_of=self._allow_of,
            former_names=former,
            scopes=scopes,
            may_hold=lambda name: not self.is_offline and name in self._existing,
        )
        shared = SharedObjects(host, lambda _: None, lambda _: None, scopes=scopes)
        if self.is_offline:
            shared = cast("SharedObjects", _Unshared(self._objects))
        informers, settings = InformerSet(host, {}, lambda *_: None), self._contexts.settings
        nothing = cast("Any", None)  # what is set up in a namespace is no part of a plan
        self._namespaces = _Namespaces(
            host, self._claims, self._objects, settings, nothing, nothing, self._vcs, scopes
        )
        self._manifests = Manifests(
            self._objects,
            shared,
            self._namespaces,
            self.kinds.find,
            self.kinds,
            self._contexts.context_for,
            self._membership.lost_node,
            SharedNames(informers, self.kinds, lambda _: None),
            WindowGate(),
            ReportedObjects(scopes),
            scopes,
        )

    def _allow_of(self, cluster: str) -> Allow:
        return self._vcs[cluster].allow if self._strict else None

    async def read(self) -> None:
        """Read what translations depend on. Raises KubeError."""
        self._groups.is_synced = True
        if self.is_offline:
            names = dict.fromkeys(name for vc in self._vcs.values() for name in vc.node_names)
            nodes: list[Any] = [{"metadata": {"name": name}} for name in names]
        else:
            await self.kinds.refresh()
            nodes = (await self._host.get("/api/v1/nodes"))["items"]
            spaces = (await self._host.get("/api/v1/namespaces"))["items"]
            head = {"apiVersion": "v1", "kind": "Namespace"}
            self._spaces.seed(head | each for each in spaces)
            self._existing = frozenset(["", *(each["metadata"]["name"] for each in spaces)])
            self._host.refusal = self._claims.refusal
            if (groups := self.kinds.served.by_kind.get(NODE_GROUP)) is not None:
                self._groups.seed(await items_unless_absent(self._host, groups.path()) or ())
        self._nodes.seed(msgspec.convert(nodes, list[Node]))

    async def claim(self, vc: VirtualCluster, namespace: str) -> None:
        """Claim a namespace before anything is translated; a refusal is raised for its objects."""
        with suppress(RefusedError):
            await self._namespaces.claim_with_share(vc, VirtualNamespace(namespace))

    async def apply(
        self, vc: VirtualCluster, manifest: Object, work: str
    ) -> tuple[Done, list[tuple[Object | None, Object, bool]]]:
        """Return how a manifest is applied, and each object before and after.

        Raises UnreachableError.
        """
        self._bound_to[work] = manifest["metadata"].get("namespace") or ""
        self._objects.changes.clear()
        item = WorkManifest(vc, manifest, work)
        done, _ = await self._manifests.apply(item)
        changes = list(self._objects.changes)
        if isinstance(done, Applied) and not changes and isinstance(item.translation, Target):
            changes = [(None, done.live, not self.is_offline)]  # a shared one
        return done, changes


@dataclass(eq=False)
class _Unshared:
    """Shared objects where there is no host that others could share them on."""

    objects: _Objects

    async def apply(
        self, resource: Resource, desired: Object, _cluster: str, _work: str, check: Check, _: str
    ) -> Applied:
        return await self.objects.apply(resource, desired, check)
