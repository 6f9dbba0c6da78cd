"""Makes virtual clusters reachable for the hub, and writes the roles inside them."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from karmada_vc_agent.access.agent_objects import TokenKind, hub_secret_name
from karmada_vc_agent.access.rights import MANAGED, HubAccess
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, version_of
from karmada_vc_agent.features.gateway.tokens import GatewayTokens
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, RetryError, same
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.transport import trusting
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    labels_of,
    maps_at,
    text_at,
)
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    BUILT_INS,
    CLUSTER_LABEL,
    CLUSTER_ROLES_PATH,
    DOMAIN,
    GATEWAY_LABEL,
    LEASE_NAMESPACE,
    NAMESPACE_ADMIN,
    RBAC_API,
    RBAC_GROUP,
)
from karmada_vc_agent.runner.common import FEW_WORKERS, Common
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.translation.context import ANCHOR_NAMESPACE, Names
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac import Callers, absorbed_name
from karmada_vc_agent.translation.rbac_rules import admin_rules, cut
from karmada_vc_agent.work.host_objects import LiveObjects

PROBE_S = 10.0
_PROBED_PATH = "api/v1/namespaces/kube-system"
_FOLLOWED = ("http", "https")
"""Proxies that can be tried from here."""


@dataclass(frozen=True, slots=True)
class ProbedEndpoint:
    """An endpoint as a Cluster names it. authorities: PEM. proxy: URL, "" = none."""

    url: str
    token: str
    authorities: bytes
    proxy: str = ""


async def probe(endpoint: ProbedEndpoint) -> str | None:
    """Return what is wrong with an endpoint, or None if it answers a request.

    A proxy that cannot be reached from the host says nothing about the hub: then the gateway is
    probed directly.
    """
    try:
        context = trusting(endpoint.authorities.decode())
    except (ssl.SSLError, ValueError):
        return "the file of gateway.caFile contains no certificate"
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # as the hub
    if urlsplit(endpoint.proxy).scheme in _FOLLOWED:
        # Of the proxy's own name: that of the endpoint is for the proxy to resolve.
        with suppress(aiohttp.ClientProxyConnectionError, aiohttp.ClientConnectorDNSError):
            return await _probe_by(endpoint, context, endpoint.proxy)
    try:
        return await _probe_by(endpoint, context, None)
    except aiohttp.ClientConnectorError as error:
        return f"GET {endpoint.url}{_PROBED_PATH}: {error.os_error}"


async def _probe_by(
    endpoint: ProbedEndpoint, context: ssl.SSLContext, proxy: str | None
) -> str | None:
    headers = {"Authorization": f"Bearer {endpoint.token}", "Accept": "application/json"}
    url = f"{endpoint.url}{_PROBED_PATH}"
    request = f"GET {url}" + (f" through proxy {proxy}" if proxy else "")
    options: dict[str, Any] = {"ssl": context, "proxy": proxy, "allow_redirects": False}
    try:
        async with (
            asyncio.timeout(PROBE_S),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, headers=headers, **options) as answer,
        ):
            return None if answer.status == 200 else f"{request}: status {answer.status}"
    except (aiohttp.ClientProxyConnectionError, aiohttp.ClientConnectorDNSError):
        raise
    except TimeoutError:
        return f"{request}: no response within {PROBE_S:g} s"
    except (aiohttp.ClientError, OSError) as error:
        detail = getattr(error, "os_error", None) or error or type(error).__name__
        return f"{request}: {detail}"


_log = logging.getLogger(__name__)

ROLES = Resource(
    GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole"),
    "clusterroles",
    namespaced=False,
    verbs=frozenset(("list", "watch")),
)
_FIELDS = ("apiEndpoint", "secretRef", "proxyURL", "impersonatorSecretRef")

ACCESS_PERIOD = Requeue(300.0)
"""How often Secrets, certificates and the endpoint are looked at."""
ACCESS_SOON = Requeue(5.0)
"""Until the gateway answers, or Karmada has sent whom it lets impersonate."""
_REQUESTED_ANNOTATION = f"{DOMAIN}/asked-at"


class ClusterAccess:
    """Sole writer of the fields of a Cluster by which the hub reaches it.

    ask: tries an endpoint; returns what is wrong with it, or None. on_probed: takes a virtual
    cluster, and whether its endpoint answered.
    """

    def __init__(self, common: Common, works: WorkParts) -> None:
        self._common = common
        self._works = works
        self._host = common.clients.host
        self._settings = common.config.gateway
        self.is_on = self._settings.enabled
        self._tokens = GatewayTokens(common)
        self._live_roles = LiveObjects(self._host, works.store_of)
        self.ask: Callable[[ProbedEndpoint], Awaitable[str | None]] = probe
        self.on_probed: Callable[[str, bool], None] = lambda _cluster, _answers: None
        self._hub = common.clients.hub
        self._clusters = common.stores.clusters
        self._once = LogOnce(_log)

    async def reconcile(self, name: str) -> Requeue | None:
        """Publish or withdraw the access to one virtual cluster. Raises RetryError, KubeError."""
        vc = self._common.virtual_clusters.get(name)
        if vc is None:
            return None
        cluster = self._clusters.ours(name)
        if cluster is not None and not self.is_on:
            await self._withdraw(vc, cluster)
        elif cluster is not None and not cluster["metadata"].get("deletionTimestamp"):
            return await self._publish(vc, cluster)
        elif self.is_on and (cluster or self._common.registrations.stays_away(name)):
            await self._take_away(vc)
        return None  # without a Cluster registration prepares it

    async def _publish(self, vc: VirtualCluster, cluster: Object) -> Requeue:
        try:
            endpoint = await self.prepare(vc)
        except RefusedError as error:
            raise RetryError(error.refusal.detail) from error
        cluster = await self._patch(cluster, self._changes(cluster, is_published=False))
        problem = await self.ask(endpoint)
        self.on_probed(vc.name, problem is None)
        if problem is None:
            self._once.ended(vc.name)
        else:
            message = "The gateway does not answer"
            self._once.warning(message, about=vc.name, virtual_cluster=vc.name, reason=problem)
        is_published = bool(dig(cluster, "spec", "apiEndpoint"))
        if problem is None or is_published:
            # What was published stays: a tunnel that is cut is no reason to change the Cluster.
            await self._patch(cluster, self._changes(cluster, is_published=True))
        if not self.has_rules_of_karmada(vc):
            await self._ask_for_rules()
            return ACCESS_SOON
        return ACCESS_PERIOD if problem is None else ACCESS_SOON

    async def _withdraw(self, vc: VirtualCluster, cluster: Object) -> None:
        if not is_marked(cluster):
            return
        _log.info("Withdrawing access", extra={"virtual_cluster": vc.name})
        spec = cluster.get("spec") or {}
        there = {key: None for key in _FIELDS if spec.get(key)}
        cluster = await self._patch(cluster, {"spec": there})
        await self._take_away(vc)
        await self._patch(cluster, {"metadata": {"annotations": {GATEWAY_LABEL: None}}})

    async def _patch(self, cluster: Object, patch: Object) -> Object:
        if not patch.get("spec") and not patch.get("metadata"):
            return cluster
        name, version = cluster["metadata"]["name"], version_of(cluster)
        body = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": version}}
        answer = await self._hub.merge_patch(f"{CLUSTERS_PATH}/{name}", body)
        self._clusters.store.observe(answer)
        return answer

    async def _ask_for_rules(self) -> None:
        """Have Karmada send its rules: for existing Clusters it does so when the role changes."""
        role = HubAccess(self._common.config.agent_name, ()).auth_role
        patch = {"metadata": {"annotations": {_REQUESTED_ANNOTATION: self._common.clock.now()}}}
        try:
            await self._hub.merge_patch(f"{CLUSTER_ROLES_PATH}/{role}", patch)
        except NotFoundError as error:
            problem = f"ClusterRole {role} is missing on the hub"
            raise RetryError(f"{problem}: run karmada-vc-agent join") from error

    def roles(self) -> Store[Object] | None:
        """Return the cached ClusterRoles of virtual clusters."""
        return self._works.store_of(ROLES)

    def has_rules_of_karmada(self, vc: VirtualCluster) -> bool:
        """Whether Karmada's rules for a virtual cluster are stored on the host."""
        roles = self.roles()
        return roles is not None and roles.get("", absorbed_name(vc.name_on_host)) is not None

    async def prepare(self, vc: VirtualCluster) -> ProbedEndpoint:
        """Do all that precedes the Cluster. Raises RetryError, KubeError, RefusedError."""
        settings = self._settings
        try:
            authorities = Path(settings.ca_file).read_bytes()  # noqa: ASYNC240 - it is small
        except OSError as error:
            problem = f"gateway.caFile: {settings.ca_file}: {error.strerror or error}"
            raise RetryError(problem) from error
        await self._works.namespace_writer.claim(vc, ANCHOR_NAMESPACE)
        token = await self._tokens.ensure(vc, authorities)
        await self._put_identities(await self._identities(vc))
        return ProbedEndpoint(settings.endpoint(vc.name), token, authorities, settings.proxy_url)

    def _changes(self, cluster: Object, *, is_published: bool) -> Object:
        """Return the merge patch by which a Cluster gets its fields, and the mark; {} = none."""
        desired = self._fields(cluster["metadata"]["name"], is_published=is_published)
        spec = cluster.get("spec") or {}
        changed = {key: value for key, value in desired.items() if (spec.get(key) or None) != value}
        patch: Object = {"spec": changed} if changed else {}
        return patch if is_marked(cluster) else {**patch, "metadata": {"annotations": _MARK}}

    async def fields_of_new(self, vc: VirtualCluster) -> Object:
        """Return the metadata and spec that a new Cluster has for access, {} if it has none yet.

        A failure here does not keep the Cluster from being registered: the rest is for the
        controller to bring about.
        """
        if not self.is_on:
            return {}
        try:
            await self.prepare(vc)
        except (RetryError, ForbiddenError, NotFoundError) as error:
            _log.warning(
                "Registering a Cluster without access",
                extra={"virtual_cluster": vc.name, "reason": str(error)},
            )
            return {}
        return {"metadata": {"annotations": _MARK}, "spec": self._fields(vc.name)}

    def _fields(self, cluster: str, *, is_published: bool = False) -> Object:
        fields: Object = {"impersonatorSecretRef": _reference(cluster, "impersonator")}
        if is_published:
            fields |= {
                "secretRef": _reference(cluster, "access"),
                "proxyURL": self._settings.proxy_url or None,
                "apiEndpoint": self._settings.endpoint(cluster),
            }
        return fields

    async def _take_away(self, vc: VirtualCluster) -> None:
        """Remove what `prepare` made. Raises KubeError."""
        try:
            await self._tokens.revoke(vc.name)
        except ForbiddenError:
            if self.is_on:
                raise
            # `join` took the right to Secrets back, and removed them.
        desired = await self._identities(vc)
        with suppress(NotFoundError):
            await self._host.delete(f"{CLUSTER_ROLES_PATH}/{desired['metadata']['name']}")
        await self._works.namespace_writer.release(vc, ANCHOR_NAMESPACE, preserve=False)

    async def _identities(self, vc: VirtualCluster) -> Object:
        absorbed = await self._live_roles.get(ROLES, "", absorbed_name(vc.name_on_host))
        settings = self._common.settings
        names = Names(
            cluster=vc.name_on_host,
            template=settings.namespace_template,
            claims=self._common.stores.claims.of(vc.name),
            forbidden=settings.forbidden_namespaces,
            adopted=vc.adopt_namespaces,
        )
        return Callers(vc.name, names).role(settings.agent_name, absorbed)

    async def _put_identities(self, desired: Object) -> None:
        path = f"{CLUSTER_ROLES_PATH}/{desired['metadata']['name']}"
        live = await self._host.find(path)
        if live is None:
            try:
                await self._host.create(CLUSTER_ROLES_PATH, desired)
            except AlreadyExistsError as error:
                raise RetryError("its role was created meanwhile") from error
            return
        is_marked = labels_of(desired).items() <= labels_of(live).items()
        if not is_marked or live.get("rules") != desired["rules"]:
            await self._host.replace_same(path, live, desired)


