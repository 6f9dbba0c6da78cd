"""The links on the host: from a claimed namespace to the pods of the rewritten object."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from karmada_vc_agent.cluster.hub_clusters import agent_of
from karmada_vc_agent.cluster.rules.conditions import count_nodes
from karmada_vc_agent.cluster.virtual_clusters import Phase, claim_of, hold_of, phase_of
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis.faults import Fault, meaning
from karmada_vc_agent.diagnosis.hub_links import Explained, conditions_of, words_of
from karmada_vc_agent.diagnosis.report import Link, Report, counted
from karmada_vc_agent.diagnosis.servers import Server
from karmada_vc_agent.install.host_rights import described_on_host
from karmada_vc_agent.install.served import why_not_running
from karmada_vc_agent.interpretation.interpreter import apply_rule
from karmada_vc_agent.interpretation.user_hooks import INTERPRET_HEALTH
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
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WITH_PODS, WORK_ANNOTATION
from karmada_vc_agent.runner.common import translation_settings
from karmada_vc_agent.translation.context import TranslationContext, host_name
from karmada_vc_agent.translation.kind_policy import Refusal
from karmada_vc_agent.translation.placement import common_taints
from karmada_vc_agent.translation.rbac_rules import admin_rules
from karmada_vc_agent.translation.translate import HostObject, translate
from karmada_vc_agent.work import works
from karmada_vc_agent.work.rules.server_changes import completed

NAMESPACES = "/api/v1/namespaces"
_CORDON = "node.kubernetes.io/unschedulable"  # the taint of a node that kubectl cordoned
SHOWN = 12
"""Changed paths, and events, that are shown of one link."""


@dataclass(slots=True)
class OnHost:
    """One virtual cluster on the host, and what is explained in it.

    vc, config: None where no settings describe it. work: None where the hub has none, or is not
    read. nodes: of the group, None where they cannot be read. desired: the rewritten object.
    """

    cluster: str
    target: Explained
    work: Object | None = None
    config: AgentConfig | None = None
    vc: VirtualCluster | None = None
    claims: dict[VirtualNamespace, Object] = field(default_factory=dict)
    nodes: list[Node] | None = None
    desired: Object | None = None

    @property
    def names(self) -> dict[VirtualNamespace, HostNamespace]:
        return {key: HostNamespace(each["metadata"]["name"]) for key, each in self.claims.items()}


async def settings_of_agent(
    host: Server, struct: type[AgentConfig], cluster: Object | None, named: tuple[str, str]
) -> AgentConfig | None:
    """Return the settings in the ConfigMap of an agent, None where they are elsewhere.

    named: name and namespace of the agent where the Cluster does not say. Raises KubeError.
    """
    namespace, _, name = agent_of(cluster).partition("/")
    name, namespace = (name, namespace) if name else named
    config_map = await host.find(f"{NAMESPACES}/{namespace}/configmaps/{name}")
    text = text_at(config_map, "data", "agent.yaml")
    if not text:
        return None
    given = {"agent_name": name, "agent_namespace": namespace}
    with suppress(ConfigError):
        return load_config(struct, Path("agent.yaml"), given, text=text)
    return None


async def read_place(host: Server, report: Report, place: OnHost) -> None:
    """Read claims, settings and nodes of a virtual cluster, and check the namespace."""
    with report.link("namespace", place.cluster) as link:
        selector = f"{CLUSTER_LABEL}={place.cluster}"
        spaces = await host.items(NAMESPACES, labelSelector=selector)
        claimed = ((claim_of(each), each) for each in spaces)
        place.claims = {claim.namespace: each for claim, each in claimed if claim is not None}
        if place.config is not None:
            vcs = place.config.virtual_clusters
            with suppress(KubeError):
                described = await described_on_host(host.client, place.config)
                vcs = (*vcs, *described.virtual_clusters)
            place.vc = next((vc for vc in vcs if vc.name == place.cluster), None)
        if place.vc is not None:
            with suppress(KubeError):
                every = [msgspec.convert(each, Node) for each in await host.items("/api/v1/nodes")]
                group = (n for n in every if place.vc.selects(n.metadata.name, n.metadata.labels))
                place.nodes = list(group)
        if place.target.namespace:
            _check_namespace(place, link)


def _check_namespace(place: OnHost, link: Link) -> None:
    virtual = VirtualNamespace(place.target.namespace)
    live = place.claims.get(virtual)
    if live is None:
        link.broken("NamespaceNotClaimed", namespace=virtual)
        return
    name, claim = live["metadata"]["name"], claim_of(live)
    link.facts.append(f"{virtual} is {name} on the host")
    if claim and phase_of(live, claim.agent) is Phase.TERMINATING:
        link.broken("NamespaceTerminating", namespace=name)
    if hold := hold_of(live):
        link.broken("NamespaceHeld", namespace=name, reason=hold)


# --- the rewritten object ------------------------------------------------------------------------


def rewrite(host: Server, report: Report, place: OnHost, resource: Resource) -> None:
    """Translate the manifest as the agent does: what it changes, or why it refuses."""
    config, vc, work, target = place.config, place.vc, place.work, place.target
    manifest = next(filter(target.is_in, works.manifests_of(work or {})), target.template)
    with report.link("rewritten", place.cluster) as link:
        if config is None or vc is None or manifest is None:
            missing = "a manifest" if vc else "the settings of the virtual cluster (--config)"
            link.unseen(f"not seen: it needs {missing}")
            return
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
        if isinstance(result, HostObject):
            place.desired = result.obj
            link.facts += _shown(differences(manifest, result.obj))
            link.facts += [f"notice {notice.code}: {notice.detail}" for notice in result.notices]
        elif not isinstance(result, Refusal):
            link.facts.append("no object of its own on the host")
        else:
            kind = target.resource.gvk.kind
            text = result.text(vc.name, kind, target.namespace, target.name)
            if work is not None and works.is_applied(work):
                link.facts.append(f"it would not be applied now: {text}")
            else:
                link.means(text, "NotApplied")


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


async def read_live(
    host: Server, report: Report, place: OnHost, resource: Resource
) -> Object | None:
    """Read the object on the host, and how it differs from the desired one."""
    target, work, desired = place.target, place.work, place.desired
    with report.link("object", place.cluster) as link:
        namespace, name = "", target.name
        if resource.namespaced:
            namespace = place.names[VirtualNamespace(target.namespace)]
        else:
            cluster = place.vc.name_on_host if place.vc else place.cluster
            name = desired["metadata"]["name"] if desired else host_name(target.name, cluster)
        live = await host.find(resource.path(namespace, name))
        what = f"{resource.gvk.kind} {namespaced_name(namespace, name)}"
        if live is None:
            if work is None or works.is_applied(work):
                link.broken("ObjectMissing", object=what)
            return None
        link.facts.append(what)
        owner = annotations_of(live).get(WORK_ANNOTATION, "")
        is_other = work is not None and owner and owner != works.id_of_work(work)
        if is_other or (resource.namespaced and CLUSTER_LABEL not in labels_of(live)):
            link.broken("ObjectForeign", object=what, owner=owner or "another writer")
        if desired is not None:
            differs = _shown(differences(completed(desired, live), live, only_set=True))
            link.facts += [f"differs in {text}" for text in differs]
        return live
    return None


async def read_pods(host: Server, report: Report, place: OnHost, live: Object) -> None:
    """Read replicas, pods and events of a workload, and judge them."""
    with report.link("pods", place.cluster) as link:
        key, (desired, ready) = key_of(live), _replicas(live)
        pods = [live] if key.gvk.kind == "Pod" else await _pods(host, live)
        link.facts.append(f"{ready} of {desired} ready")
        phases = Counter(text_at(pod, "status", "phase") or "Unknown" for pod in pods)
        link.facts += [f"{counted(n, 'pod')} {phase}" for phase, n in sorted(phases.items())]
        reasons = list(_conditions(live))
        for pod in pods:
            name = pod["metadata"]["name"]
            reasons += [(f"{reason}: {message}", name) for reason, message in why_not_running(pod)]
        events = await _events(host, live, pods)
        link.facts += dict.fromkeys(text for text, _ in reasons)
        link.facts += [f"event {text}" for text in events][:SHOWN]
        if ready < desired:
            counts = {"ready": ready, "desired": desired, "namespace": key.namespace}
            # Pods that no node takes say so themselves; what mounts is no reason once they run.
            over = ("FailedScheduling", *(() if phases["Pending"] else ("FailedMount",)))
            reasons += [(text, "POD") for text in events if not text.startswith(over)]
            _judge(link, place, reasons, counts)
    with report.link("nodes", place.cluster) as link:
        if place.nodes is None:
            link.unseen("not seen")
            return
        total, ready = count_nodes(place.nodes)
        names = [node.metadata.name for node in place.nodes]
        link.facts.append(f"{ready} of {total} Ready: {listed(names)}" if total else "none")


def _judge(
    link: Link, place: OnHost, reasons: list[tuple[str, str]], counts: Mapping[str, object]
) -> None:
    """Note why pods do not run: nodes that are not there, else the first text that has a meaning.

    reasons: texts, each with the name of its pod.
    """
    values = {"what": place.target, "cluster": place.cluster, **counts}
    judged = [meaning(text, "PodsNotReady", **values, pod=pod) for text, pod in reasons]
    telling: Fault | None = next((each for each in judged if each.name != "PodsNotReady"), None)
    if place.nodes is not None and (telling is None or telling.name == "NotSchedulable"):
        total, ready = count_nodes(place.nodes)
        if not ready:
            link.broken("NodesNotReady" if total else "NoNodes", total=total)
        held = [n.metadata.name for n in place.nodes if _CORDON in {t.key for t in n.spec.taints}]
        if telling and len(held) == total:
            link.broken("NodesCordoned", nodes=" ".join(held))
    link.fault = link.fault or telling or next(iter(judged), None)
    link.broken("PodsNotReady", reason="they are not yet, and nothing says why", **counts)


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
        return 1, int(apply_rule(INTERPRET_HEALTH, live))
    desired = spec.get("replicas", spec.get("completions", spec.get("parallelism", 1)))
    ready = ("readyReplicas", "numberReady", "succeeded", "ready")
    counts = [status[key] for key in ready if isinstance(status.get(key), int)]
    true = (each["type"] for each in conditions_of(live) if each["status"] == "True")
    if spec.get("suspend") or "Complete" in true:
        desired = sum(counts)
    # A rollout that does not end has its own pods beside the old ones.
    desired = max(status.get("desiredNumberScheduled", desired), status.get("replicas", 0))
    return desired, sum(counts)


def _conditions(live: Object) -> Iterator[tuple[str, str]]:
    """Yield what a controller says of its own workload where it fails, and no pod."""
    for each in conditions_of(live):
        failing = each["type"] in ("ReplicaFailure", "Failed")
        if failing is (each["status"] == "True") and (failing or each["type"] == "Progressing"):
            yield words_of(each), ""


async def _events(host: Server, live: Object, pods: list[Object]) -> list[str]:
    """Return warnings of the host about a workload and what it made, the newest first."""
    namespace, name = live["metadata"].get("namespace", ""), live["metadata"]["name"]
    names = {name, *(pod["metadata"]["name"] for pod in pods)}
    every = await host.seen(f"{NAMESPACES}/{namespace}/events", fieldSelector="type=Warning")
    every.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), reverse=True)
    texts = [
        words_of(each)
        for each in every
        if (about := text_at(each, "involvedObject", "name")) in names
        or (about.startswith(f"{name}-") and "ReplicaSet" in str(each["involvedObject"]))
    ]
    return list(dict.fromkeys(texts))


def read_status(report: Report, place: OnHost, written: str) -> None:
    """Add what the hub has of the state of the object. written: its age."""
    named = (place.target.resource.gvk.kind, place.target.namespace, place.target.name)
    with report.link("status", place.cluster) as link:
        for entry in maps_at(place.work, "status", "manifestStatuses"):
            of = entry.get("identifier") or {}
            if named == (of.get("kind"), of.get("namespace", ""), of.get("name")):
                link.facts.append(f"health {entry.get('health', 'Unknown')}")
        if written:
            link.facts.append(f"written {written} ago; it is written when it changes")
