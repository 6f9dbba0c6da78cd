"""Decides whether the labels of nodes can be trusted: KubeEdge, and NodeRestriction."""

import asyncio
import itertools
import logging
from collections.abc import Iterator

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.well_known import EDGE_LABEL

_log = logging.getLogger(__name__)

PLUGIN = "NodeRestriction"
API_SERVERS = ("/api/v1/namespaces/kube-system/pods", {"labelSelector": "component=kube-apiserver"})
"""As kubeadm and similar tools run them; the flags of others are unknown."""
LOOK_S = 600.0
_KUBEEDGE = "kubeedge"
_ENABLE, _DISABLE = "--enable-admission-plugins", "--disable-admission-plugins"


class NodeTrust:
    """Follows the nodes, and periodically reads the flags of the host's API servers."""

    def __init__(self, host: ApiClient, nodes: Store[Node]) -> None:
        self._host = host
        self._edges: set[str] = set()
        self.node_restriction: bool | None = None
        nodes.add_handler(self._changed)

    @property
    def has_kubeedge(self) -> bool:
        """Return True while there is a KubeEdge node."""
        return bool(self._edges)

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(LOOK_S)

    async def check(self) -> None:
        """Read the Pods of the API servers; on failure the previous result stays."""
        path, query = API_SERVERS
        try:
            pods = (await self._host.get(path, query)).get("items") or []
        except KubeError as error:
            _log.debug(
                "Cannot read the Pods of the host's API servers", extra={"reason": str(error)}
            )
            return
        self.node_restriction = all(_is_on(pod) for pod in pods) if pods else None

    def _changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        if new is not None and is_kubeedge(new):
            self._edges.add(node.metadata.name)
        else:
            self._edges.discard(node.metadata.name)


def is_kubeedge(node: Node) -> bool:
    """Return True for a KubeEdge edge node, by its label or its kubelet version."""
    version = node.status.node_info.kubelet_version
    return EDGE_LABEL in node.metadata.labels or _KUBEEDGE in version


def _is_on(pod: Object) -> bool:
    arguments = list(_arguments(pod))
    return PLUGIN in _plugins(arguments, _ENABLE) and PLUGIN not in _plugins(arguments, _DISABLE)


def _plugins(arguments: list[str], flag: str) -> set[str]:
    """Return the values of a flag, given as `--flag=a,b` or as `--flag a,b`."""
    values = [text.partition("=")[2] for text in arguments if text.startswith(f"{flag}=")]
    values += [after for text, after in itertools.pairwise(arguments) if text == flag]
    return {plugin for value in values for plugin in value.split(",")}


def _arguments(pod: Object) -> Iterator[str]:
    for container in dig(pod, "spec", "containers") or ():
        for field in ("command", "args"):
            yield from (text for text in container.get(field) or () if isinstance(text, str))