def is_marked(cluster: Object) -> bool:
    """Whether an agent published its endpoint, or is about to."""
    return GATEWAY_LABEL in annotations_of(cluster)


_MARK = {GATEWAY_LABEL: "true"}
"""On a Cluster: its fields for access are the agent's."""


def _reference(cluster: str, kind: TokenKind) -> Object:
    return {"namespace": LEASE_NAMESPACE, "name": hub_secret_name(cluster, kind)}


def _keys(
    virtual_clusters: Container[str], name_of: Callable[[Object], str], *versions: Object | None
) -> Iterator[str]:
    """Yield the virtual cluster of a changed object, if it is served. versions: old, new."""
    name = name_of(versions[1] or versions[0] or {"metadata": {}})
    if name in virtual_clusters:
        yield name


def setup_cluster_access(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; off, it takes back what it published before."""
    common, vcs = parts.common, parts.common.virtual_clusters
    access = common.part(ClusterAccess)
    access.on_probed = parts.collector.endpoints.__setitem__
    is_on = access.is_on
    by_name = partial(_keys, vcs, lambda each: text_at(each, "metadata", "name"))
    sources = [Enqueues(common.stores.clusters.store.add_handler, by_name)]
    if is_on and (roles := access.roles()) is not None:
        # The store itself: signals leave out what the agent wrote, as it does these roles.
        by_role = partial(_keys, vcs, lambda each: labels_of(each).get(CLUSTER_LABEL, ""))
        sources.append(Enqueues(roles.add_handler, by_role, after_s=0.2))
    return ControllerSpec(
        "cluster-access",
        common.queues.by_name(),
        access.reconcile,
        FEW_WORKERS,
        initial_keys=parts.names,
        sources=tuple(sources) if is_on else (),
        resync_keys=same,
    )


ROLES_PERIOD = Requeue(60.0)
"""How often it is compared with what the host serves; discovery uses an ETag."""
DISCOVERY_MAX_AGE_S = 30.0


async def align_role(common: Common, name: str) -> Requeue:
    """Align a ClusterRole with what the host serves and grants now. Raises KubeError.

    All agents of a host write the same. Strict wins: an agent in Shared keeps what one in Strict
    wrote.
    """
    host = common.clients.host
    served = await common.discoveries.host.refresh(DISCOVERY_MAX_AGE_S)
    of_the_host = maps_at(await host.find(f"{CLUSTER_ROLES_PATH}/{BUILT_INS[name]}") or {}, "rules")

    def rules_in(*, is_strict: bool) -> list[Object]:
        most = admin_rules(served.namespaced, is_strict=is_strict)
        return list(most if name == NAMESPACE_ADMIN else cut(of_the_host, most))

    strict = rules_in(is_strict=True)
    rules = strict if common.config.tenancy == STRICT else rules_in(is_strict=False)
    live = await host.find(f"{CLUSTER_ROLES_PATH}/{name}")
    if live is None:
        _log.info("Creating ClusterRole", extra={"cluster_role": name})
        metadata = {"name": name, "labels": MANAGED}
        role = {"apiVersion": RBAC_API, "kind": "ClusterRole", "metadata": metadata, "rules": rules}
        await host.create(CLUSTER_ROLES_PATH, role)
    elif not labels_of(live).items() >= MANAGED.items():
        _log.warning(
            "Not writing a ClusterRole of another owner; bindings of Works grant what it "
            "grants. Delete it to let the agent create its own",
            extra={"cluster_role": name},
        )
    elif live.get("rules") not in (rules, strict) and served.is_complete:
        _log.info("Updating ClusterRole", extra={"cluster_role": name})
        await host.replace(f"{CLUSTER_ROLES_PATH}/{name}", {**live, "rules": rules})
    return ROLES_PERIOD


def setup_admin_role(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its keys are names of ClusterRoles."""
    common = parts.common
    return ControllerSpec(
        "admin-role",
        common.queues.by_name(),
        partial(align_role, common),
        by_cluster=False,
        initial_keys=lambda: tuple(BUILT_INS),
        sources=(Enqueues(common.signals.admin_rules.subscribe, lambda: tuple(BUILT_INS)),),
        resync_keys=lambda _: tuple(BUILT_INS),
    )
