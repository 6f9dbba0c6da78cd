"""The agent's own way from manifest to host, by requests that change nothing."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from karmada_vc_agent.cluster import host_objects, virtual_clusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.discovery import Discovery, Resource, items_unless_absent
from karmada_vc_agent.kube.errors import NotFoundError, NotServedError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, labels_of
from karmada_vc_agent.model.virtual_cluster import (
    STRICT,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.runner.common import TranslationContexts, translation_settings
from karmada_vc_agent.translation.kind_policy import RefusedError, is_cluster_scoped
from karmada_vc_agent.translation.translate import claimed_namespace
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.manifests import Manifests, ReportedObjects
from karmada_vc_agent.work.namespace_writer import NAMESPACES, NamespaceWriter, refuse_taken
from karmada_vc_agent.work.reporting import Done, WindowGate, WorkManifest
from karmada_vc_agent.work.shared_objects import SharedNames, SharedObjects

_IN_NAMESPACE = re.compile("/namespaces/([^/]+)/")
_SLASHES_OF_GROUP = 2

Change = tuple[Object | None, Object]
"""An object of the host before, None = it has none, and after."""


class DryClient(ApiClient):
    """A client whose writes are dry runs. is_offline: of a host that has nothing and takes all.

    account: whose rights are used, "" = those of the kubeconfig. ready: host namespaces in which
    the agent has its rights already. changes: what was written. is_checked: whether the host judged
    all of it: it cannot judge what only an earlier write makes possible.
    """

    is_offline = False
    account = ""
    ready: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Forget what was written, before the next manifest."""
        self.changes: list[Change] = []
        self.is_checked = not self.is_offline
        self._seen: dict[str, Object] = {}

    async def _call(self, request: Any) -> bytes:
        if request.method == "GET":
            return await self._read(request)
        query = {**(request.query or {}), "dryRun": "All"}
        dry = replace(request, query=query, as_user=request.as_user or self.account)
        namespace, answer = _IN_NAMESPACE.search(request.path), None
        if not self.is_offline and (namespace is None or namespace[1] in self.ready):
            with suppress(NotFoundError):  # such as a role that the plan has, too
                answer = await super()._call(dry)
        self.is_checked &= answer is not None
        answer = answer or json.dumps(request.body).encode()
        self.changes.append((self._seen.get(request.path), json.loads(answer)))
        return answer

    async def _read(self, request: Any) -> bytes:
        if self.is_offline:
            is_group = request.path.count("/") == _SLASHES_OF_GROUP
            raise (NotServedError if is_group else NotFoundError)(404, "NotFound", request.path)
        answer = await super()._call(request)
        live = self._seen[request.path] = json.loads(answer)
        if request.path.rpartition("/")[0] == NAMESPACES.path():  # its claim marks it first
            live["metadata"]["labels"] = labels_of(live) | {vocabulary.MANAGED_LABEL: "true"}
        return json.dumps(live).encode()


class _Kinds(Discovery):
    """What the host serves and what the plan defines; without a host, what the tables have."""

    defined: Mapping[GroupKind, bool] = {}
    is_offline = False

    def cached(self, gvk: GroupVersionKind) -> Resource | None:
        served, scope = super().cached(gvk), self.defined.get(gvk.group_kind)
        if served is not None or (scope is None and not self.is_offline):
            return served
        namespaced = not is_cluster_scoped(gvk) if scope is None else scope
        return Resource(gvk, vocabulary.plural(gvk.group_kind), namespaced)

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        return self.cached(gvk)


class _Namespaces(NamespaceWriter):
    """Claims namespaces in the store alone, and sets nothing up in them."""

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
        pass

    @asynccontextmanager
    async def equipped(self, vc: VirtualCluster, name: HostNamespace) -> AsyncIterator[bool]:
        yield name in self.claims.of(vc.name).values()


