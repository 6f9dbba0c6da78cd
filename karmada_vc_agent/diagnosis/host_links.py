"""The links on the host: from a claimed namespace to the pods of the rewritten object."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from karmada_vc_agent.cluster.hub_clusters import agent_of
from karmada_vc_agent.cluster.rules.conditions import count_nodes
from karmada_vc_agent.cluster.virtual_clusters import Phase, claim_of, hold_of, phase_of
from karmada_vc_agent.commands.servers import Server, UnseenError, same_kind
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis.faults import Fault, Link, fault, meaning
from karmada_vc_agent.diagnosis.hub_links import Target, age, conditions_of
from karmada_vc_agent.install.host_rights import described_on_host
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    key_of,
    labels_of,
    maps_at,
    namespaced_name,
    text_at,
)
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    WITH_PODS,
    WORK_ANNOTATION,
)
from karmada_vc_agent.runner.common import translation_settings
from karmada_vc_agent.translation.context import TranslationContext, host_name
from karmada_vc_agent.translation.kind_policy import Refusal
from karmada_vc_agent.translation.placement import common_taints
from karmada_vc_agent.translation.rbac_rules import admin_rules
from karmada_vc_agent.translation.translate import HostObject, translate
from karmada_vc_agent.work import works
from karmada_vc_agent.work.rules.server_changes import completed

NAMESPACES = "/api/v1/namespaces"
SHOWN = 12
"""Changed paths, and events, that are shown of one link."""


@dataclass(slots=True)
class Place:
    """What the host has for one virtual cluster. vc: None where no settings describe it."""

    cluster: str
    config: AgentConfig | None = None
    vc: VirtualCluster | None = None
    claims: dict[VirtualNamespace, Object] = field(default_factory=dict)
    nodes: list[Node] | None = None
    """Those of the group; None where it or they could not be read."""

    @property
    def names(self) -> dict[VirtualNamespace, HostNamespace]:
        return {key: HostNamespace(each["metadata"]["name"]) for key, each in self.claims.items()}


async def settings_of_agent(
    host: Server, struct: type[AgentConfig], cluster: Object | None, named: tuple[str, str]
) -> AgentConfig | None:
    """Return the settings in the ConfigMap of an agent, None where they are elsewhere.

    named: name and namespace of the agent where the Cluster does not say. Raises UnseenError.
    """
    namespace, _, name = agent_of(cluster).partition("/")
    name, namespace = (name, namespace) if name else named
    config_map = await host.find(f"{NAMESPACES}/{namespace}/configmaps/{name}")
    text = text_at(config_map, "data", "agent.yaml")
    if not text:
        return None
    return _settings(struct, text, {"agent_name": name, "agent_namespace": namespace})


def _settings(struct: type[AgentConfig], text: str, given: Mapping[str, str]) -> AgentConfig | None:
    with TemporaryDirectory() as folder, suppress(ConfigError):
        path = Path(folder, "agent.yaml")
        path.write_text(text)
        return load_config(struct, path, given)
    return None


async def place_of(host: Server, cluster: str, config: AgentConfig | None) -> Place:
    """Read what the host has of a virtual cluster. Raises UnseenError."""
    place = Place(cluster, config)
    spaces = await host.items(NAMESPACES, labelSelector=f"{CLUSTER_LABEL}={cluster}")
    claimed = ((claim_of(each), each) for each in spaces)
    place.claims = {claim.namespace: each for claim, each in claimed if claim is not None}
    if config is not None:
        try:
            described = await described_on_host(host.client, config)
            vcs = (*config.virtual_clusters, *described.virtual_clusters)
        except KubeError:
            vcs = config.virtual_clusters
        place.vc = next((vc for vc in vcs if vc.name == cluster), None)
    if place.vc is not None:
        with suppress(UnseenError):
            every = [msgspec.convert(each, Node) for each in await host.items("/api/v1/nodes")]
            group = (n for n in every if place.vc.selects(n.metadata.name, n.metadata.labels))
            place.nodes = list(group)
    return place


def namespace_link(target: Target, place: Place) -> Link:
    """Return the link of the namespace in which the host has the object."""
    link = Link("namespace", cluster=place.cluster)
    live = place.claims.get(VirtualNamespace(target.namespace))
    if live is None:
        given = {"namespace": target.namespace, "cluster": place.cluster}
        link.break_by("NamespaceNotClaimed", **given)
        return link
    name, claim = live["metadata"]["name"], claim_of(live)
    link.facts.append(f"{target.namespace} is {name} on the host")
    if claim and phase_of(live, claim.agent) is Phase.TERMINATING:
        link.break_by("NamespaceTerminating", namespace=name)
    if hold := hold_of(live):
        link.break_by("NamespaceHeld", namespace=name, reason=hold)
    return link


# --- the rewritten object ------------------------------------------------------------------------


def rewritten_link(
    host: Server, target: Target, place: Place, work: Object | None, resource: Resource
) -> tuple[Link, Object | None]:
    """Translate the manifest as the agent does; return the object for the host, if there is one."""
    link = Link("rewritten", cluster=place.cluster)
    config, vc = place.config, place.vc
    manifest = next(filter(target.is_in, works.manifests_of(work or {})), target.template)
    if config is None or vc is None or manifest is None:
        missing = "a manifest" if vc else "the settings of the virtual cluster (--config)"
        link.facts, link.is_seen = [f"not seen: it needs {missing}"], False
        return link, None
    names = {each.metadata.name for each in place.nodes or ()}
    settings = translation_settings(config)
    context = TranslationContext(
        vc=vc,
        settings=settings,
        claims=place.names,
        owns_node=lambda node: node in names or place.nodes is None,
        work=works.id_of_work(work) if work else "",
        bound_to=works.binding_namespace(work),
        admin_rules=admin_rules(host.served.namespaced, is_strict=settings.is_strict),
        node_taints=common_taints(place.nodes or ()),
        is_namespaced=lambda gvk: _is_namespaced(host, gvk),
    )
    result = translate(manifest, resource.namespaced, context)
    if isinstance(result, Refusal):
        text = result.text(vc.name, target.resource.gvk.kind, target.namespace, target.name)
        if work is not None and works.is_applied(work):
            link.facts.append(f"it would not be applied now: {text}")
        else:
            link.note(meaning(text, "NotApplied", what=target))
        return link, None
    if not isinstance(result, HostObject):
        link.facts.append("no object of its own on the host")
        return link, None
    link.facts += _shown(differences(manifest, result.obj))
    link.facts += [f"notice {notice.code}: {notice.detail}" for notice in result.notices]
    return link, result.obj


def _is_namespaced(host: Server, gvk: GroupVersionKind) -> bool | None:
    resource = host.served.by_kind.get(gvk)
    return resource.namespaced if resource is not None else None


Difference = tuple[str, Any, Any]
"""Path, old and new value; None where there is none."""
_SERVERS = ("status", "managedFields", "uid", "resourceVersion", "generation", "creationTimestamp")


def differences(
    old: Any, new: Any, path: str = "", *, only_set: bool = False
) -> Iterator[Difference]:
    """Yield where two objects differ, but for what API servers set. only_set: and is set in old."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old if only_set else dict.fromkeys((*old, *new)):
            if key not in _SERVERS:
                step = f"{path}.{key}" if path else key
                yield from differences(old.get(key), new.get(key), step, only_set=only_set)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}[{index}]", only_set=only_set)
    elif old != new and (old or new):
        yield path, old, new


