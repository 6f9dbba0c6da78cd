"""The links on the hub: from a template by its policy and binding to the Work of a Cluster."""

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.lease import LEASES_PATH
from karmada_vc_agent.cluster.rules.conditions import READY, find_condition
from karmada_vc_agent.diagnosis.policies import Selector, difference
from karmada_vc_agent.diagnosis.report import Link, Report
from karmada_vc_agent.diagnosis.servers import Server, same_kind
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.leader_election import SKEW_S
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    dig,
    key_of,
    maps_at,
    namespaced_name,
    text_at,
)
from karmada_vc_agent.model.user_text import did_you_mean, listed
from karmada_vc_agent.work import works

POLICY_API = "/apis/policy.karmada.io/v1alpha1"
BINDING_API = "/apis/work.karmada.io/v1alpha2"
_OVERRIDES = ("policy.karmada.io/applied-overrides", "policy.karmada.io/applied-cluster-overrides")
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(slots=True)
class Explained:
    """What is explained: an object by its name on the hub. resource: its kind where that is read.

    work: name of its Work, "" = as Karmada names it. template, policy: once they are read.
    clusters: where the scheduler places it.
    """

    resource: Resource
    namespace: str
    name: str
    work: str = ""
    template: Object | None = None
    policy: Object | None = None
    clusters: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return `Deployment edge/web`."""
        return f"{self.resource.gvk.kind} {namespaced_name(self.namespace, self.name)}"

    def is_in(self, manifest: Object) -> bool:
        key, of_target = key_of(manifest), (self.namespace, self.name)
        return (key.gvk.group_kind, *key[1:]) == (self.resource.gvk.group_kind, *of_target)


def time_of(text: object) -> datetime | None:
    """Return a time of an API server, None for none."""
    try:
        at = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def age(time: str | None, now: datetime | None = None) -> str:
    """Return how long ago a time of an API server was, as `90s`, `5m` or `2d`; "" for none."""
    if (at := time_of(time)) is None:
        return ""
    age_s = max(0, int(((now or datetime.now(UTC)) - at).total_seconds()))
    unit, seconds = next(each for each in _UNITS if age_s >= 2 * each[1] or each[1] == 1)
    return f"{age_s // seconds}{unit}"


def conditions_of(obj: Object | None) -> Any:
    """Return the conditions of any object that has some."""
    return [c for c in maps_at(obj, "status", "conditions") if {"type", "status"} <= c.keys()]


def words_of(condition: Any) -> str:
    """Return reason and message of a condition."""
    return f"{condition.get('reason', '')}: {condition.get('message', '')}" if condition else ""


async def read_template(hub: Server, report: Report, target: Explained) -> None:
    """Read the template; one whose Work is named needs none."""
    with report.link("template") as link:
        resource = same_kind(target.resource, hub)
        if resource is None:
            link.unseen("the hub does not serve this kind")
            return
        live = target.template = await hub.find(resource.path(target.namespace, target.name))
        if live is None and target.work:
            link.facts.append("none: its Work was not made from a template")
        elif live is None:
            listed_now = await hub.items(resource.path(target.namespace))
            names = [each["metadata"]["name"] for each in listed_now]
            link.broken("TemplateMissing", hint=did_you_mean(target.name, names))
        else:
            metadata = live["metadata"]
            link.facts.append(f"{target}, generation {metadata.get('generation', '-')}")
            if since := metadata.get("deletionTimestamp"):
                finalizers = ", ".join(metadata.get("finalizers") or ("none",))
                link.broken("TemplateDeleting", since=since, finalizers=finalizers)


async def read_policy(hub: Server, report: Report, target: Explained, cluster: str) -> None:
    """Read which policy selects the template, or why none does. cluster: "" = all count."""
    with report.link("policy") as link:
        marks, path = annotations_of(target.template or {}), ""
        if name := marks.get(vocabulary.CLUSTER_POLICY_NAME_ANNOTATION):
            path = f"{POLICY_API}/clusterpropagationpolicies/{name}"
        elif name := marks.get(vocabulary.POLICY_NAME_ANNOTATION):
            place = marks.get(vocabulary.POLICY_NAMESPACE_ANNOTATION, target.namespace)
            path = f"{POLICY_API}/namespaces/{place}/propagationpolicies/{name}"
        policy = target.policy = await hub.find(path) if path else None
        if policy is None:
            await _without_policy(hub, target, link)
            return
        link.facts.append(f"{_policy_name(policy)} selects it")
        if suspension := dig(policy, "spec", "suspension"):
            link.facts.append(f"suspension: {json.dumps(suspension)}")
        names, there = list(_cluster_names(policy)), await _names_of_clusters(hub)
        for name in names if there and cluster not in names else ():
            if name not in there:
                hint, of = did_you_mean(name, there), _policy_name(policy)
                link.broken("PolicyNamesNoCluster", policy=of, cluster=name, hint=hint)


async def _without_policy(hub: Server, target: Explained, link: Link) -> None:
    binding = await hub.find(_binding_path(target))
    if required := maps_at(binding, "spec", "requiredBy"):
        by = ", ".join(text_at(each, "name") for each in required)
        link.facts.append(f"none of its own: it follows what depends on it ({by})")
        target.policy = {}
        return
    reasons = await _nearest(hub, target)
    texts = [f"{_policy_name(policy)} {why or 'selects it'}" for why, policy in reasons]
    link.facts += texts[1:5]
    if not reasons:
        link.broken("NoPolicy", hint="; the hub has no policies for its namespace")
    elif reasons[0][0]:
        link.broken("NoPolicy", hint=f"; nearest: {texts[0]}")
    else:
        is_lazy = dig(reasons[0][1], "spec", "activationPreference") == "Lazy"
        hint = ", as it is Lazy: it does once the template changes" if is_lazy else ""
        link.broken("PolicyNotApplied", policy=_policy_name(reasons[0][1]), hint=hint)


async def _nearest(hub: Server, target: Explained) -> list[tuple[str, Object]]:
    """Return why each policy does not select a template, "" = it does; the nearest come first."""
    paths = [f"{POLICY_API}/clusterpropagationpolicies"]
    if target.namespace:
        paths.insert(0, f"{POLICY_API}/namespaces/{target.namespace}/propagationpolicies")
    reasons = [
        (*_difference(selector, target.template or {}), policy)
        for path in paths
        for policy in await hub.items(path)
        for selector in maps_at(policy, "spec", "resourceSelectors")
    ]
    reasons.sort(key=lambda reason: -reason[0])
    return [(why, policy) for _, why, policy in reasons]


def _difference(selector: Object, template: Object) -> tuple[int, str]:
    try:
        return difference(msgspec.convert(selector, Selector), template)
    except msgspec.ValidationError as error:  # an operator that is for nodes only
        return 0, f"has a selector that Karmada does not evaluate: {error}"


def _policy_name(policy: Object | None) -> str:
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


async def _names_of_clusters(hub: Server) -> list[str]:
    """Return the names of all Clusters; [] where they may not be read."""
    return [each["metadata"]["name"] for each in await hub.seen(CLUSTERS_PATH)]


def _binding_path(target: Explained) -> str:
    """Return the path of the binding of a template, as Karmada names it."""
    name = f"{target.name.replace(':', '.')}-{target.resource.gvk.kind}".lower()
    if not target.namespace:
        return f"{BINDING_API}/clusterresourcebindings/{name}"
    return f"{BINDING_API}/namespaces/{target.namespace}/resourcebindings/{name}"


async def read_binding(hub: Server, report: Report, target: Explained, cluster: str) -> None:
    """Read where the scheduler places the template, and its words."""
    with report.link("binding") as link:
        path, policy = _binding_path(target), _policy_name(target.policy)
        binding, name = await hub.find(path), path.rpartition("/")[2]
        if binding is None:
            if target.template is not None:
                link.broken("NoBinding", policy=policy, binding=name)
            return
        placing = (dig(binding, "spec"), *maps_at(binding, "spec", "requiredBy"))
        places = [place for each in placing for place in maps_at(each, "clusters")]
        target.clusters = list(dict.fromkeys(text_at(each, "name") for each in places))
        replicas = [f"{text_at(p, 'name')} ({p['replicas']})" for p in places if p.get("replicas")]
        link.facts.append(f"{name} on {listed(replicas or target.clusters) or 'no cluster'}")
        scheduled = find_condition(conditions_of(binding), "Scheduled")
        if scheduled:
            link.facts.append(f"scheduler: {scheduled['status']} {words_of(scheduled)}")
        failed = scheduled and scheduled["status"] != "True" and cluster not in target.clusters
        if dig(binding, "spec", "suspension", "scheduling"):
            link.broken("NotScheduled", reason="spec.suspension suspends it", policy=policy)
        elif failed or not target.clusters:
            reason = scheduled.get("message", "") if scheduled else "it has not tried yet"
            taints = await _tainted(hub, cluster, target) if "untolerated taint" in reason else []
            for name, taint in sorted(taints, key=lambda t: t[1].partition(":")[0] not in reason):
                link.broken("ClusterTainted", cluster=name, taint=taint, policy=policy)
            link.means(reason, "NotScheduled", policy=policy)
        # The link of a Cluster that does not exist says so.
        elif cluster in ({*await _names_of_clusters(hub)} or {cluster}) - {"", *target.clusters}:
            where = listed(target.clusters)
            with suppress(KubeError):  # which is noted; few may read policies of all namespaces
                for why, other in await _nearest(hub, target) if target.template else ():
                    name, names = _policy_name(other), list(_cluster_names(other))
                    is_below = name.startswith("Cluster") > policy.startswith("Cluster")
                    if name != policy and not (why or is_below) and cluster in names:
                        link.broken("ClaimedByAnother", other=name, policy=policy, cluster=cluster)
            link.broken("NotPlacedHere", policy=policy, clusters=where, cluster=cluster)


async def _tainted(hub: Server, cluster: str, target: Explained) -> list[tuple[str, str]]:
    """Return the taints, but Karmada's own, of the Cluster, or of those that the policy names."""
    names = {cluster} if cluster else {*_cluster_names(target.policy or {})}
    return [
        (name, f"{text_at(taint, 'key')}:{text_at(taint, 'effect')}")
        for each in await hub.seen(CLUSTERS_PATH)
        if (name := each["metadata"]["name"]) in names
        for taint in maps_at(each, "spec", "taints")
        if not text_at(taint, "key").startswith("cluster.karmada.io/")
    ]


