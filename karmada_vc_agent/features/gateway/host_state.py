"""What the gateway caches of the host, and its view of one virtual cluster.

One Secret of the agent (features/gateway/tokens.py) has the valid tokens, and the virtual clusters
that are not in the settings file. Nothing is read from the hub.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

from cachetools import TTLCache

from karmada_vc_agent.access.agent_objects import secret_name
from karmada_vc_agent.cluster.host_objects import ADDRESS_INDEX, HostAddresses, addresses_of
from karmada_vc_agent.cluster.registration import VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import Claim, Claims, Membership, VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    Sealer,
    UnknownNamespacesError,
    View,
)
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo
from karmada_vc_agent.features.gateway.tokens import TokenSum, clusters_of, sealing_key_of, sums_of
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.flows import Supervisor
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object, labels_of, parse_api_version
from karmada_vc_agent.model.virtual_cluster import ClaimedNamespaces, VirtualCluster
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, CLUSTER_ROLES_PATH, random_suffix
from karmada_vc_agent.runner.common import TranslationContexts, translation_settings
from karmada_vc_agent.translation.context import (
    ANCHOR_NAMESPACE,
    TranslationContext,
    host_namespace,
)
from karmada_vc_agent.translation.rbac import absorbed_name
from karmada_vc_agent.work.served_kinds import ServedKinds

_log = logging.getLogger(__name__)

NAMESPACES_PATH = "/api/v1/namespaces"
DISCOVERY_AGE_S = 10.0
"""How old an answer may be before an unknown kind refreshes discovery (5)."""
RELEASED_S, RELEASED = 600.0, 10_000
"""Deleted namespaces are remembered this long: events of their objects arrive later."""


class HostState:
    """Caches of the host.

    claims_changed: a virtual cluster one of whose namespaces was adopted or released, after it had
    been there. unserved: a virtual cluster that is no longer served.
    """

    def __init__(self, config: AgentConfig, host: ApiClient, supervisor: Supervisor) -> None:
        raw = RawCodec()
        node_codec: Codec[Node] = Codec(Node)
        self.settings = translation_settings(config)
        self.virtual_clusters = VirtualClusters()
        sources = VirtualClusterSources(self.virtual_clusters)
        self.file = sources.add("the settings file")
        """The virtual clusters of the settings file."""
        self._from_secret = sources.add("another object")
        self.namespaces: Store[Object] = Store(raw)
        self.nodes: Store[Node] = Store(node_codec, {ADDRESS_INDEX: addresses_of})
        self.secrets: Store[Object] = Store(raw)
        self.roles: Store[Object] = Store(raw)
        self.claims_changed: Signal[[str]] = Signal()
        self.unserved: Signal[[str]] = Signal()
        self.claims = Claims(self.namespaces, config.agent_name)
        self.membership = Membership(self.virtual_clusters, self.nodes, lambda _: "")
        self.addresses = HostAddresses(
            self.nodes, (urlsplit(host.credentials.server).hostname,), self.membership.owner_of
        )
        self.discovery = Discovery(host)
        self._kinds: tuple[ServedApis | None, dict[str, dict[tuple[str, str], KindInfo]]]
        self._kinds = None, {}
        self.sealing_key: bytes | None = None
        self.version = 0
        """Counts what changes the facts that a translation rests on."""
        self._host = host
        self.released: TTLCache[str, Claim] = TTLCache(RELEASED, RELEASED_S)
        self._sums: dict[str, tuple[TokenSum, ...]] = {}
        self.membership.changed.subscribe(self.membership.refresh_taints)
        self._group_informers = InformerSet(host, {}, lambda *_: None, supervisor=supervisor)
        self._served_kinds = ServedKinds(host, self.discovery, lambda _: None)
        self.contexts = TranslationContexts(
            self.settings,
            self.membership,
            self.claims,
            self.addresses,
            lambda _cluster, _work: False,
            lambda _work: None,
            self.discovery,
            self._group_informers.store,
            lambda: None,
            self.virtual_clusters,
        )
        secrets = f"{NAMESPACES_PATH}/{quote(config.agent_namespace)}/secrets"
        ours = {"fieldSelector": f"metadata.name={secret_name(config.agent_name)}"}
        self.reflectors: tuple[Reflector[Any], ...] = (
            Reflector(host, NAMESPACES_PATH, raw, self.namespaces),
            Reflector(host, "/api/v1/nodes", node_codec, self.nodes),
            Reflector(host, secrets, raw, self.secrets, ours),
            Reflector(host, CLUSTER_ROLES_PATH, raw, self.roles, {"labelSelector": CLUSTER_LABEL}),
        )
        self.membership.changed.subscribe(self._facts_changed)
        self.virtual_clusters.changed.subscribe(self._facts_changed)
        self.virtual_clusters.changed.subscribe(self._registry_changed)
        self.namespaces.add_handler(self._facts_changed)
        self.namespaces.add_handler(self._namespace_changed)
        self.secrets.add_handler(self._secret_changed)

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what follows the host: name -> coroutine."""
        reflectors = {f"reflector {each.path}": each.run for each in self.reflectors}
        return {
            **reflectors,
            "informers of node groups": self._group_informers.run,
            "served kinds": self._served_kinds.run,
        }

    def unlisted(self) -> list[str]:
        """Return the paths whose first list has not arrived yet."""
        return [each.path for each in self.reflectors if not each.is_synced]

    def sums_of(self, cluster: str) -> tuple[TokenSum, ...]:
        """Return the sums of the tokens of a virtual cluster; none if it is not served."""
        return self._sums.get(cluster, ()) if cluster in self.virtual_clusters else ()

    def impersonators_of(self, cluster: str) -> list[Object]:
        """Return the absorbed ClusterRole of a virtual cluster, if it is cached (G-23)."""
        vc = self.virtual_clusters.get(cluster)
        role = self.roles.get("", absorbed_name(vc.name_on_host)) if vc is not None else None
        return [role] if role is not None and labels_of(role)[CLUSTER_LABEL] == cluster else []

    def anchor_of(self, vc: VirtualCluster) -> str:
        """Return the anchor of a virtual cluster, claimed already or not."""
        claimed = self.claims.of(vc.name).get(ANCHOR_NAMESPACE)
        template = self.settings.namespace_template
        return claimed or host_namespace(template, ANCHOR_NAMESPACE, vc.name_on_host)

    async def read_namespace(self, name: str) -> bool:
        """Cache a namespace before its watch does; return whether it exists (G-41)."""
        namespace = await self._host.find(f"{NAMESPACES_PATH}/{quote(name, safe='')}")
        if namespace is not None:
            self.namespaces.accept(namespace)
        return namespace is not None

    async def look_for_kinds(self) -> bool:
        """Ask the host again what it serves, unless that was recent; return whether it changed."""
        before = self.discovery.served
        try:
            return await self.discovery.refresh(DISCOVERY_AGE_S) is not before
        except KubeError as error:
            _log.debug("Cannot refresh the served kinds", extra={"reason": str(error)})
            return False

    def kinds_of(self, group: str) -> dict[tuple[str, str], KindInfo]:
        """Return (version, plural) -> what the host serves of a group, also for threads."""
        served, kinds = self._kinds
        if served is not self.discovery.served:
            served = self.discovery.served
            kinds = kinds_by_group(served)
            self._kinds = served, kinds  # at once: what others see is whole
        return kinds.get(group, {})

    def _facts_changed(self, *_: object) -> None:
        self.version += 1

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        before = self.claims.own(old)
        if new is None:
            if before is not None and old is not None:
                self.released[old["metadata"]["name"]] = before
            return
        self.released.pop(new["metadata"]["name"], None)
        if old is None:
            return
        after = self.claims.own(new)
        if before != after:
            for cluster in {claim.cluster for claim in (before, after) if claim is not None}:
                self.claims_changed.emit(cluster)

    def _secret_changed(self, _old: Object | None, secret: Object | None) -> None:
        self.sealing_key = sealing_key_of(secret)
        sums: dict[str, list[TokenSum]] = defaultdict(list)
        for each in sums_of(secret):
            sums[each.cluster].append(each)
        before, self._sums = self._sums, {name: tuple(each) for name, each in sums.items()}
        self._from_secret.replace_all(clusters_of(secret))
        for cluster in before.keys() - self._sums.keys():
            self.unserved.emit(cluster)

    def _registry_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        if new is None and old is not None:
            self.unserved.emit(old.name)


