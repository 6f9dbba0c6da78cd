"""The links on the hub: from a template by its policy and binding to the Work of a Cluster."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.cluster.rules.conditions import READY, find_condition
from karmada_vc_agent.commands.servers import Server, UnseenError
from karmada_vc_agent.diagnosis.faults import Link, meaning
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    dig,
    key_of,
    labels_of,
    maps_at,
    namespaced_name,
    text_at,
)
from karmada_vc_agent.model.quantity import format_duration
from karmada_vc_agent.model.user_text import did_you_mean, listed
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from karmada_vc_agent.work import works

POLICY_API = "/apis/policy.karmada.io/v1alpha1"
BINDING_API = "/apis/work.karmada.io/v1alpha2"
_OVERRIDES = ("policy.karmada.io/applied-overrides", "policy.karmada.io/applied-cluster-overrides")


@dataclass(slots=True)
class Target:
    """What is explained: an object by its name on the hub. resource: its kind where that is read.

    template, policy, binding: once their links are read.
    """

    resource: Resource
    namespace: str
    name: str
    template: Object | None = None
    policy: Object | None = None
    clusters: list[str] = field(default_factory=list)
    """Where the scheduler places it."""
    others: dict[str, list[Object]] = field(default_factory=dict)
    """Works by Cluster, once they were listed."""

    def __str__(self) -> str:
        """Return `Deployment edge/web`."""
        return f"{self.resource.gvk.kind} {namespaced_name(self.namespace, self.name)}"

    def is_in(self, manifest: Object) -> bool:
        key = key_of(manifest)
        of_manifest = (key.gvk.group_kind, key.namespace, key.name)
        return of_manifest == (self.resource.gvk.group_kind, self.namespace, self.name)


def age(time: str | None, now: datetime | None = None) -> str:
    """Return how long ago a time of an API server was, "" for none."""
    try:
        at = datetime.fromisoformat(time or "")
    except ValueError:
        return ""
    return format_duration(max(0, int(((now or datetime.now(UTC)) - at).total_seconds())))


async def template_link(hub: Server, resource: Resource, target: Target, cluster: str) -> Link:
    """Read the template. A Work by hand needs none. Raises UnseenError."""
    link = Link("template")
    target.template = live = await hub.find(resource.path(target.namespace, target.name))
    if live is None:
        if cluster and await work_of(hub, cluster, target):
            link.facts.append("none: its Work was not made from a template")
            return link
        listed_now = await hub.items(resource.path(target.namespace))
        names = [each["metadata"]["name"] for each in listed_now]
        link.break_by("TemplateMissing", what=target, hint=did_you_mean(target.name, names))
        return link
    metadata = live["metadata"]
    link.facts.append(f"{target}, generation {metadata.get('generation', '-')}")
    if since := metadata.get("deletionTimestamp"):
        finalizers = ", ".join(metadata.get("finalizers") or ("none",))
        link.break_by("TemplateDeleting", what=target, since=since, finalizers=finalizers)
    return link


# --- policies ----------------------------------------------------------------------------------


async def policy_link(hub: Server, target: Target) -> Link:
    """Read which policy selects the template, or why none does. Raises UnseenError."""
    link, template = Link("policy"), target.template or {}
    marks = annotations_of(template)
    if name := marks.get(vocabulary.CLUSTER_POLICY_NAME_ANNOTATION):
        path = f"{POLICY_API}/clusterpropagationpolicies/{name}"
    elif name := marks.get(vocabulary.POLICY_NAME_ANNOTATION):
        place = marks.get(vocabulary.POLICY_NAMESPACE_ANNOTATION, target.namespace)
        path = f"{POLICY_API}/namespaces/{place}/propagationpolicies/{name}"
    else:
        path = ""
    target.policy = policy = await hub.find(path) if path else None
    if policy is None:
        await _without_policy(hub, target, link)
        return link
    link.facts.append(f"{policy_name(policy)} selects it")
    await _check_names(hub, policy, link)
    if dig(policy, "spec", "suspension"):
        link.facts.append(f"suspension: {json.dumps(policy['spec']['suspension'])}")
    return link


async def _without_policy(hub: Server, target: Target, link: Link) -> None:
    binding = await hub.find(binding_path(target))
    if binding is not None and dig(binding, "spec", "requiredBy"):
        by = ", ".join(text_at(each, "name") for each in maps_at(binding, "spec", "requiredBy"))
        link.facts.append(f"none of its own: it follows what depends on it ({by})")
        target.policy = {}
        return
    paths = [f"{POLICY_API}/clusterpropagationpolicies"]
    if target.namespace:
        paths.insert(0, f"{POLICY_API}/namespaces/{target.namespace}/propagationpolicies")
    policies = [policy for path in paths for policy in await hub.items(path)]
    reasons: list[tuple[int, str, Object]] = []
    for policy in policies:
        selectors = maps_at(policy, "spec", "resourceSelectors")
        reasons += [(*_difference(selector, target), policy) for selector in selectors]
    reasons.sort(key=lambda reason: -reason[0])
    link.facts += [f"{policy_name(policy)} {why or 'selects it'}" for _, why, policy in reasons[:5]]
    if not reasons:
        link.break_by("NoPolicy", what=target, hint=f"; there are {len(policies)} policies")
        return
    _, why, policy = reasons[0]
    name = policy_name(policy)
    if why:
        link.break_by("NoPolicy", what=target, hint=f"; nearest: {name} {why}")
    else:
        lazy = dig(policy, "spec", "activationPreference") == "Lazy"
        hint = ", as it is Lazy: it does once the template changes" if lazy else ""
        link.break_by("PolicyNotApplied", policy=name, what=target, hint=hint)


def _difference(selector: Object, target: Target) -> tuple[int, str]:
    """Return how many fields of a selector match, and which does not: "" = it selects.

    As ResourceMatches of Karmada: of an empty field all match.
    """
    gvk, template = target.resource.gvk, target.template or {}
    own = {
        "kind": gvk.kind,
        "apiVersion": text_at(template, "apiVersion") or gvk.api_version,
        "namespace": target.namespace,
        "name": target.name,
    }
    for score, (key, value) in enumerate(own.items()):
        given = text_at(selector, key)
        if given and given != value:
            return score, f'selects {key} "{given}"{did_you_mean(given, [value])}'
    labels = dig(selector, "labelSelector") if not text_at(selector, "name") else None
    if labels and not _selects(labels, labels_of(template)):
        return len(own), f"selects labels {json.dumps(labels)}"
    return len(own) + 1, ""


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    try:
        return msgspec.convert(selector, LabelSelector).matches(labels)
    except (
        msgspec.ValidationError
    ):  # an operator that selects no node, such as Gt, is for nodes only
        return False


def policy_name(policy: Object | None) -> str:
    """Return `PropagationPolicy edge/web`; items of lists have no kind."""
    if not policy:
        return "its policy"
    _, namespace, name = key_of(policy)
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    return f"{kind} {namespaced_name(namespace, name)}"


def _cluster_names(policy: Object) -> Iterator[str]:
    placement = dig(policy, "spec", "placement")
    affinities = maps_at(placement, "clusterAffinities")
    for affinity in (dig(placement, "clusterAffinity"), *affinities):
        yield from dig(affinity, "clusterNames") or ()


async def _check_names(hub: Server, policy: Object, link: Link) -> None:
    names = list(_cluster_names(policy))
    if not names:
        return
    try:
        there = await cluster_names(hub)
    except UnseenError:
        return
    for name in names:
        if name not in there:
            hint = did_you_mean(name, there)
            given = {"policy": policy_name(policy), "cluster": name, "hint": hint}
            link.break_by("PolicyNamesNoCluster", **given)


async def cluster_names(hub: Server) -> list[str]:
    """Return the names of all Clusters. Raises UnseenError."""
    return [each["metadata"]["name"] for each in await hub.items(CLUSTERS_PATH)]


# --- binding -----------------------------------------------------------------------------------


def binding_path(target: Target) -> str:
    """Return the path of the binding of a template, as Karmada names it."""
    name = f"{target.name.replace(':', '.')}-{target.resource.gvk.kind.lower()}"
    if not target.namespace:
        return f"{BINDING_API}/clusterresourcebindings/{name}"
    return f"{BINDING_API}/namespaces/{target.namespace}/resourcebindings/{name}"


async def binding_link(hub: Server, target: Target, cluster: str) -> Link:
    """Read where the scheduler places the template, and its words. Raises UnseenError."""
    link, path = Link("binding"), binding_path(target)
    binding = await hub.find(path)
    policy, name = policy_name(target.policy), path.rpartition("/")[2]
    if binding is None:
        if target.template is not None:
            link.break_by("NoBinding", policy=policy, what=target, binding=name)
        return link
    places = [*maps_at(binding, "spec", "clusters")]
    for each in maps_at(binding, "spec", "requiredBy"):
        places += maps_at(each, "clusters")
    target.clusters = list(dict.fromkeys(text_at(each, "name") for each in places))
    replicas = [f"{text_at(p, 'name')} ({p['replicas']})" for p in places if p.get("replicas")]
    link.facts.append(f"{name} on {listed(replicas or target.clusters) or 'no cluster'}")
    scheduled = find_condition(conditions_of(binding), "Scheduled")
    if scheduled:
        words = f"{scheduled.get('reason', '')}: {scheduled.get('message', '')}"
        link.facts.append(f"scheduler: {scheduled['status']} {words}")
    if dig(binding, "spec", "suspension", "scheduling"):
        reason = "scheduling is suspended by spec.suspension"
        link.break_by("NotScheduled", what=target, reason=reason, policy=policy)
    is_refused = scheduled is not None and scheduled["status"] != "True"
    if is_refused or not target.clusters:
        reason = scheduled.get("message", "") if scheduled else "it has not tried yet"
        link.break_by("NotScheduled", what=target, reason=reason, policy=policy)
    elif cluster and cluster not in target.clusters and await _is_there(hub, cluster):
        where = listed(target.clusters)
        given = {"policy": policy, "what": target, "clusters": where, "cluster": cluster}
        link.break_by("NotPlacedHere", **given)
    return link


async def _is_there(hub: Server, cluster: str) -> bool:
    """Return whether a Cluster exists; the link of one that does not says so."""
    try:
        return await hub.find(f"{CLUSTERS_PATH}/{cluster}") is not None
    except UnseenError:
        return True


def conditions_of(obj: Object | None) -> Any:
    """Return the conditions of any object that has some."""
    return [c for c in maps_at(obj, "status", "conditions") if {"type", "status"} <= c.keys()]


# --- Cluster -----------------------------------------------------------------------------------


async def cluster_link(hub: Server, name: str, now: datetime) -> tuple[Link, Object | None]:
    """Read a Cluster and its Lease: whether an agent reports it. Raises UnseenError."""
    link = Link("cluster", cluster=name)
    cluster = await hub.find(f"{CLUSTERS_PATH}/{name}")
    if cluster is None:
        try:
            hint = did_you_mean(name, await cluster_names(hub))
        except UnseenError:
            hint = ""
        link.break_by("NoCluster", cluster=name, hint=hint)
        return link, None
    if cluster["metadata"].get("deletionTimestamp"):
        link.break_by("ClusterDeleting", cluster=name)
    lease = await lease_of(hub, name)
    silence = silence_of(lease, now)
    ready = READY.find(conditions_of(cluster))
    reason = f"{ready.get('reason', '')}: {ready.get('message', '')}" if ready else "not reported"
    link.facts.append(f"Ready={ready['status'] if ready else 'Unknown'} {reason}")
    if renewed := text_at(lease, "spec", "renewTime"):
        link.facts.append(f"Lease renewed {age(renewed, now)} ago")
    changes = find_condition(conditions_of(cluster), "TakesChanges")
    if changes and changes.get("reason") == "Paused":
        link.break_by("Paused", cluster=name)
    if silence:
        link.break_by("ClusterSilent", cluster=name, reason=silence)
    elif ready is None or ready["status"] == "Unknown":
        link.break_by("ClusterSilent", cluster=name, reason=reason)
    elif ready["status"] != "True":
        link.break_by("ClusterNotReady", cluster=name, reason=reason)
    return link, cluster


async def lease_of(hub: Server, name: str) -> Object | None:
    """Return the Lease of a Cluster, None where there is none or it may not be read."""
    try:
        return await hub.find(f"{LEASES_PATH}/{name}")
    except UnseenError:
        return None


def silence_of(lease: Object | None, now: datetime) -> str:
    """Return for how long a Lease was not renewed, "" while it is valid."""
    renewed, lasts_s = (
        text_at(lease, "spec", "renewTime"),
        dig(lease, "spec", "leaseDurationSeconds"),
    )
    if not renewed or not isinstance(lasts_s, int):
        return ""
    silent_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    return f"its Lease was not renewed for {age(renewed, now)}" if silent_s > lasts_s else ""


# --- Work --------------------------------------------------------------------------------------


async def work_of(hub: Server, cluster: str, target: Target) -> Object | None:
    """Return the Work with an object, by its name or else by its content. Raises UnseenError."""
    namespace = vocabulary.execution_namespace(cluster)
    kind = target.resource.gvk.kind
    name = vocabulary.work_name(kind, target.name, target.namespace)
    if work := await hub.find(works.work_path(namespace, name)):
        return work
    if cluster not in target.others:
        target.others[cluster] = await hub.items(works.work_path(namespace))
    holds = (w for w in target.others[cluster] if any(map(target.is_in, works.manifests_of(w))))
    return next(holds, None)


async def work_link(hub: Server, cluster: str, target: Target) -> tuple[Link, Object | None]:
    """Read the Work, and what the agent says of it. Raises UnseenError."""
    link = Link("work", cluster=cluster)
    work = await work_of(hub, cluster, target)
    if work is None:
        name = vocabulary.work_name(target.resource.gvk.kind, target.name, target.namespace)
        link.break_by("NoWork", what=target, cluster=cluster, work=name)
        return link, None
    name, status = work["metadata"]["name"], work.get("status")
    written = status_written(work)
    link.facts.append(
        f"{works.id_of_work(work)}, generation {work['metadata'].get('generation')}"
        + (f", status written {age(written)} ago" if written else "")
    )
    for condition in conditions_of(work):
        text = f"{condition.get('reason', '')}: {condition.get('message', '')}"
        link.facts.append(f"{condition['type']}={condition['status']} {text}")
    link.facts += [f"override {text}" for text in _overrides(work)]
    old, new = _generations(work, target)
    if old and new and old != new:
        link.break_by("WorkOutdated", work=name, old=old, what=target, new=new)
    dispatching, applied = works.dispatching_of(status), works.applied_of(status)
    if works.is_suspended(work):
        link.break_by("WorkSuspended", work=name)
    elif works.is_waiting(work) and dispatching:
        reason = dispatching.get("message", "")
        link.break_by("WindowClosed", work=name, cluster=cluster, reason=reason)
    elif applied is None:
        link.break_by("NotTaken", cluster=cluster, work=name)
    elif applied["status"] != "True":
        given = {"what": target, "cluster": cluster, "namespace": target.namespace}
        link.note(meaning(applied.get("message", ""), "NotApplied", **given))
    return link, work


def _generations(work: Object, target: Target) -> tuple[str, str]:
    """Return the generation of the template in the Work, and on the hub."""
    manifest = next(filter(target.is_in, works.manifests_of(work)), {})
    old = annotations_of(manifest).get(vocabulary.TEMPLATE_GENERATION_ANNOTATION, "")
    return old, str(dig(target.template, "metadata", "generation") or "")


def _overrides(work: Object) -> Iterator[str]:
    for key in _OVERRIDES:
        try:
            entries = json.loads(annotations_of(work).get(key, "[]"))
        except ValueError:
            continue
        yield from (text_at(each, "policyName") for each in maps_at({"e": entries}, "e"))


def status_written(work: Object) -> str | None:
    """Return when the status of a Work was written last, by the record of the API server."""
    entries = maps_at(work, "metadata", "managedFields")
    times = (str(e.get("time") or "") for e in entries if e.get("subresource") == "status")
    return max(times, default=None)