async def read_cluster(hub: Server, report: Report, name: str) -> Object | None:
    """Read a Cluster and its Lease: whether an agent reports it."""
    with report.link("cluster", name) as link:
        cluster = await hub.find(f"{CLUSTERS_PATH}/{name}")
        if cluster is None:
            link.broken("NoCluster", hint=did_you_mean(name, await _names_of_clusters(hub)))
            return None
        lease, conditions = await lease_of(hub, name), conditions_of(cluster)
        ready, changes = READY.find(conditions), find_condition(conditions, "TakesChanges")
        status = ready["status"] if ready else "Unknown"
        reason = words_of(ready) or "not reported"
        link.facts.append(f"Ready={status} {reason}")
        if renewed := text_at(lease, "spec", "renewTime"):
            link.facts.append(f"Lease renewed {age(renewed)} ago")
        silence = silence_of(lease, datetime.now(UTC))
        if cluster["metadata"].get("deletionTimestamp"):
            link.broken("ClusterDeleting")
        if silence or status == "Unknown":
            link.broken("ClusterSilent", reason=silence or reason)
        elif changes and changes.get("reason") == "Paused":
            link.broken("Paused")
        elif status != "True":
            link.broken("ClusterNotReady", reason=reason)
        return cluster
    return None


async def lease_of(hub: Server, name: str) -> Object | None:
    """Return the Lease of a Cluster, None where there is none or it may not be read."""
    with suppress(KubeError):
        return await hub.find(f"{LEASES_PATH}/{name}")
    return None


