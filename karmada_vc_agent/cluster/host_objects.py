"""What the host has: its nodes, and the objects with labels of ours."""

import asyncio
import logging
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from dataclasses import dataclass

from karmada_vc_agent.cluster.hub_clusters import agent_of
from karmada_vc_agent.cluster.virtual_clusters import Membership
from karmada_vc_agent.kube import discovery, errors
from karmada_vc_agent.kube.client import METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.codec import split_page
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.kube.reflector import PageSize, read_page
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.transport import check_version, decode_object
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object, dig, parse_api_version
from karmada_vc_agent.model.user_text import plain_address
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import EDGE_LABEL, MEMBERSHIP_LABEL

ADDRESS_INDEX = "address"


def addresses_of(node: Node) -> Iterator[str]:
    for each in node.status.addresses:
        address = plain_address(each.address)
        if address is not None:
            yield str(address)


class HostAddresses:
    """Addresses of machines other than the virtual cluster's own.

    A node reports its addresses itself, whatever they are. So one that several report belongs to
    the first of them, as long as that one reports it; to none of those of the first list.

    nodes: with ADDRESS_INDEX. api_servers: names and addresses by which the agent reaches the API
    server of the host. owner_of: the virtual cluster of a node.
    """

    def __init__(
        self,
        nodes: Store[Node],
        api_servers: Iterable[str | None],
        owner_of: Callable[[str], str | None],
    ) -> None:
        self._nodes = nodes
        addresses = (plain_address(each) for each in api_servers if each)
        self._api_servers = frozenset(str(each) for each in addresses if each is not None)
        self._owner_of = owner_of
        self._first: dict[str, str] = {}
        """Address -> the node that was alone with it."""
        nodes.add_handler(self._note)

    def is_foreign(self, address: str, cluster: str) -> bool:
        plain = str(plain_address(address))
        if plain in self._api_servers:
            return True
        if self._owner_of(self._first.get(plain, "")) == cluster:
            return False
        nodes = self._nodes.by_index(ADDRESS_INDEX, plain)
        return any(self._owner_of(node.metadata.name) != cluster for node in nodes)

    def _note(self, old: Node | None, new: Node | None) -> None:
        before, after = (dict.fromkeys(addresses_of(each)) if each else {} for each in (old, new))
        for address in before.keys() - after:
            if old is not None and self._first.get(address) == old.metadata.name:
                del self._first[address]
        for address in after.keys() - before:
            if new is not None and len(self._nodes.by_index(ADDRESS_INDEX, address)) == 1:
                self._first[address] = new.metadata.name
            elif not self._nodes.is_synced:
                self._first.pop(address, None)


PODS_BY_NODE = "node"
PENDING_BY_NAMESPACE = "namespace of pending pod"
PENDING_BY_SELECTOR = "nodeSelector of pending pod"


def pod_indexes() -> dict[str, Callable[[Pod], Iterable[str]]]:
    return {
        PODS_BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
        PENDING_BY_NAMESPACE: lambda pod: () if pod.spec.node_name else (pod.metadata.namespace,),
        PENDING_BY_SELECTOR: lambda pod: (
            () if pod.spec.node_name else [f"{k}={v}" for k, v in pod.spec.node_selector.items()]
        ),
    }


PODS_SETTLE_S = 1.0
"""A rollout changes many; one status write is enough for those of this time."""
PODS_PERIODS = 6
"""Of the status; sooner once in so many, so that at most a sixth more of them are written."""


def settled_pods(
    pods: Store[Pod],
    owner_of: Callable[[Pod], str],
    timers: dict[str, asyncio.TimerHandle],
    period_s: float,
    settled: Callable[[str], None],
) -> None:
    """Call `settled` with a virtual cluster once what its pods request is the same for a second.

    Once in some periods of its status, which has the rest. owner_of: returns the virtual cluster of
    a pod, "" for none. timers: by virtual cluster.
    """

    def changed(old: Pod | None, new: Pod | None) -> None:
        counted = [pod for pod in (old, new) if pod is not None and not pod.is_finished]
        is_same = len(counted) == 2 and counted[0].spec == counted[1].spec
        if is_same or not pods.is_synced:
            return
        loop = asyncio.get_running_loop()
        for cluster in {owner_of(pod) for pod in counted} - {""}:
            timer = timers.get(cluster)
            if timer is not None and timer.when() > loop.time():
                timer.cancel()
            elif timer is not None and loop.time() < timer.when() + PODS_PERIODS * period_s:
                continue
            timers[cluster] = loop.call_later(PODS_SETTLE_S, settled, cluster)

    pods.add_handler(changed)


