"""Terms of pod affinity mean the same namespaces on the host, and name none but the own one."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given as for_all
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.translation.translate import HostObject, translate
from tests.unit.translation import given

NAME = "kubernetes.io/metadata.name"
LONG = "a-name-that-is-much-too-long-for-a-namespace-of-a-branch"
TEAMS = {"edge": "x", "ops": "y", "adopted": "x", LONG: "y"}
"""Namespaces of the virtual cluster, and the label `team` of each."""
AROUND = given.context(claims={"edge": "edge-v-branch-a", "adopted": "legacy"})
OTHERS = {
    "edge-v-branch-b": {CLUSTER_LABEL: "branch-b", "team": "x"},
    "a-v-branch-a--000000000000": {CLUSTER_LABEL: "branch-ab", "team": "y"},
    "kube-system": {"team": "x"},
}
"""Other namespaces of the host, one with a name as if it were ours."""


def host(name: str) -> str:
    """Return where a namespace of the virtual cluster is."""
    return str(AROUND.names().host_namespace(name))


VIRTUAL = {name: {NAME: name, "team": team} for name, team in TEAMS.items()}
HOST = {
    **{host(n): {NAME: host(n), "team": t, CLUSTER_LABEL: "branch-a"} for n, t in TEAMS.items()},
    **{name: {NAME: name, **labels} for name, labels in OTHERS.items()},
}


def meant(term: Object, own: str, there: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return what a term means among namespaces with labels, as kube-scheduler has it."""
    names, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not names and selector is None:
        return {own}
    named = {name for name in names if name in there}
    if selector is None:
        return named
    return named | {name for name, labels in there.items() if matches(selector, labels)}


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and all(
        labels.get(each["key"]) in each["values"] for each in expressions
    )


NAMES = st.lists(st.sampled_from(sorted(TEAMS)), max_size=3)
SELECTORS: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"team": "x"}},
        {"matchLabels": {NAME: "ops"}},
        {"matchExpressions": [{"key": NAME, "operator": "In", "values": ["ops", LONG]}]},
    ]
)


@for_all(NAMES, SELECTORS, st.sampled_from(["edge", "ops"]))
def test_a_term_means_the_same_namespaces_or_is_refused(
    names: list[str], selector: Object | None, own: str
) -> None:
    term = {"topologyKey": "h", "namespaces": names, "namespaceSelector": selector}
    term = {key: value for key, value in term.items() if value is not None}
    pod = pod_with(term, own)
    result = translate(pod, True, AROUND)
    if not isinstance(result, HostObject):
        assert selector
        assert set(names) - {own}
        return
    [mapped] = terms_of(result.obj)
    assert set(mapped.get("namespaces", [])) <= {host(own)}
    wanted = {host(name) for name in meant(term, own, VIRTUAL)}
    assert meant(mapped, host(own), HOST) == wanted
    assert terms_of(restore(result.obj, AROUND)) == [term]


def test_terms_of_pods_that_a_controller_made_come_back_with_their_meaning() -> None:
    """Notes stand on what a Work brought; its pods have none."""
    term = {"topologyKey": "h", "namespaces": ["ops", "edge"]}
    pod = given.host_object(pod_with(term, "edge"), AROUND)
    del pod["metadata"]["annotations"]
    [found] = terms_of(restore(pod, AROUND))
    assert meant(found, "edge", VIRTUAL) == {"ops", "edge"}


def test_names_that_are_no_names_are_left_to_the_server() -> None:
    for odd in ([1], [""], "ops", [None, "ops"]):
        [found] = terms_of(given.host_object(pod_with({"namespaces": odd}, "edge"), AROUND))
        assert "namespaceSelector" not in found
        assert "namespaces" in found


def pod_with(term: Object, own: str) -> Object:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": own},
        "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]},
    }


def terms_of(pod: Object) -> list[Object]:
    anti = pod["spec"]["affinity"]["podAntiAffinity"]
    found: list[Object] = anti["requiredDuringSchedulingIgnoredDuringExecution"]
    return found
