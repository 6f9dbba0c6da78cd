"""The webhook protocol: who is asked, what, and what the answer means."""

import base64
from typing import Any

import orjson
import pytest

from karmada_vc_agent.interpretation import user_hooks
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    HookError,
    Operation,
    ServiceReference,
    Webhook,
    WebhookLevel,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object

WIDGET = GroupVersionKind("example.io", "v1", "Widget")
DESIRED: Object = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"size": 1},
}
UID = "11"


def configuration(name: str = "config", *hooks: Object) -> Object:
    return {"metadata": {"name": name}, "webhooks": list(hooks)}


def hook(name: str = "a", **more: Any) -> Object:
    rule = {
        "operations": ["*"],
        "apiGroups": ["example.io"],
        "apiVersions": ["v1"],
        "kinds": ["Widget"],
    }
    return {
        "name": name,
        "clientConfig": {"url": f"https://{name}.example.io"},
        "rules": [rule | more.pop("rule", {})],
        "interpreterContextVersions": ["v1alpha1"],
    } | more


def answered(response: Object | None, **context: Any) -> bytes:
    body = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext",
        "response": response,
    }
    return orjson.dumps(body | context)


def read(operation: Operation, response: Object | None, **context: Any) -> Any:
    body = answered(None if response is None else {"uid": UID} | response, **context)
    return user_hooks.read_answer(UID, operation, (DESIRED,), body)


def patch(*operations: Object) -> str:
    return base64.b64encode(orjson.dumps(list(operations))).decode()


# --- choice ----------------------------------------------------------------------------------


def test_hooks_are_ordered_by_configuration_and_name_together() -> None:
    hooks = user_hooks.webhooks_of(
        [configuration("b", hook("a")), configuration("a", hook("z"), hook("c"))]
    )
    assert [hook.uid for hook in hooks] == ["a/c", "a/z", "b/a"]


@pytest.mark.parametrize(
    ("rule", "is_for"),
    [
        ({}, True),
        ({"operations": ["Retain"]}, True),
        ({"operations": ["InterpretHealth"]}, False),
        ({"apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}, True),
        ({"apiGroups": ["other.io"]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"kinds": ["Gadget"]}, False),
        ({"kinds": []}, False),
    ],
)
def test_a_rule_names_kinds_and_operations(rule: Object, is_for: bool) -> None:
    (found,) = user_hooks.webhooks_of([configuration("c", hook(rule=rule))])
    assert found.is_for(WIDGET, RETAIN) is is_for


def test_a_hook_of_the_control_plane_concerns_no_agent() -> None:
    rule = {"operations": ["InterpretReplica"], "kinds": ["*"]}
    (found,) = user_hooks.webhooks_of([configuration("c", hook(rule=rule))])
    assert not found.concerns(WIDGET)


def test_only_what_differs_is_changed() -> None:
    before = user_hooks.webhooks_of([configuration("c", hook("a"), hook("b"), hook("c"))])
    after = user_hooks.webhooks_of(
        [configuration("c", hook("a"), hook("b", timeoutSeconds=3), hook("d"))]
    )
    names = sorted(found.uid for found in {*before} ^ {*after})
    assert names == ["c/b", "c/b", "c/c", "c/d"]


def test_a_hook_without_a_time_has_the_longest() -> None:
    hooks = user_hooks.webhooks_of([configuration("c", hook("a"), hook("b", timeoutSeconds=3))])
    assert [found.timeout_s for found in hooks] == [30, 3]


# --- request ---------------------------------------------------------------------------------


def test_the_request_holds_both_objects_of_retain() -> None:
    live = DESIRED | {"spec": {"size": 2}}
    context = orjson.loads(user_hooks.request_body(UID, RETAIN, (DESIRED, live)))
    assert context == {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext",
        "request": {
            "uid": UID,
            "kind": {"group": "example.io", "version": "v1", "kind": "Widget"},
            "name": "web",
            "namespace": "shop",
            "operation": "Retain",
            "object": DESIRED,
            "observedObject": live,
            "replicas": 0,
        },
    }


def test_the_request_about_a_live_object_holds_that_alone() -> None:
    obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}
    request = orjson.loads(user_hooks.request_body(UID, INTERPRET_STATUS, (obj,)))["request"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Node"}
    assert not request.keys() & {"namespace", "observedObject", "aggregatedStatus"}


# --- answer ----------------------------------------------------------------------------------


def test_a_patch_is_applied_to_the_desired_object() -> None:
    response = {
        "successful": True,
        "patchType": "JSONPatch",
        "patch": patch({"op": "replace", "path": "/spec/size", "value": 5}),
    }
    assert read(RETAIN, response) == DESIRED | {"spec": {"size": 5}}
    assert DESIRED["spec"] == {"size": 1}


def test_no_patch_keeps_the_desired_object() -> None:
    assert read(RETAIN, {"successful": True}) == DESIRED


def test_status_and_health_are_those_of_the_answer() -> None:
    assert read(INTERPRET_STATUS, {"successful": True, "rawStatus": {"a": 1}}) == {"a": 1}
    assert read(INTERPRET_HEALTH, {"successful": True, "healthy": False}) is False


@pytest.mark.parametrize(
    ("operation", "response", "reason"),
    [
        (RETAIN, None, "response"),
        (RETAIN, {"uid": "12", "successful": True}, "12, not .* 11"),
        (RETAIN, {"successful": False}, "not successful, code 0: no status"),
        (RETAIN, {}, "not successful, code 0: no status"),
        (RETAIN, {"successful": False, "status": {"code": 7, "message": "no"}}, "code 7: no"),
        (
            RETAIN,
            {"successful": True, "patchType": "JSONPatch"},
            "needs a patch with patchType JSONPatch",
        ),
        (RETAIN, {"successful": True, "patch": "W10="}, "needs a patch with patchType JSONPatch"),
        (
            RETAIN,
            {"successful": True, "patch": "W10=", "patchType": "Merge"},
            "needs a patch with patchType JSONPatch",
        ),
        (RETAIN, {"successful": True, "patch": "%%", "patchType": "JSONPatch"}, "base64"),
        (
            RETAIN,
            {"successful": True, "patch": "eA==", "patchType": "JSONPatch"},
            "cannot be applied",
        ),
        (
            RETAIN,
            {
                "successful": True,
                "patchType": "JSONPatch",
                "patch": patch({"op": "remove", "path": "/spec/none"}),
            },
            "cannot be applied: remove /spec/none",
        ),
        (
            RETAIN,
            {
                "successful": True,
                "patchType": "JSONPatch",
                "patch": patch({"op": "replace", "path": "", "value": []}),
            },
            "results in no object",
        ),
        (INTERPRET_STATUS, {"successful": True}, "no rawStatus"),
        (INTERPRET_STATUS, {"successful": True, "rawStatus": [1]}, "rawStatus"),
        (INTERPRET_HEALTH, {"successful": True}, "no healthy"),
        (INTERPRET_HEALTH, {"successful": True, "healthy": "yes"}, "healthy"),
    ],
)
def test_a_wrong_answer_is_an_error(
    operation: Operation, response: Object | None, reason: str
) -> None:
    with pytest.raises(HookError, match=reason):
        read(operation, response)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"kind": "Status"}', answered({}, apiVersion="v2")]
)
def test_an_answer_of_another_kind_is_an_error(content: bytes) -> None:
    with pytest.raises(HookError):
        user_hooks.read_answer(UID, RETAIN, (DESIRED,), content)