_log = logging.getLogger(__name__)

PLUGIN = "NodeRestriction"
API_SERVERS = ("/api/v1/namespaces/kube-system/pods", {"labelSelector": "component=kube-apiserver"})
"""As kubeadm and similar tools run them; the flags of others are unknown."""
LOOK_S = 600.0


class NodeTrust:
    """Follows the nodes, and periodically reads the flags of the host's API servers."""

    def __init__(self, host: ApiClient, nodes: Store[Node]) -> None:
        self._host = host
        self._edges: set[str] = set()
        self.has_kubeedge = False
        self.node_restriction: bool | None = None
        nodes.add_handler(self._changed)

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(LOOK_S)

    async def check(self) -> None:
        """Read the Pods of the API servers; on failure the previous result stays."""
        try:
            pods = (await self._host.get(*API_SERVERS)).get("items") or []
        except errors.KubeError as error:
            _log.debug("Cannot read the host's API servers", extra={"reason": str(error)})
        else:
            self.node_restriction = all(map(_is_on, pods)) if pods else None

    def _changed(self, old: Node | None, new: Node | None) -> None:
        for name in keys_of_node(old, new):
            self._edges.discard(name)
            if new is not None and is_kubeedge(new):
                self._edges.add(name)
        self.has_kubeedge = bool(self._edges)


def is_kubeedge(node: Node) -> bool:
    """Return True for a KubeEdge edge node, by its label or its kubelet version."""
    version = node.status.node_info.kubelet_version
    return EDGE_LABEL in node.metadata.labels or "kubeedge" in version


def _is_on(pod: Object) -> bool:
    """Return True if the flags of an API server, `--flag=a,b` or `--flag a,b`, enable PLUGIN."""
    containers = dig(pod, "spec", "containers") or ()
    flags = [each.get(field) or () for each in containers for field in ("command", "args")]
    text = " ".join(str(each) for given in flags for each in given)
    enabled, disabled = (
        {plugin for value in re.findall(rf"{flag}[= ](\S+)", text) for plugin in value.split(",")}
        for flag in ("--enable-admission-plugins", "--disable-admission-plugins")
    )
    return PLUGIN in enabled - disabled


_NODES = "/api/v1/nodes"


async def unlabel_nodes(host: ApiClient, value: str) -> int:
    """Remove the label with this value, a name on the host, from nodes; return from how many."""
    labelled = await host.get(_NODES, {"labelSelector": f"{MEMBERSHIP_LABEL}={value}"})
    names = [node["metadata"]["name"] for node in labelled.get("items") or ()]
    for name in names:
        with suppress(errors.NotFoundError):
            patch = {"metadata": {"labels": {MEMBERSHIP_LABEL: None}}}
            await host.merge_patch(f"{_NODES}/{name}", patch)
    return len(names)


def keys_of_node(old: Node | None, new: Node | None) -> Iterator[str]:
    node = new or old
    if node is not None:
        yield node.metadata.name


def keys_of_cluster(
    virtual_clusters: Container[str], agent: str, nodes: Iterable[Node], *change: Object | None
) -> Iterator[str]:
    """Yield all nodes if an agent other than ours starts or stops serving a virtual cluster."""
    before, after = (agent_of(cluster) or agent for cluster in change)
    if before != after and any(dig(c, "metadata", "name") in virtual_clusters for c in change):
        for node in nodes:
            yield node.metadata.name


@dataclass
class NodeLabelsController:
    """Writes one label, on Nodes; pods can select by equality only (rewriting-rules 3.1).

    is_anothers: True for a virtual cluster that another agent serves; then the label is that one's.
    remember: called with each label that is a former name, which is recorded nowhere else.
    """

    host: ApiClient
    nodes: Store[Node]
    membership: Membership
    virtual_clusters: Mapping[str, VirtualCluster]
    is_anothers: Callable[[str], bool] = lambda _: False
    remember: Callable[[str, str], Awaitable[None]] = lambda *_: asyncio.sleep(0)

    async def reconcile(self, node_name: str) -> None:
        node = self.nodes.get("", node_name)
        if node is None:
            return
        desired, live = None, node.metadata.labels.get(MEMBERSHIP_LABEL)
        owner = self.virtual_clusters.get(self.membership.owner_of(node_name) or "")
        if owner is not None and owner.needs_membership_label:
            desired = owner.name_on_host
            await self.remember(desired, owner.name)
        if desired == live:
            return
        named = {vc.name_on_host: vc.name for vc in self.virtual_clusters.values()}
        if desired is None and live not in named:
            return  # another agent's
        if any(name and self.is_anothers(named.get(name, name)) for name in (desired, live)):
            return
        patch = {"metadata": {"labels": {MEMBERSHIP_LABEL: desired}}}
        with suppress(errors.NotFoundError):
            await self.host.merge_patch(f"{_NODES}/{node_name}", patch)
            _log.info(
                "Labelled node" if desired else "Removed label of node",
                extra={"node": node_name, "label": MEMBERSHIP_LABEL, "value": desired},
            )


