"""Which keys of which controller a change brings up: one table for each controller."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.cluster import host_objects, registration
from karmada_vc_agent.cluster import status as cluster_status
from karmada_vc_agent.cluster.virtual_clusters import Claims
from karmada_vc_agent.features.quota import feature
from karmada_vc_agent.features.service_names.feature import keys_of_namespace as keys_of_dns
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.work import namespace_writer
from tests.fakes import objects

SERVED = {
    "branch-a": objects.virtual_cluster("branch-a", quota={"pods": "4"}),
    "branch-b": objects.virtual_cluster("branch-b"),
}
CLAIMS = Claims(Store(RawCodec()), "agent")
OURS = MagicMock()
OURS.ours.side_effect = lambda name: {} if name == "branch-a" else None

Keys = Callable[[Any, Any], Iterable[object]]


def cluster(name: str = "branch-a", *, agent: str = "", **metadata: Any) -> Object:
    annotations = {AGENT_ANNOTATION: agent} if agent else {}
    return {"metadata": {"name": name, "annotations": annotations, **metadata}}


def labelled(kind: str, name: str = "branch-a", group: str = "") -> Object:
    return {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": kind,
        "metadata": {"name": "x", "labels": {CLUSTER_LABEL: name, NAMESPACE_LABEL: "edge"}},
    }


def node(name: str) -> Node:
    found: Node = MagicMock()
    found.metadata.name = name
    return found


def claimed(name: str = "branch-a") -> Object:
    return objects.claimed(name, "edge", f"edge-v-{name}")


PLAIN = objects.namespace("plain")
REGISTRATION: Keys = partial(registration.keys_of_registered, SERVED)
STATUS: Keys = partial(cluster_status.keys_of_reported, OURS, SERVED)
NODES = [node("n1"), node("n2")]
LABELS: Keys = partial(host_objects.keys_of_cluster, SERVED, "home/agent", NODES)
QUOTA: Keys = partial(feature.keys_of_object, SERVED)
QUOTA_PLACE: Keys = partial(feature.keys_of_namespace, SERVED)
DNS: Keys = partial(keys_of_dns, SERVED)
DEFAULT: Keys = partial(namespace_writer.keys_of_cluster, OURS, CLAIMS, SERVED)
PLACES: Keys = partial(namespace_writer.keys_of_namespace, SERVED)
DEFAULTS: Keys = partial(namespace_writer.keys_of_object, SERVED)


@pytest.mark.parametrize(
    ("keys", "old", "new", "found"),
    [
        (REGISTRATION, None, cluster(), ["branch-a"]),
        (REGISTRATION, cluster(), None, ["branch-a"]),
        (REGISTRATION, None, cluster("stranger"), []),
        (STATUS, None, cluster(generation=1), ["branch-a"]),
        (STATUS, cluster(generation=1), cluster(generation=1), []),
        (STATUS, cluster(generation=1), cluster(generation=2), ["branch-a"]),
        (STATUS, cluster(), cluster(finalizers=["f"]), ["branch-a"]),
        (STATUS, cluster(generation=1), None, []),
        (STATUS, None, cluster("branch-b", generation=1), []),
        (LABELS, cluster(), cluster(agent="other/agent"), ["n1", "n2"]),
        (LABELS, cluster(agent="x"), cluster(agent="x"), []),
        (LABELS, None, cluster(agent="home/agent"), []),
        (LABELS, cluster(agent="home/agent"), None, []),
        (LABELS, cluster(agent="other/agent"), cluster(), ["n1", "n2"]),
        (LABELS, None, cluster("stranger", agent="other/agent"), []),
        (host_objects.keys_of_node, None, node("n1"), ["n1"]),
        (host_objects.keys_of_node, node("n1"), None, ["n1"]),
        (QUOTA, None, labelled("ResourceQuota"), ["branch-a"]),
        (QUOTA, labelled("Deployment", group="apps"), None, ["branch-a"]),
        (QUOTA, None, labelled("ConfigMap"), []),
        (QUOTA, None, labelled("ResourceQuota", "branch-b"), []),
        (QUOTA, None, labelled("ResourceQuota", "stranger"), []),
        (QUOTA, None, None, []),
        (QUOTA_PLACE, claimed(), claimed("branch-b"), ["branch-a", "branch-b"]),
        (QUOTA_PLACE, None, claimed("stranger"), []),
        (DNS, claimed(), None, ["rules"]),
        (DNS, PLAIN, claimed("stranger"), []),
        (DEFAULT, None, cluster(), [("branch-a", "default")]),
        (DEFAULT, None, cluster("branch-b"), []),
        (PLACES, PLAIN, claimed(), [("branch-a", "edge")]),
        (PLACES, claimed(), claimed(), [("branch-a", "edge")]),
        (PLACES, claimed(), claimed("stranger"), [("branch-a", "edge")]),
        (PLACES, PLAIN, None, []),
        (DEFAULTS, labelled("ResourceQuota"), None, [("branch-a", "edge")]),
        (DEFAULTS, None, labelled("ConfigMap"), []),
        (DEFAULTS, None, labelled("LimitRange", "stranger"), []),
    ],
)
def test_change_brings_up_keys(keys: Keys, old: Any, new: Any, found: list[object]) -> None:
    assert list(keys(old, new)) == found