class Rehearsal:
    """Applies manifests as the agent does. defined: whether kinds of the plan are in namespaces."""

    def __init__(
        self,
        config: AgentConfig,
        vcs: Iterable[VirtualCluster],
        host: DryClient,
        defined: Mapping[GroupKind, bool],
    ) -> None:
        self.host, registry = host, virtual_clusters.VirtualClusters(vcs)
        self._account = config.agent_namespace, config.agent_name
        self._vcs, is_strict = registry, config.tenancy == STRICT
        self._nodes: Store[Node] = Store(
            Codec(Node), {host_objects.ADDRESS_INDEX: host_objects.addresses_of}
        )
        self._spaces: Store[Object] = Store(RawCodec())
        self._groups: Store[Object] = Store(RawCodec())
        self._claims = virtual_clusters.Claims(self._spaces, config.agent_name)
        membership = virtual_clusters.Membership(registry, self._nodes, lambda _cluster: "")
        self._kinds, self._bound_to = _Kinds(host), dict[str, str]()
        self._kinds.defined, self._kinds.is_offline = defined, host.is_offline
        server = (urlsplit(host.credentials.server).hostname,)
        addresses = host_objects.HostAddresses(self._nodes, server, membership.owner_of)
        settings, scopes = translation_settings(config), virtual_clusters.Scopes()
        contexts = TranslationContexts(
            *(settings, membership, self._claims, addresses, lambda *_: False, self._bound_to.get),
            *(self._kinds, lambda _: self._groups, lambda: None, registry),
        )
        objects = HostObjects(
            host,
            lambda _: None,
            allow_of=lambda cluster: registry[cluster].allow if is_strict else None,
            former_names=partial(virtual_clusters.former_names, registry),
            scopes=scopes,
        )
        nothing = cast("Any", None)  # what sets namespaces up
        self._namespaces = _Namespaces(
            host, self._claims, objects, settings, nothing, nothing, registry, scopes
        )
        shared = SharedObjects(host, lambda _: None, lambda _: None, scopes=scopes)
        names = SharedNames(InformerSet(host, {}, lambda *_: None), self._kinds, lambda _: None)
        self._manifests = Manifests(
            *(objects, shared, self._namespaces, self._kinds.find, self._kinds),
            *(contexts.context_for, membership.lost_node, names, WindowGate()),
            *(ReportedObjects(scopes), scopes),
        )

    async def read(self) -> None:
        """Read what translations depend on. Raises KubeError."""
        self.host.begin()
        self._groups.is_synced = True
        if self.host.is_offline:
            names = dict.fromkeys(name for vc in self._vcs.values() for name in vc.node_names)
            nodes: list[Any] = [{"metadata": {"name": name}} for name in names]
        else:
            await self._kinds.refresh()
            nodes = (await self.host.get("/api/v1/nodes"))["items"]
            spaces = (await self.host.get("/api/v1/namespaces"))["items"]
            head = {"apiVersion": "v1", "kind": "Namespace"}
            self._spaces.seed(head | each for each in spaces)
            self.host.refusal = self._claims.refusal
            self.host.ready = frozenset(
                host for name in self._claims.clusters() for host in self._claims.of(name).values()
            )
            namespace, name = self._account
            if await self.host.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"):
                self.host.account = vocabulary.service_account_user(namespace, name)
            groups = self._kinds.served.by_kind.get(virtual_clusters.NODE_GROUP)
            if groups is not None:
                self._groups.seed(await items_unless_absent(self.host, groups.path()) or ())
        self._nodes.seed(msgspec.convert(nodes, list[Node]))

    async def claim(self, vc: VirtualCluster, namespace: str) -> None:
        """Claim a namespace before anything is translated; its objects are refused if it cannot."""
        with suppress(RefusedError):
            await self._namespaces.claim_with_share(vc, VirtualNamespace(namespace))

    async def apply(self, vc: VirtualCluster, manifest: Object, work: str) -> Done:
        """Return how a manifest is applied; `host` has the writes. Raises UnreachableError."""
        self._bound_to[work] = manifest["metadata"].get("namespace") or ""
        self.host.begin()
        done, _ = await self._manifests.apply(WorkManifest(vc, manifest, work))
        return done