def _shown(changes: Iterator[Difference]) -> list[str]:
    texts = [f"{path}: {_value(old)} -> {_value(new)}" for path, old, new in changes]
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return texts[:SHOWN] + more


def _value(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- the live object and its pods ----------------------------------------------------------------


async def live_link(
    host: Server, target: Target, place: Place, work: Object | None, desired: Object | None
) -> tuple[Link, Object | None]:
    """Read the object on the host, and how it differs from the desired one. Raises UnseenError."""
    link = Link("object", cluster=place.cluster)
    resource = same_kind(target.resource, host)
    if resource is None:
        reason = f"{target.resource.gvk.api_version} {target.resource.gvk.kind}"
        link.break_by("KindNotServed", what=target, reason=reason)
        return link, None
    namespace, name = "", target.name
    if resource.namespaced:
        namespace = place.names.get(VirtualNamespace(target.namespace), HostNamespace(""))
    else:
        cluster = place.vc.name_on_host if place.vc else place.cluster
        name = desired["metadata"]["name"] if desired else host_name(target.name, cluster)
    is_placed = bool(namespace) or not resource.namespaced
    live = await host.find(resource.path(namespace, name)) if is_placed else None
    what = f"{resource.gvk.kind} {namespaced_name(namespace, name)}"
    if live is None:
        if work is None or works.is_applied(work):
            link.break_by("ObjectMissing", object=what)
        return link, None
    link.facts.append(what)
    owner = annotations_of(live).get(WORK_ANNOTATION, "")
    is_other = work is not None and owner and owner != works.id_of_work(work)
    if is_other or not labels_of(live).get(CLUSTER_LABEL, "" if resource.namespaced else "shared"):
        link.break_by("ObjectForeign", object=what, owner=owner or "another writer")
    if desired is not None:
        differs = _shown(differences(completed(desired, live), live, only_set=True))
        link.facts += [f"differs in {text}" for text in differs]
    return link, live


async def pods_link(host: Server, target: Target, place: Place, live: Object) -> Link:
    """Read replicas, pods and events of a workload, and judge them. Raises UnseenError."""
    link, key = Link("pods", cluster=place.cluster), key_of(live)
    pods = [live] if key.gvk.kind == "Pod" else await _pods(host, live)
    desired, ready = _replicas(live)
    link.facts.append(f"{ready} of {desired} ready")
    phases = Counter(text_at(pod, "status", "phase") or "Unknown" for pod in pods)
    link.facts += [f"{count} pods {phase}" for phase, count in sorted(phases.items())]
    reasons = [*_conditions(live), *(reason for pod in pods for reason in _reasons(pod))]
    events = await _events(host, live, pods)
    link.facts += dict.fromkeys(text for text, _ in reasons)
    link.facts += [f"event {text}" for text in events][:SHOWN]
    if ready >= desired:
        return link
    given = {
        "what": target,
        "cluster": place.cluster,
        "namespace": key.namespace,
        "ready": ready,
        "desired": desired,
        "pod": "POD",
    }
    judged = [meaning(text, "PodsNotReady", **{**given, "pod": pod}) for text, pod in reasons]
    judged += [meaning(text, "PodsNotReady", **given) for text in events]
    telling = (each for each in judged if each.name != "PodsNotReady")
    first = next(telling, None) or next(iter(judged), None)
    silent = fault("PodsNotReady", reason="they are not yet, and nothing says why", **given)
    link.note(_by_nodes(first, place, given) or first or silent)
    return link


def _by_nodes(judged: Fault | None, place: Place, given: Mapping[str, object]) -> Fault | None:
    """Return what is wrong with the nodes, if that is why pods do not run."""
    vague = (None, "NotSchedulable", "PodsNotReady")
    if place.nodes is None or (judged.name if judged else None) not in vague:
        return None
    total, ready = count_nodes(place.nodes)
    if not total:
        return fault("NoNodes", **given)
    return None if ready else fault("NodesNotReady", total=total, **given)


def nodes_link(place: Place) -> Link:
    """Return the nodes of the group."""
    link = Link("nodes", cluster=place.cluster)
    if place.nodes is None:
        link.facts, link.is_seen = ["not seen"], False
        return link
    total, ready = count_nodes(place.nodes)
    names = [node.metadata.name for node in place.nodes]
    link.facts.append(f"{ready} of {total} Ready: {listed(names)}" if total else "none")
    return link


def has_pods(live: Object) -> bool:
    kind = key_of(live).gvk.group_kind
    return kind in WITH_PODS or kind.kind == "Pod"


async def _pods(host: Server, live: Object) -> list[Object]:
    selector = dig(live, "spec", "selector")
    labels = dig(selector, "matchLabels") or selector or {}
    terms = [f"{key}={value}" for key, value in labels.items() if isinstance(value, str)]
    if not terms:
        return []
    path = f"{NAMESPACES}/{live['metadata']['namespace']}/pods"
    pods = await host.items(path, labelSelector=",".join(terms))
    return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]