_UNAVAILABLE = 503
_OF_NO_KIND = (errors.ExpiredError, errors.PageError, errors.UnauthorizedError)
"""Errors that say nothing of a kind: a list that expires has more of it."""
_NEVER = frozenset(("events", "componentstatuses", "bindings"))


def listed_resources(served: ServedApis) -> list[Resource]:
    """Return each kind that can be listed and deleted once, in its preferred version."""
    resources: dict[tuple[str, str], Resource] = {}
    for group_version in served.lists:
        for entry in group_version["resources"]:
            gvk = parse_api_version(group_version["groupVersion"], entry["kind"])
            verbs = frozenset(entry.get("verbs") or ())
            if entry["name"] not in _NEVER and verbs >= {"list", "delete"}:
                resource = Resource(gvk, entry["name"], bool(entry["namespaced"]), verbs)
                resources.setdefault((gvk.group, entry["name"]), resource)
    return list(resources.values())


async def labelled_objects(
    host: ApiClient,
    served: ServedApis,
    selector: str,
    namespaces: Collection[str] | None = None,
    wants: Callable[[Resource], bool] = lambda _: True,
) -> AsyncIterator[tuple[Resource, Object]]:
    """Yield resource and metadata of every object that matches a label selector.

    One list for each kind that the host serves, some sixty requests: for rare operations.
    A kind that is no longer served, or whose aggregated server is unavailable, is skipped; any
    other failure is raised. With `namespaces`, what may not be listed cluster-wide is listed in
    these, and what the API server refuses is skipped. wants: which kinds to list. Raises KubeError.
    """
    query = {"labelSelector": selector}
    for resource in filter(wants, listed_resources(served)):
        paths, need = [resource.path()], errors.Need("list", resource.gvk.group, resource.plural)
        if namespaces is not None and not await discovery.is_allowed(host, need):
            paths = [resource.path(name) for name in namespaces] if resource.namespaced else []
        for path in paths:
            try:
                async for item in _listed(host, resource, path, query):
                    yield resource, item
            except errors.ApiError as error:
                if namespaces is not None and not isinstance(error, _OF_NO_KIND):
                    continue
                is_away = error.status == _UNAVAILABLE
                if not (is_away and await _is_of_another_server(host, resource)):
                    await _check_absent(host, resource, error)


async def objects_in(
    host: ApiClient, served: ServedApis, namespace: str
) -> AsyncIterator[tuple[Resource, Object]]:
    """Yield resource and metadata of every object in a namespace. Raises KubeError for any kind."""
    for resource in listed_resources(served):
        if not resource.namespaced:
            continue
        try:
            async for item in _listed(host, resource, resource.path(namespace), {}):
                yield resource, item
        except errors.NotServedError as error:
            await _check_absent(host, resource, error)


async def _check_absent(host: ApiClient, resource: Resource, error: errors.ApiError) -> None:
    """Raise the error of a list unless its kind, and all objects of it, were removed meanwhile."""
    if not (
        isinstance(error, errors.NotServedError)
        and await discovery.is_absent(host, resource.path())
    ):
        raise error


async def _is_of_another_server(host: ApiClient, resource: Resource) -> bool:
    """Return True for a kind of an aggregated server, which may be away alone, and say less."""
    try:
        return await discovery.is_aggregated(host, resource)
    except errors.ForbiddenError:
        return not discovery.is_built_in(resource.gvk.group)


async def _listed(
    host: ApiClient, resource: Resource, path: str, query: dict[str, str]
) -> AsyncIterator[Object]:
    """Yield each object of a list, of which one page is in memory, and decoded one object of it."""
    size, token = PageSize(), ""
    while True:
        page = {**query, **({"continue": token} if token else {})}
        content = await read_page(host, path, page, size, METADATA_ONLY)
        try:
            head, items = split_page(content)
        except ValueError as error:
            raise errors.UnreadableError(f"the response is not a list: {error}") from error
        try:
            check_version(dig(head, "metadata", "resourceVersion"))
        except errors.UnreadableError:
            if not await _is_of_another_server(host, resource):
                raise
        size.received(len(items), len(content))
        for item in items:
            yield decode_object(bytes(item))
        token = str(dig(head, "metadata", "continue") or "")
        if not token:
            return
