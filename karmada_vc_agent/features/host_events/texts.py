"""The text of an event of the host on the hub: without names of other tenants.

Any writer of Events in a namespace may have written its texts. Names of nodes stay; those of
other virtual clusters' nodes and namespaces, and how many nodes the host has, are left out.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping

from karmada_vc_agent.features.host_events.events import TEXT_AT_MOST
from karmada_vc_agent.model.texts import cut_words, one_line
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import Stores
from karmada_vc_agent.translation.names import Names, cluster_of_host_name
from karmada_vc_agent.translation.restore import restore_text

HIDDEN = "..."

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_DNS_NAMESPACE = re.compile(r"[A-Za-z0-9-]+(?=\.(?:svc|pod)(?![A-Za-z0-9-]))")
_UNSCHEDULABLE = re.compile(r"0/(\d+) nodes are available: (.*)")
_COUNTED = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
_TAINT = re.compile(r"\{([^}:]*)(?:: ([^}]*))?\}")
_OUTSIDE = ("node affinity/selector", "untolerated taint(s)")
"""Reasons that hold for nodes outside of the group: its selector, and taints without names."""
_HEX = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b")
_COMBINED = "(combined from similar events): "
"""The prefix of reporters for what they report often."""
_NUMBER = re.compile(r"\d+")

Taint = tuple[str, str]
"""(key, value)"""


def is_reason(reason: str) -> bool:
    """Return whether a reason is one, and not a text."""
    return _REASON.fullmatch(reason) is not None


def hub_text(
    message: str,
    names: Names,
    nodes: int,
    taints: Collection[Taint],
    is_foreign: Callable[[str], bool],
) -> str:
    """Return the message of an event of the host as a virtual cluster may read it, on one line.

    nodes: how many the virtual cluster has. taints: of these. is_foreign: whether a word is the
    name of something of another virtual cluster.
    """
    text = cut_words(one_line(message[:TEXT_AT_MOST]))
    match = _UNSCHEDULABLE.fullmatch(text)
    if match:
        text = _unschedulable(int(match[1]), match[2], nodes, taints)
    text = _WORD.sub(lambda word: _shown(word[0], is_foreign), text)
    return restore_text(text, names)


def _shown(word: str, is_foreign: Callable[[str], bool]) -> str:
    """Return a word without what is foreign: it, or the namespace in the DNS name of a Service."""
    if is_foreign(word):
        return HIDDEN
    return _DNS_NAMESPACE.sub(lambda part: HIDDEN if is_foreign(part[0]) else part[0], word)


def _unschedulable(total: int, text: str, nodes: int, taints: Collection[Taint]) -> str:
    """Return why a pod fits on no node, counted over the nodes of the virtual cluster.

    The text after the counts is about preemption, over all nodes of the host.
    """
    text = text.partition(". ")[0].removesuffix(".")
    counted = _COUNTED.findall(text) if text[:1].isdigit() else []
    others = max(0, total - nodes)
    kept = []
    for number, why in counted:
        count = int(number)
        if _is_of_others(why, taints):
            others -= min(count, others)
            continue
        if any(mark in why for mark in _OUTSIDE):
            hidden = min(count, others)
            count, others = count - hidden, others - hidden
        if count:
            kept.append(f"{min(count, nodes)} {why}")
    reasons = ", ".join(kept) if counted else text
    return f"0/{nodes} nodes are available{': ' * bool(reasons)}{reasons}."


def _is_of_others(why: str, taints: Collection[Taint]) -> bool:
    """Return whether a reason is a taint that no node of the virtual cluster has."""
    match = _TAINT.search(why)
    return "taint" in why and match is not None and (match[1], match[2] or "") not in taints


def failure_of(message: str, *names: str) -> str:
    """Return what the messages about one failure have in common, as a digest.

    names: of objects; pods made for them have names that begin so.
    """
    text = _HEX.sub("", message[:TEXT_AT_MOST].removeprefix(_COMBINED))
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?:-[a-z0-9]+)*(?![A-Za-z0-9-])", "", text)
    return hashlib.sha256(_NUMBER.sub("", text).encode()).hexdigest()[:12]


def is_foreign(
    stores: Stores, virtual_clusters: Mapping[str, VirtualCluster], cluster: str, word: str
) -> bool:
    """Return whether a word is the name of something that a virtual cluster must not read.

    Namespaces count by their claims, nodes by their group, other names by how they are made.
    """
    claim = stores.claims.on(word)
    if claim is not None:
        return claim.cluster != cluster
    if stores.nodes.get("", word) is not None:
        return stores.membership.owner_of(word) != cluster
    other = cluster_of_host_name(word)
    if not other:
        return False
    owners = (vc.name for vc in virtual_clusters.values() if vc.name_on_host == other)
    return next(owners, cluster) != cluster
