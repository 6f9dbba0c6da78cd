"""What `doctor` reports of objects that were read: rules over plain dicts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from karmada_vc_agent.cluster.host_objects import NodeTrust
from karmada_vc_agent.cluster.rules import conditions as rules
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Membership, VirtualClusters
from karmada_vc_agent.diagnosis.hub_links import silence_of, time_of
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import MANAGER
from karmada_vc_agent.kube.certificates import read_certificate
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.leader_election import SKEW_S
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, labels_of, maps_at
from karmada_vc_agent.model.user_text import listed, one_line
from karmada_vc_agent.model.virtual_cluster import Requirement, VirtualCluster
from karmada_vc_agent.model.vocabulary import EDGE_LABEL, MEMBERSHIP_LABEL
from karmada_vc_agent.runner.clients import WARN_BELOW
from karmada_vc_agent.runner.parts import declared_conditions, node_overlap, nodes_missing
from karmada_vc_agent.translation.placement import missing_tolerations


class Finding(NamedTuple):
    """Something that is wrong. about: hub, host, or a virtual cluster. step: what to do next."""

    about: str
    problem: str
    step: str

    def __str__(self) -> str:
        return one_line(f"{self.about}: {self.problem}; next: {self.step}")


STUCK_AFTER = timedelta(minutes=2)
"""What is deleted is removed within seconds, unless something holds it up."""
SHOWN_RULES = 5
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_STEPS = {
    "Ready": "kubectl describe cluster {} on the hub; karmada-vc-agent explain shows one object",
    "NodesReachable": "kubectl get nodes on the host; have kubelets or edges connect again",
    "NodeOverlap": "let only one of the two select it (nodeSelector, nodeNames)",
    "ObjectsOrphaned": "karmada-vc-agent leave --prune lists them",
}
"""Of conditions whose messages do not say it."""


def of_clock(server: str, ahead_s: float) -> Iterator[Finding]:
    """Yield that a clock differs from ours. ahead_s: of the server."""
    if abs(ahead_s) > SKEW_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        text = f"its clock is {abs(ahead_s):.0f} s {way} the clock here"
        yield Finding(server, text, "synchronize the clocks of both (NTP): Leases depend on them")


def of_changes(side: str, changes: Iterable[str], join: str) -> Iterator[Finding]:
    """Yield what `join` would change: the rules that are missing, one by one, and the rest."""
    for change in changes:
        what, *details = (line.strip() for line in change.split("\n"))
        verb, _, name = what.removeprefix(f"{side}: ").partition(" ")
        added = [line.removeprefix("+ ") for line in details if line.startswith("+ {")]
        if verb == "create":
            yield Finding(side, f"{name} is missing", join)
        elif not added:
            yield Finding(side, f"{name} differs: {' '.join(details) or what}", join)
        for rule in added[:SHOWN_RULES]:
            yield Finding(side, f"{name} lacks rule {rule}", join)
        if len(added) > SHOWN_RULES:
            yield Finding(side, f"{name} lacks {len(added) - SHOWN_RULES} more rules", join)


def nodes_of(items: Iterable[Object]) -> Store[Node]:
    """Return a store of listed nodes."""
    store: Store[Node] = Store(Codec(Node))
    store.seed(msgspec.convert(item, Node, strict=False) for item in items)
    return store


def of_groups(
    vcs: Iterable[VirtualCluster], nodes: Store[Node], trust: NodeTrust
) -> dict[str, list[Condition]]:
    """Return by virtual cluster the conditions of its group, as the agent would report them."""
    all_vcs = VirtualClusters(vcs)
    membership = Membership(all_vcs, nodes, lambda _: "")
    is_on, edges = trust.node_restriction, trust.has_kubeedge
    return {
        name: [
            nodes_missing(nodes, vc),
            node_overlap(membership.overlaps(name)),
            rules.nodes_reachable(*rules.count_nodes(membership.nodes_of(name))),
            rules.group_trusted(vc, has_kubeedge=edges, node_restriction=is_on),
        ]
        for name, vc in all_vcs.items()
    }


_TYPES = (
    *sorted((spec.type for spec in declared_conditions(FEATURES)), key=lambda each: each.normal),
    *(rules.NODES_REACHABLE, rules.GROUP_TRUSTED, rules.AGENT_APART, rules.READY),
)


def of_conditions(conditions: Mapping[str, Iterable[Condition]]) -> Iterator[Finding]:
    """Yield the conditions that are not normal; what holds for all virtual clusters once.

    Ready, which follows from others, is last. Unknown is only written by Karmada, without a report.
    """
    seen = set()
    for name, each_of in conditions.items():
        by_type = {each["type"]: each for each in each_of}
        for kind in _TYPES:
            each = by_type.get(kind.name)
            if each is None or kind.is_normal(each) or each["reason"] == kind.idle:
                continue
            if each["status"] == "Unknown" and kind is not rules.READY:
                continue
            about = "agent" if kind.for_all else name
            problem, step = each["message"], _STEPS.get(kind.name, "").format(name)
            if each["reason"] == rules.NO_NODES:
                step = "correct nodeSelector or nodeNames, or label or add nodes"
            elif not step:  # most messages end with it
                problem, _, step = problem.rpartition("; ")
            text = f"{kind.name}={each['status']}: {problem or step}"
            finding = Finding(about, text, step if problem else "see docs/conditions.md")
            if finding not in seen:
                seen.add(finding)
                yield finding


def unfit(node: Object, pod: Object) -> tuple[str, str]:
    """Return why a Pod of the agent fits not on a node, and a command against it; "" = it fits."""
    name, labels = node["metadata"]["name"], labels_of(node)
    terms = maps_at(pod, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    if terms and not any(_is_met(term, name, labels) for term in terms):
        if EDGE_LABEL in labels:
            return "is an edge node", ""
        is_of_group = MEMBERSHIP_LABEL in labels
        return "is in a group" if is_of_group else "is, or may be, in a group (affinity)", ""
    if dig(node, "spec", "unschedulable"):
        return "is cordoned", f"kubectl uncordon {name}"
    taints = msgspec.convert(maps_at(node, "spec", "taints"), list[Taint])
    repelling = [each for each in taints if each.effect in ("NoSchedule", "NoExecute")]
    for each in missing_tolerations(repelling, maps_at(pod, "tolerations")):
        taint = f"{each['key']}:{each['effect']}"
        return f"has taint {taint}", f"kubectl taint nodes {name} {taint}-"
    conditions = maps_at(node, "status", "conditions")
    if not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return "is not Ready", f"kubectl describe node {name}"
    return "", ""


def _is_met(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    pairs = (("matchExpressions", labels), ("matchFields", {"metadata.name": name}))
    return all(
        Requirement(each["key"], each["operator"], frozenset(each.get("values") or ())).matches(on)
        for field, on in pairs
        for each in maps_at(term, field)
        if each["operator"] not in ("Gt", "Lt")
    )


def of_nodes(nodes: Sequence[Object], pod: Object, step: str) -> Iterator[Finding]:
    """Yield that the agent fits on no node. pod: its spec. step: where no command helps."""
    reasons: dict[str, list[str]] = {}
    for node in nodes:
        why, command = unfit(node, pod)
        if not why:
            return
        reasons.setdefault(why, []).append(node["metadata"]["name"])
        step = command if command and not step.startswith("kubectl") else step
    texts = [f"{listed(names, 3)} {why}" for why, names in reasons.items()]
    yield Finding("host", f"the agent fits on no node: {'; '.join(texts) or 'there is none'}", step)


def of_deployment(deployment: Object, join: str) -> Iterator[Finding]:
    """Yield what is wrong with the Deployment of the agent, besides its Pods."""
    name, mark = f"Deployment {deployment['metadata']['name']}", versions.MANIFESTS_VARIABLE
    for container in maps_at(deployment, "spec", "template", "spec", "containers"):
        variables = {each["name"]: each.get("value") for each in maps_at(container, "env")}
        if (made := variables.get(mark)) and made != versions.OWN:
            yield Finding("host", f"{name} is of version {made}, and this is {versions.OWN}", join)
    entries = maps_at(deployment, "metadata", "managedFields")
    managers = {str(each.get("manager")) for each in entries}
    release = annotations_of(deployment).get("meta.helm.sh/release-name")
    if MANAGER in managers and (release or "helm" in managers):
        text = f"{name} was installed by Helm and by join, and each takes back what the other sets"
        step = f"keep to one: helm upgrade --install --take-ownership {release or 'RELEASE'} ..."
        yield Finding("host", text, f"{step}, and join only with --only hub (docs/install.md)")


def of_lease(about: str, lease: Object | None, now: datetime, step: str) -> Iterator[Finding]:
    """Yield that a Lease is missing or was not renewed in time. step: to have it renewed."""
    if time_of(dig(lease, "spec", "renewTime")) is None:
        yield Finding(about, "it has no Lease: no agent serves it", step)
    elif silence := silence_of(lease, now):
        yield Finding(about, f"{silence}: no agent serves it", step)


def of_certificate(secret: str, chain: bytes, now: datetime, step: str) -> Iterator[Finding]:
    """Yield that a certificate ends soon; chain: b"" = there is none. Raises ValueError."""
    if not chain:
        return
    certificate = read_certificate(chain)
    if certificate.remaining(now) <= WARN_BELOW:
        verb = "expired" if certificate.not_after <= now else "expires"
        text = f"the certificate in Secret {secret} {verb} at"
        yield Finding("host", f"{text} {certificate.not_after:%Y-%m-%d %H:%M} UTC", step)


def of_deletions(side: str, objects: Iterable[Object], now: datetime) -> Iterator[Finding]:
    """Yield what is being deleted for too long, with what holds it up."""
    for obj in objects:
        since = time_of(dig(obj, "metadata", "deletionTimestamp"))
        if since is None or now - since < STUCK_AFTER:
            continue
        key, metadata = key_of(obj), obj["metadata"]
        minutes = int((now - since).total_seconds() // 60)
        holds = [f"finalizer {each}" for each in metadata.get("finalizers") or ()]
        holds += [
            str(each.get("message"))
            for each in maps_at(obj, "status", "conditions")
            if str(each.get("type")).startswith("Namespace") and each.get("status") == "True"
        ]
        step = f"kubectl get {key.gvk.kind.lower()} {metadata['name']} -o yaml; end what holds it"
        if key.gvk.kind == "Cluster":
            step = f"karmada-vc-agent leave {metadata['name']} continues it"
        text = f"{key} is being deleted for {minutes} min, held by {', '.join(holds) or 'nothing'}"
        yield Finding(side, text, step)


def of_claims(names: Iterable[str], leave: str) -> Iterator[Finding]:
    """Yield claims on the host of what has no Cluster. leave: the command, without a name."""
    for name in sorted(names):
        text = f"namespaces on the host are claimed for {name}, which has no Cluster on the hub"
        yield Finding(name, text, f"{leave} {name} # removes what remains of it")
