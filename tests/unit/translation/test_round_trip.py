"""There and back: restore() gives back what translate() mapped, for every kind of the tables.

What translate() adds to pins stays, what it drops is lost; both are listed here path by path, so
that nothing else may differ. Paths are those of the manifest, `[]` for every element.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import GroupKind, Object, copy_object
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.kind_policy import Reference, Treatment
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.translation.translate import Converted, HostObject, translate
from tests.unit.translation import given
from tests.unit.translation.cases import CASES, Case, each_case

D = "virtualcluster.kubeedge.io"
MISSING = "missing"

INJECTED = re.compile(
    r".*\.nodeSelector(\..*)?|.*\.tolerations(\[\].*)?|.*\.affinity(\.nodeAffinity.*)?"
    r"|.*matchFields(\[\].*)?"  # a nodeName that became affinity
    r"|spec\.nodeAffinity.*|spec.*\.podTemplate|spec\.taskRunTemplate"
    r"|spec\.imagePrePullTemplate\.labelSelector.*|spec\.workloadScope\.targetNodeLabels\[\]\.labelSelector.*"
    r"|spec\.workloadTemplate\.manifests\[\]\.metadata\.namespace"
    r"|metadata\.(labels|annotations)(\.work\.karmada\.io/name(space)?)?"
    r"|metadata\.labels\.pod-security\.kubernetes\.io/enforce"
    rf"|metadata\.annotations\.({D}/pod-security|scheduler\.alpha\.kubernetes\.io/node-selector)"
)
"""What translate() adds and restore() leaves."""
DROPPED = re.compile(
    r"status|metadata\.(uid|resourceVersion|generation|managedFields|ownerReferences)"
    rf"|metadata\.(labels|annotations)(\.(kubernetes\.io/metadata\.name|{D}/.*))?"
    r"|metadata\.annotations\.(volume\.kubernetes\.io/selected-node|work\.karmada\.io/.*"
    r"|scheduler\.alpha\.kubernetes\.io/node-selector)"
    r"|(spec|.*\.spec)\.(clusterIPs?|healthCheckNodePort|nodeName)"
    r"|spec\.(claimRef|volumeSnapshotRef)\.(uid|resourceVersion)"
    r"|.*ddresses\[\]\.nodeName|endpoints\[\]\.nodeName|secrets\[\]\.namespace"
    rf"|.*\.matchLabels\.{D}/cluster|metadata\.(labels|annotations)\..*karmada\.io/.*"
    r"|spec\.namespaceSelector\.matchNames|.*nodeSelectorTerms\[\].*"
    r"|metadata\.labels\.pod-security\.kubernetes\.io/enforce-version"
)
"""What translate() drops, since the host allots it or it speaks of another server."""
WRITTEN_OUT = re.compile(r"rules(\[\].*)?|subjects(\[\].*)?")
"""Of RBAC: `*`, and all ServiceAccounts, stand on the host as lists and stay so."""


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, before, after) of each difference; MISSING where one side has nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            where = f"{path}.{key}" if path else key
            yield from differences(before.get(key, MISSING), after.get(key, MISSING), where)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif before != after:
        yield path, before, after


@each_case
def test_manifest_returns_except_for_what_is_injected(case: Case) -> None:
    context = given.context(**case.given.get("context", {}))
    manifest = case.given["manifest"]
    result = translate(manifest, case.given.get("namespaced", True), context)
    if not isinstance(result, HostObject):
        return
    restored = restore(result.obj, context)
    is_rbac = result.host_key.gvk.group == "rbac.authorization.k8s.io"
    for path, before, after in differences(manifest, restored):
        allowed = [INJECTED] if before == MISSING else [DROPPED] if after == MISSING else []
        allowed = allowed or [INJECTED, DROPPED]
        if is_rbac:
            allowed.append(WRITTEN_OUT)
        assert any(each.fullmatch(path) for each in allowed), (path, before, after)


def _kinds_of_cases() -> set[tuple[str, str]]:
    kinds = set()
    for case in CASES:
        manifest = case.given["manifest"]
        group, _, _ = manifest["apiVersion"].rpartition("/")
        kinds.add((group, manifest["kind"]))
    return kinds


def test_every_kind_of_the_tables_has_a_case() -> None:
    wanted = {*kind_policy.REFERENCES, *kind_policy.POD_TEMPLATES}
    assert wanted - _kinds_of_cases() == set()


# --- objects made from the tables ----------------------------------------------------------

WORDS = st.from_regex(r"[av]|[av][av-]{0,9}[av]|[a-z][a-z0-9-]{0,61}[a-z0-9]", fullmatch=True)
NAMESPACES = st.sampled_from(["edge", "ops", "a-v-b", "edge-v-branch-a"]) | WORDS.filter(
    lambda name: not name.startswith(("kube-", "karmada-", "vc-system"))
)
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.fixed_dictionaries({"kubernetes.io/metadata.name": NAMESPACES})
        | st.just({"team": "x"}),
        "matchExpressions": st.lists(
            st.builds(
                lambda key, values: {"key": key, "operator": "In", "values": values},
                st.sampled_from(["kubernetes.io/metadata.name", "team"]),
                st.lists(NAMESPACES, min_size=1, max_size=3),
            ),
            min_size=1,
            max_size=2,
        ),
    },
)
TERMS = st.fixed_dictionaries(
    {"topologyKey": st.just("h")}, optional={"namespaces": st.lists(NAMESPACES, max_size=3)}
) | st.builds(
    lambda names, selector: {"namespaces": names, "namespaceSelector": selector},
    *(st.lists(NAMESPACES, max_size=3), st.just({})),
)
"""Of pod affinity; names of others beside a selector that means less are refused."""
TERMS |= st.builds(lambda selector: {"namespaceSelector": selector}, SELECTORS)
VALUES: dict[Treatment, st.SearchStrategy[Any]] = {
    Treatment.NAMESPACE: NAMESPACES,
    Treatment.PATTERN: NAMESPACES,
    Treatment.CLUSTER_SCOPED_NAME: WORDS,
    Treatment.NODE: st.sampled_from(sorted(given.OWNED_NODES)),
    Treatment.NODE_IF_OWN: st.sampled_from(sorted(given.OWNED_NODES)),
    Treatment.SELECTOR: SELECTORS,
    Treatment.AFFINITY_TERM: TERMS,
    Treatment.NAME_LIST_SELECTOR: st.just({"any": True})
    | st.builds(lambda names: {"matchNames": names}, st.lists(NAMESPACES, max_size=3)),
    Treatment.ROUTE_NAMESPACES: st.sampled_from([{"from": "All"}, {"from": "Same"}])
    | st.builds(
        lambda selector: {"from": "Selector", "selector": selector}, SELECTORS.filter(bool)
    ),
    Treatment.DESTINATION: st.builds(
        lambda name, where: {"namespace": name, **where},
        NAMESPACES,
        st.sampled_from([{"name": "in-cluster"}, {"server": "https://elsewhere"}]),
    ),
    Treatment.PARAMETERS: st.dictionaries(
        st.sampled_from(["csi/node-stage-secret-namespace", "x-secret-namespace"]), NAMESPACES
    )
    | st.just({"type": "ssd"}),
}
"""What stands where a row points; rows that drop or refuse give nothing back."""


def _put(obj: Any, path: list[str], value: Any, many: int) -> None:
    """Set a value at a table path; `many` elements where it goes through a list or map."""
    key, spread = path[0].rstrip("[]{}"), path[0][-2:]
    last = len(path) == 1
    if spread not in ("[]", "{}"):
        if last:
            obj[key] = value
        else:
            _put(obj.setdefault(key, {}), path[1:], value, many)
        return
    if spread == "[]":
        elements: Any = obj.setdefault(key, [])
        while len(elements) < many:
            elements.append(value if last else {})
        inner = elements
    else:
        inner = list(obj.setdefault(key, {f"k{i}": {} for i in range(many)}).values())
    for element in () if last else inner:
        _put(element, path[1:], value, many)


@st.composite
def objects_of(draw: st.DrawFn, kind: tuple[str, str], rows: tuple[Reference, ...]) -> Object:
    """Make an object of a kind with something at each place that its rows name."""
    group, name = kind
    obj: Object = {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": name,
        "metadata": {"name": "x", "namespace": draw(NAMESPACES)},
    }
    many = draw(st.integers(1, 2))
    for row in rows:
        if row.treatment in VALUES and draw(st.booleans()):
            value = draw(VALUES[row.treatment])
            _put(obj, row.path.split("."), copy_object(value), many)
    return obj


CLUSTER_SCOPED = frozenset(
    {
        "PersistentVolume",
        "VolumeSnapshotContent",
        "StorageClass",
        "VolumeSnapshotClass",
        "IngressClass",
        "GatewayClass",
        "ImagePrePullJob",
    }
)
OPENED = {"cluster_scoped_kinds": {"operations.kubeedge.io/ImagePrePullJob": "rename"}}
ALLOWED = {"allow": list(Guard)}
CLAIMS = {"edge": "edge-v-branch-a", "ops": "legacy", "legacy": "legacy-v-branch-a"}


KINDS = [kind for kind in kind_policy.REFERENCES if kind[1] != "Event"]  # only ever read


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
@settings(deadline=None, max_examples=15)
@for_all(st.data())
def test_references_come_back(kind: GroupKind, data: st.DataObject) -> None:
    _check_both_ways(data.draw(objects_of(kind, tuple(kind_policy.REFERENCES[kind]))), kind)


@for_all(st.data())
def test_references_in_pod_specs_come_back(data: st.DataObject) -> None:
    kind = ("apps", "Deployment")
    rows = tuple(
        Reference(f"spec.template.spec.{row.path}", row.treatment)
        for row in kind_policy.IN_POD_SPECS
    )
    _check_both_ways(data.draw(objects_of(kind, rows)), kind)


SUBJECTS = st.one_of(
    st.builds(
        lambda name, namespace: {"kind": "ServiceAccount", "name": name, "namespace": namespace},
        WORDS,
        NAMESPACES,
    ),
    st.builds(
        lambda kind, name: {"kind": kind, "name": name},
        st.sampled_from(["User", "Group"]),
        WORDS | st.sampled_from(["system:authenticated", "system:masters", "vc:branch-a:x"]),
    ),
    st.builds(
        lambda ns, name: {"kind": "User", "name": f"system:serviceaccount:{ns}:{name}"},
        NAMESPACES,
        WORDS,
    ),
    st.builds(lambda ns: {"kind": "Group", "name": f"system:serviceaccounts:{ns}"}, NAMESPACES),
)


@for_all(st.lists(SUBJECTS, max_size=4), WORDS | st.sampled_from(["admin", "cluster-admin"]))
def test_subjects_and_roles_come_back(subjects: list[Object], role: str) -> None:
    kind = ("rbac.authorization.k8s.io", "RoleBinding")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "edge"},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }
    _check_both_ways(binding, kind)


@for_all(st.lists(NAMESPACES, max_size=4))
def test_names_in_rules_come_back(names: list[str]) -> None:
    kind = ("rbac.authorization.k8s.io", "Role")
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "edge"},
        "rules": [{**rule, "resourceNames": names}],
    }
    _check_both_ways(role, kind)


def _check_both_ways(obj: Object, kind: tuple[str, str]) -> None:
    namespaced = kind[1] not in CLUSTER_SCOPED
    if not namespaced:
        del obj["metadata"]["namespace"]
    context = given.context(claims=CLAIMS, work="", settings=OPENED, vc=ALLOWED)
    before = copy_object(obj)
    result = translate(obj, namespaced, context)
    assert isinstance(result, HostObject), result
    assert obj == before
    restored = restore(result.obj, context)
    left = [each for each in differences(obj, restored) if not INJECTED.fullmatch(each[0])]
    assert left == []
    again = translate(restored, namespaced, context)
    assert isinstance(again, HostObject)
    assert again.obj == result.obj


# --- pure, whatever the order ---------------------------------------------------------------


def _reversed(value: Any) -> Any:
    """Return a value with the keys of all maps in another order."""
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(each) for each in value] if isinstance(value, list) else value


@each_case
def test_order_of_keys_and_claims_means_nothing(case: Case) -> None:
    facts, namespaced = case.given.get("context", {}), case.given.get("namespaced", True)
    turned = {**facts, "claims": _reversed(facts["claims"])} if facts.get("claims") else facts
    manifest = case.given["manifest"]
    first = translate(manifest, namespaced, given.context(**facts))
    second = translate(_reversed(manifest), namespaced, given.context(**turned))
    if isinstance(first, HostObject):
        assert isinstance(second, HostObject)
        assert _text(first.obj) == _text(second.obj)
    else:
        assert first == second if not isinstance(first, Converted) else _same(first, second)


def _same(first: Converted, second: Any) -> bool:
    return [_text(each.obj) for each in first.objects] == [
        _text(each.obj) for each in second.objects
    ]


def _text(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)
