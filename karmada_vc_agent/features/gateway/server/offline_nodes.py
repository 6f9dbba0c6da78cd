"""Refuses streams of pods on offline nodes: after a 101 the host's own error is not mapped."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import orjson

from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.server.heads import Headers
from karmada_vc_agent.features.gateway.server.host_headers import impersonating
from karmada_vc_agent.features.gateway.server.host_requests import HostAnswer, HostRequest
from karmada_vc_agent.features.gateway.server.statuses import JSON, RefusalError
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import text_at

_STREAM = re.compile(r"(/api/v1/namespaces/[^/]+/pods/([^/]+))/(?:attach|exec|log|portforward)")

Send = Callable[[HostRequest], AbstractAsyncContextManager[HostAnswer]]


async def refuse_offline(
    state: HostState, send: Send, cluster: str, path: str, who: Caller
) -> None:
    """Raise RefusalError for a stream of a pod on an offline node (G-63).

    path: on the host. The pod is read with the caller's rights, and only while a node of the
    virtual cluster is offline; what the host refuses here it refuses again for the stream.
    """
    stream = _STREAM.fullmatch(path)
    if stream is None or not any(map(_is_offline, state.membership.nodes_of(cluster))):
        return
    headers: Headers = [(b"accept", JSON.encode()), *impersonating(who)]
    async with send(HostRequest(cluster, "GET", stream[1], headers)) as answer:
        content = await answer.read()
    if answer.status != 200:
        return
    name = text_at(orjson.loads(content), "spec", "nodeName")
    node = state.nodes.get("", name)
    if node is not None and _is_offline(node):
        text = f'node "{name}" of pod "{stream[2]}" is offline: its condition Ready is Unknown'
        raise RefusalError(500, text, counted="node-offline")


def _is_offline(node: Node) -> bool:
    """Whether the host has not heard from a node for its grace period, 40 s by default."""
    return any(c.type == "Ready" and c.status == "Unknown" for c in node.status.conditions)
