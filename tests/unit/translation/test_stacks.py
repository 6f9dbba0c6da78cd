"""Whole applications: on the host their objects still find each other, and nobody else's."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.translate import Converted, HostObject, translate
from tests.unit.translation import given
from tests.unit.translation.cases import STACKS, Case

Named = tuple[str, str, str]
"""Kind, namespace, name."""

each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def objects_of(stack: list[Case], cluster: str, claims: Mapping[str, str]) -> Iterator[HostObject]:
    """Yield what an application becomes on the host; what is refused is left out."""
    vc = {"name": cluster, "required": {"branch": "a"}}
    context = given.context(vc=vc, claims=claims, work="")
    for case in stack:
        result = translate(case.given["manifest"], case.given.get("namespaced", True), context)
        if isinstance(result, HostObject):
            yield result
        elif isinstance(result, Converted):
            yield from result.objects


def _role(obj: Object, namespace: str) -> Iterator[Named]:
    kind, name = obj["roleRef"]["kind"], obj["roleRef"]["name"]
    yield kind, "" if kind == "ClusterRole" else namespace, name


def _backends(obj: Object, namespace: str) -> Iterator[Named]:
    for rule in obj["spec"]["rules"]:
        for path in rule["http"]["paths"]:
            yield "Service", namespace, path["backend"]["service"]["name"]


def _target(obj: Object, namespace: str) -> Iterator[Named]:
    target = obj["spec"]["scaleTargetRef"]
    yield target["kind"], namespace, target["name"]


def _governing_service(obj: Object, namespace: str) -> Iterator[Named]:
    yield "Service", namespace, obj["spec"]["serviceName"]


def _volume(obj: Object, _namespace: str) -> Iterator[Named]:
    yield "PersistentVolume", "", obj["spec"]["volumeName"]


def _claim(obj: Object, _namespace: str) -> Iterator[Named]:
    claim = obj["spec"]["claimRef"]
    yield "PersistentVolumeClaim", claim["namespace"], claim["name"]


def _gateways(obj: Object, _namespace: str) -> Iterator[Named]:
    for parent in obj["spec"]["parentRefs"]:
        yield "Gateway", parent["namespace"], parent["name"]


def _gateway_class(obj: Object, _namespace: str) -> Iterator[Named]:
    yield "GatewayClass", "", obj["spec"]["gatewayClassName"]


def _endpoints(obj: Object, namespace: str) -> Iterator[Named]:
    for end in ("source", "target"):
        yield "RuleEndpoint", namespace, obj["spec"][end]


def _model(obj: Object, namespace: str) -> Iterator[Named]:
    yield "DeviceModel", namespace, obj["spec"]["deviceModelRef"]["name"]


FINDS: Mapping[str, Callable[[Object, str], Iterator[Named]]] = {
    "RoleBinding": _role,
    "Ingress": _backends,
    "HorizontalPodAutoscaler": _target,
    "StatefulSet": _governing_service,
    "PersistentVolumeClaim": _volume,
    "PersistentVolume": _claim,
    "HTTPRoute": _gateways,
    "Gateway": _gateway_class,
    "Rule": _endpoints,
    "Device": _model,
}
"""Kind -> the objects of the same application that its objects name."""


@each_stack
@pytest.mark.parametrize("claims", [{}, {"edge": "legacy", "shop": "old", "gateways": "g"}])
def test_objects_find_each_other(stack: list[Case], claims: Mapping[str, str]) -> None:
    found = list(objects_of(stack, "branch-a", claims))
    present = {(each.host_key.gvk.kind, *each.host_key[1:]) for each in found}
    wanted = {
        named
        for each in found
        if each.host_key.gvk.kind in FINDS
        for named in FINDS[each.host_key.gvk.kind](each.obj, each.host_key.namespace)
    }
    assert wanted - present == set()


def test_every_way_to_find_an_object_is_taken() -> None:
    claims = {"edge": "edge-v-branch-a"}
    kinds = {
        each.host_key.gvk.kind
        for stack in STACKS.values()
        for each in objects_of(stack, "branch-a", claims)
    }
    assert FINDS.keys() <= kinds


@each_stack
def test_two_virtual_clusters_meet_in_shared_objects_only(stack: list[Case]) -> None:
    keys = [
        each.host_key
        for cluster in ("branch-a", "branch-b")
        for each in objects_of(stack, cluster, {})
        if not each.is_shared
    ]
    assert len(keys) > 4
    assert len(set(keys)) == len(keys)