def silence_of(lease: Object | None, now: datetime) -> str:
    """Return for how long a Lease was not renewed, "" while it is valid."""
    spec = dig(lease, "spec")
    renewed, lasts_s = text_at(spec, "renewTime"), dig(spec, "leaseDurationSeconds")
    if (at := time_of(renewed)) is None or not isinstance(lasts_s, int):
        return ""
    is_silent = (now - at).total_seconds() > lasts_s + SKEW_S
    return f"its Lease was not renewed for {age(renewed, now)}" if is_silent else ""


async def read_work(hub: Server, report: Report, target: Explained, cluster: str) -> Object | None:
    """Read the Work, and what the agent says of it."""
    with report.link("work", cluster) as link:
        kind = target.resource.gvk.kind
        name = target.work or vocabulary.work_name(kind, target.name, target.namespace)
        work = await hub.find(works.work_path(vocabulary.execution_namespace(cluster), name))
        if work is None:
            link.broken("NoWork", work=name)
            return None
        written = age(status_written(work)) or "never"
        generation = work["metadata"].get("generation")
        link.facts.append(f"{name}, generation {generation}, status written {written} ago")
        conditions = conditions_of(work)
        link.facts += [f"{c['type']}={c['status']} {words_of(c)}" for c in conditions]
        link.facts += [f"override {text}" for text in _overrides(work)]
        manifest = next(filter(target.is_in, works.manifests_of(work)), {})
        old = annotations_of(manifest).get(vocabulary.TEMPLATE_GENERATION_ANNOTATION, "")
        new = str(dig(target.template, "metadata", "generation") or "")
        if old and new and old != new:
            link.broken("WorkOutdated", work=name, old=old, new=new)
        applied = works.applied_of(work.get("status"))
        if works.is_suspended(work):
            link.broken("WorkSuspended", work=name, resume=_resume(work, target.policy))
        elif works.is_waiting(work):
            reason = words_of(works.dispatching_of(work.get("status")))
            link.broken("WindowClosed", work=name, reason=reason)
        elif applied is None:
            link.broken("NotTaken", work=name)
        elif applied["status"] != "True":
            link.means(applied.get("message", ""), "NotApplied", namespace=target.namespace)
        return work
    return None