# --- level -----------------------------------------------------------------------------------


async def test_only_the_first_hook_is_called() -> None:
    asked = []

    async def call(found: Webhook, _body: bytes) -> bytes:
        asked.append(found.uid)
        return answered({"uid": UID, "successful": True, "healthy": True})

    level = WebhookLevel(call, lambda: UID)
    level.webhooks = user_hooks.webhooks_of([configuration("c", hook("b"), hook("a"))])
    found = level.hook(WIDGET, INTERPRET_HEALTH)
    assert found is not None
    assert await found.call("branch-a", (DESIRED,)) is True
    assert asked == ["c/a"]
    assert level.hook(GroupVersionKind("", "v1", "Pod"), INTERPRET_HEALTH) is None


async def test_hook_of_another_context_version_is_not_called() -> None:
    async def call(_found: Webhook, _body: bytes) -> bytes:
        raise AssertionError("asked")

    level = WebhookLevel(call, lambda: UID)
    hooks = [configuration("c", hook(interpreterContextVersions=["v2"]))]
    level.webhooks = user_hooks.webhooks_of(hooks)
    found = level.hook(WIDGET, RETAIN)
    assert found is not None
    assert found.name == 'webhook "c/a"'
    with pytest.raises(HookError, match="it does not support context version v1alpha1"):
        await found.call("branch-a", (DESIRED, DESIRED))


# --- Services --------------------------------------------------------------------------------

REFERENCE = ServiceReference("ops", "hook", 8443, "/interpret")


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        (None, "https://hook.ops.svc:8443/interpret"),
        ({"clusterIP": "10.0.0.7", "ports": [{"port": 8443}]}, "https://10.0.0.7:8443/interpret"),
        (
            {"type": "NodePort", "clusterIP": "fd00::7", "ports": [{"port": 8443}]},
            "https://[fd00::7]:8443/interpret",
        ),
        ({"type": "ExternalName", "externalName": "hook.io"}, "https://hook.io:8443/interpret"),
    ],
)
def test_a_service_leads_to_its_address(spec: Object | None, url: str) -> None:
    service = None if spec is None else {"spec": spec}
    assert user_hooks.service_url(REFERENCE, service) == url


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"clusterIP": "None", "ports": [{"port": 8443}]}, "no cluster IP with port 8443"),
        ({"clusterIP": "10.0.0.7", "ports": [{"port": 443}]}, "no cluster IP with port 8443"),
        ({"type": "Odd"}, "no cluster IP with port 8443"),
    ],
)
def test_a_service_without_an_address_is_an_error(spec: Object, reason: str) -> None:
    with pytest.raises(HookError, match=f"Service ops/hook has {reason}"):
        user_hooks.service_url(REFERENCE, {"spec": spec})


def test_service_without_a_port_is_called_on_that_of_https() -> None:
    client = {"service": {"namespace": "ops", "name": "hook"}}
    (found,) = user_hooks.webhooks_of([configuration("c", hook(clientConfig=client))])
    assert found.target == ServiceReference("ops", "hook", 443, "")
    assert user_hooks.service_url(ServiceReference("ops", "hook", 443, ""), None) == (
        "https://hook.ops.svc:443/"
    )
