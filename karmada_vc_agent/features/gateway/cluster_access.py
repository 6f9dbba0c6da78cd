"""Makes a virtual cluster reachable for the hub, and takes that away (G-3, G-4).

The order matters: the hub acts on each field when it sees it, and some of its parts look only once.

1. the anchor namespace, the tokens with their Secrets on the hub, and whom the gateway may
   impersonate;
2. the Cluster, with `impersonatorSecretRef`;
3. `apiEndpoint`, `secretRef`, `proxyURL`, once the gateway answers.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from karmada_vc_agent.access.agent_objects import hub_secret_name
from karmada_vc_agent.features.gateway.tokens import GatewayTokens
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.domain import GATEWAY_LABEL
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE
from karmada_vc_agent.model.kinds import RBAC_API, RBAC_GROUP
from karmada_vc_agent.model.objects import GroupVersionKind, Object, annotations_of, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE, Names
from karmada_vc_agent.translation.rbac import Callers, absorbed_name
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


class _NoProxyError(Exception):
    """The proxy cannot be reached from here."""


async def probe(endpoint: ProbedEndpoint) -> str | None:
    """Return what is wrong with an endpoint, or None if it answers a request.

    A proxy that cannot be reached from the host says nothing about the hub: then the gateway is
    probed directly.
    """
    try:
        context = _context(endpoint.authorities)
    except (ssl.SSLError, ValueError):
        return "the file of gateway.caFile contains no certificate"
    if urlsplit(endpoint.proxy).scheme in _FOLLOWED:
        try:
            return await _probe_by(endpoint, context, endpoint.proxy)
        except _NoProxyError:
            pass
    return await _probe_by(endpoint, context, None)


async def _probe_by(
    endpoint: ProbedEndpoint, context: ssl.SSLContext, proxy: str | None
) -> str | None:
    headers = {"Authorization": f"Bearer {endpoint.token}", "Accept": "application/json"}
    url = f"{endpoint.url}{_PROBED_PATH}"
    by = f" through proxy {proxy}" if proxy else ""
    try:
        async with (
            asyncio.timeout(PROBE_S),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(
                url, headers=headers, ssl=context, proxy=proxy, allow_redirects=False
            ) as answer,
        ):
            await answer.read()
            if answer.status == 200:
                return None
            return f"GET {url}{by}: status {answer.status}"
    except aiohttp.ClientProxyConnectionError as error:
        raise _NoProxyError from error
    except aiohttp.ClientConnectorDNSError as error:
        if proxy:  # its own name: that of the endpoint is for the proxy to resolve
            raise _NoProxyError from error
        return f"GET {url}: {error.os_error}"
    except TimeoutError:
        return f"GET {url}{by}: no response within {PROBE_S:g} s"
    except aiohttp.ClientConnectorError as error:
        return f"GET {url}{by}: {error.os_error}"
    except (aiohttp.ClientError, OSError) as error:
        return f"GET {url}{by}: {error or type(error).__name__}"


def _context(authorities: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # as the hub
    # Python 3.13 requires more of a CA certificate than Go, which these are made for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


_log = logging.getLogger(__name__)

_ROLES_PATH = f"/apis/{RBAC_API}/clusterroles"
ROLES = Resource(
    GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole"),
    "clusterroles",
    namespaced=False,
    verbs=frozenset(("list", "watch")),
)
_FIELDS = ("apiEndpoint", "secretRef", "proxyURL", "impersonatorSecretRef")

Fields = dict[str, Any]
"""Fields of `spec` of a Cluster; None = is to be absent."""


class ClusterAccess:
    """Prepares the access to virtual clusters, and says which fields of a Cluster publish it.

    ask: tries an endpoint; returns what is wrong with it, or None.
    """

    def __init__(self, common: Common, works: WorkParts) -> None:
        self._common = common
        self._works = works
        self._host = common.clients.host
        self._settings = common.config.gateway
        config, clusters = common.config, common.stores.clusters
        self._tokens = GatewayTokens(
            common.clients.hub,
            self._host,
            common.clock.now,
            agent=config.agent_name,
            namespace=config.agent_namespace,
            agent_id=clusters.agent,
            host_id=clusters.host,
        )
        self._live_roles = LiveObjects(self._host, works.store_of)
        self.ask: Callable[[ProbedEndpoint], Awaitable[str | None]] = probe

    def roles(self) -> Store[Object] | None:
        """Return the cached ClusterRoles of virtual clusters."""
        return self._works.store_of(ROLES)

    def has_rules_of_karmada(self, vc: VirtualCluster) -> bool:
        """Whether Karmada's rules for a virtual cluster are stored on the host."""
        roles = self.roles()
        return roles is not None and roles.get("", absorbed_name(vc.name_on_host)) is not None

    @property
    def is_on(self) -> bool:
        """Whether virtual clusters are to be reachable."""
        return self._settings.enabled

    async def prepare(self, vc: VirtualCluster) -> ProbedEndpoint:
        """Do all that precedes the Cluster; return its endpoint.

        Raises RetryError, KubeError, RefusedError.
        """
        authorities = self._authorities()
        await self._works.namespace_writer.claim(vc, ANCHOR_NAMESPACE)
        token = await self._tokens.ensure(vc, authorities)
        await self._put_identities(await self._identities(vc))
        settings = self._settings
        return ProbedEndpoint(settings.endpoint(vc.name), token, authorities, settings.proxy_url)

    async def fields_of_new(self, vc: VirtualCluster) -> Object:
        """Return the metadata and spec that a new Cluster has for access, {} if it has none yet.

        A failure here does not keep the Cluster from being registered: the rest is for the
        controller to bring about.
        """
        if not self.is_on:
            return {}
        try:
            await self.prepare(vc)
        except (RetryError, ForbiddenError) as error:
            _log.warning(
                "Registering a Cluster without access",
                extra={"virtual_cluster": vc.name, "reason": str(error)},
            )
            return {}
        return {"metadata": {"annotations": _MARK}, "spec": self.first_fields(vc.name)}

    def first_fields(self, cluster: str) -> Fields:
        """Return the fields that come with the Cluster."""
        return {"impersonatorSecretRef": _reference(hub_secret_name(cluster, "impersonator"))}

    def all_fields(self, cluster: str) -> Fields:
        """Return the fields that publish the endpoint."""
        return {
            **self.first_fields(cluster),
            "secretRef": _reference(hub_secret_name(cluster, "access")),
            "proxyURL": self._settings.proxy_url or None,
            "apiEndpoint": self._settings.endpoint(cluster),
        }

    async def take_away(self, vc: VirtualCluster) -> None:
        """Remove what `prepare` made. Raises KubeError."""
        try:
            await self._tokens.revoke(vc.name)
        except ForbiddenError:
            if self.is_on:
                raise
            # `join` took the right to Secrets back, and removed them.
        desired = await self._identities(vc)
        with suppress(NotFoundError):
            await self._host.delete(f"{_ROLES_PATH}/{desired['metadata']['name']}")
        await self._works.namespace_writer.release(vc, ANCHOR_NAMESPACE, preserve=False)

    async def _identities(self, vc: VirtualCluster) -> Object:
        """Return the desired ClusterRole of those whom the gateway may impersonate."""
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

    def _authorities(self) -> bytes:
        path = self._settings.ca_file
        try:
            return Path(path).read_bytes()
        except OSError as error:
            problem = f"gateway.caFile: {path}: {error.strerror or error}"
            raise RetryError(problem) from error

    async def _put_identities(self, desired: Object) -> None:
        path = f"{_ROLES_PATH}/{desired['metadata']['name']}"
        try:
            live = await self._host.get(path)
        except NotFoundError:
            try:
                await self._host.create(_ROLES_PATH, desired)
            except AlreadyExistsError as error:
                raise RetryError("its role was created meanwhile") from error
            return
        is_marked = labels_of(desired).items() <= labels_of(live).items()
        if not is_marked or live.get("rules") != desired["rules"]:
            version = live["metadata"]["resourceVersion"]
            metadata = {**desired["metadata"], "resourceVersion": version}
            await self._host.replace(path, {**desired, "metadata": metadata})


def changes(cluster: Object, desired: Fields) -> Object:
    """Return the merge patch by which a Cluster gets these fields, and the mark; {} = none."""
    spec = cluster.get("spec") or {}
    patch: Object = {}
    changed = {key: value for key, value in desired.items() if (spec.get(key) or None) != value}
    if changed:
        patch["spec"] = changed
    if not is_marked(cluster):
        patch["metadata"] = {"annotations": _MARK}
    return patch


def withdrawal(cluster: Object) -> Object:
    """Return the merge patch by which a Cluster loses all fields that published it."""
    spec = cluster.get("spec") or {}
    there = {key: None for key in _FIELDS if spec.get(key)}
    return {"metadata": {"annotations": {GATEWAY_LABEL: None}}, "spec": there}


def is_marked(cluster: Object) -> bool:
    """Whether an agent published its endpoint, or is about to."""
    return GATEWAY_LABEL in annotations_of(cluster)


_MARK = {GATEWAY_LABEL: "true"}
"""On a Cluster: its fields for access are the agent's."""


def _reference(name: str) -> dict[str, str]:
    return {"namespace": LEASE_NAMESPACE, "name": name}