def _resume(work: Object, policy: Object | None) -> str:
    """Return the command that resumes a Work: its policy, where that suspends it."""
    suspension, cluster = dig(policy, "spec", "suspension"), works.key_of_work(work)[0]
    names = dig(suspension, "dispatchingOnClusters", "clusterNames") or [cluster]
    by_policy = policy if suspension and cluster in names else None
    form, patch = "merge", '{"spec": {"suspension": null}}'
    if not by_policy:
        patch = '{"spec": {"suspendDispatching": null}}'
    elif len(names) > 1:
        at = f"/spec/suspension/dispatchingOnClusters/clusterNames/{names.index(cluster)}"
        steps = {"op": "test", "path": at, "value": cluster}, {"op": "remove", "path": at}
        form, patch = "json", json.dumps(steps)
    gvk, namespace, name = key_of(by_policy or work)
    words = ["kubectl", *(["-n", namespace] if namespace else []), "patch", gvk.kind.lower(), name]
    return shlex.join([*words, f"--type={form}", "-p", patch])


def _overrides(work: Object) -> Iterator[str]:
    for key in _OVERRIDES:
        entries = annotations_of(work).get(key, "[]")
        with suppress(ValueError):
            yield from (text_at(each, "policyName") for each in maps_at(json.loads(entries)))


def status_written(work: Object) -> str | None:
    """Return when the status of a Work was written last, by the record of the API server."""
    entries = maps_at(work, "metadata", "managedFields")
    times = (str(e.get("time") or "") for e in entries if e.get("subresource") == "status")
    return max(times, default=None)