def kinds_by_group(served: ServedApis) -> dict[str, dict[tuple[str, str], KindInfo]]:
    """Return group -> (version, plural) -> what a host serves."""
    by_group: dict[str, dict[tuple[str, str], KindInfo]] = {}
    for listed in served.lists:
        group, version, _ = parse_api_version(listed["groupVersion"], "")
        for entry in listed["resources"]:
            plural = entry["name"]
            info = KindInfo(group, version, plural, entry["kind"], bool(entry["namespaced"]))
            by_group.setdefault(group, {})[version, plural] = info
    return by_group


class ClusterView(View):
    """The View (mapping/cluster_view.py) of one request, over caches.

    missed_kind: whether it named a kind that the host did not serve. absent: host namespaces
    that were read for the value at hand and do not exist. has_past: whether what was in a namespace
    counts that is deleted, as for the last events of its objects.
    """

    def __init__(self, state: HostState, sealer: Sealer, vc: VirtualCluster) -> None:
        self._state = state
        self._sealer = sealer
        self._vc = vc
        self._context: tuple[object, TranslationContext] | None = None
        self._pinned: TranslationContext | None = None
        self.missed_kind = False
        self.absent: set[str] = set()
        self.has_past = False

    @property
    def name(self) -> str:
        return self._vc.name

    @property
    def anchor(self) -> str:
        return self._state.anchor_of(self._vc)

    def virtual_namespace(self, host: str) -> str | None:
        claim = self._state.claims.holder_of(host)
        if claim is None and self._state.namespaces.get("", host) is None:
            claim = self._state.released.get(host) if self.has_past else None
            if claim is None and host not in self.absent:
                raise UnknownNamespacesError({host})
        if claim is None or claim.cluster != self.name or claim.namespace == ANCHOR_NAMESPACE:
            return None
        return claim.namespace

    def is_foreign(self, host: str) -> bool:
        if self._state.namespaces.get("", host) is None:
            return False
        claim = self._state.claims.holder_of(host)
        return claim is None or claim.cluster != self.name

    def is_others(self, host: str) -> bool:
        claim = self._state.claims.on(host)
        return claim is not None and claim.cluster != self.name

    def namespace_object(self, host: str) -> Object | None:
        return self._state.namespaces.get("", host)

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        served = self._state.kinds_of(group)
        info = served.get((version, plural))
        self.missed_kind = self.missed_kind or info is None
        return info

    def resources(self, group: str) -> Iterable[KindInfo]:
        served = self._state.kinds_of(group)
        self.missed_kind = self.missed_kind or not served
        return served.values()

    def context(self) -> TranslationContext:
        if self._pinned is not None:
            return self._pinned
        now = (self._state.version, id(self._state.discovery.served))
        if self._context is None or self._context[0] != now:
            claims = ClaimedNamespaces(self._state.claims.of(self.name))
            claims.pop(ANCHOR_NAMESPACE, None)
            context = self._state.contexts.context_for(self._vc, "")
            self._context = now, replace(context, claims=claims)
        return self._context[1]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep these facts for a while: a thread must not put them together."""
        self._pinned = self.context()
        try:
            yield
        finally:
            self._pinned = None

    def suffix(self) -> str:
        return random_suffix()

    def sealer(self) -> Sealer:
        return self._sealer