def _replicas(live: Object) -> tuple[int, int]:
    """Return how many pods a workload, or Pod, is to have, and how many of them are ready."""
    spec, status = live.get("spec") or {}, live.get("status") or {}
    if key_of(live).gvk.kind == "Pod":
        is_done = status.get("phase") == "Succeeded"
        return 1, is_done or any(_is_true(c) for c in conditions_of(live) if c["type"] == "Ready")
    desired = spec.get("replicas", spec.get("completions", spec.get("parallelism", 1)))
    ready = ("readyReplicas", "numberReady", "succeeded", "ready")
    counts = [status[key] for key in ready if isinstance(status.get(key), int)]
    return status.get("desiredNumberScheduled", desired), sum(counts)


def _is_true(condition: Object) -> bool:
    return bool(condition["status"] == "True")


def _conditions(live: Object) -> Iterator[tuple[str, str]]:
    """Yield what a controller says of its own workload where it fails, and no pod."""
    for each in conditions_of(live):
        failing = each["type"] in ("ReplicaFailure", "Failed")
        if failing is _is_true(each) and (failing or each["type"] == "Progressing"):
            yield f"{each.get('reason', '')}: {each.get('message', '')}", ""


def _reasons(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield why a pod does not run, with its name: its containers first."""
    name = pod["metadata"]["name"]
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in maps_at(pod, "status", kind):
            for state in ("waiting", "terminated"):
                reason = text_at(each, "state", state, "reason")
                if reason not in ("", "Completed", "PodInitializing", "ContainerCreating"):
                    yield f"{reason}: {text_at(each, 'state', state, 'message')}", name
    for each in conditions_of(pod):
        if each["type"] in ("PodScheduled", "Ready") and not _is_true(each) and each.get("message"):
            yield f"{each.get('reason', '')}: {each['message']}", name


async def _events(host: Server, live: Object, pods: list[Object]) -> list[str]:
    """Return warnings of the host about a workload and what it made, the newest first."""
    namespace, name = live["metadata"].get("namespace", ""), live["metadata"]["name"]
    names = {name, *(pod["metadata"]["name"] for pod in pods)}
    every: list[Object] = []
    with suppress(UnseenError):
        every = await host.items(f"{NAMESPACES}/{namespace}/events", fieldSelector="type=Warning")
    every.sort(key=_last_seen, reverse=True)
    texts = [
        f"{each.get('reason', '')}: {each.get('message', '')}"
        for each in every
        if (about := text_at(each, "involvedObject", "name")) in names
        or (about.startswith(f"{name}-") and "ReplicaSet" in str(each["involvedObject"]))
    ]
    return list(dict.fromkeys(texts))


def _last_seen(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def status_link(cluster: str, target: Target, work: Object | None, written: str | None) -> Link:
    """Return what the hub has of the state of the object, and how old that is."""
    link = Link("status", cluster=cluster)
    for entry in maps_at(work, "status", "manifestStatuses"):
        named = entry.get("identifier") or {}
        mine = (named.get("kind"), named.get("namespace", ""), named.get("name"))
        if mine == (target.resource.gvk.kind, target.namespace, target.name):
            link.facts.append(f"health {entry.get('health', 'Unknown')}")
    if written:
        link.facts.append(f"written {age(written)} ago; it is written when it changes")
    return link
