"""A kind that only an interpreter webhook understands."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.interpreting import CONFIG, Widgets, events_of, wait_entry
from e2e.lab.lab import Lab
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.webhook_server import WebhookServer, self_signed


@pytest.fixture
def widgets(lab: Lab) -> Iterator[Widgets]:
    widgets = Widgets(lab)
    yield widgets
    widgets.clean_up()


def answer(request: Object) -> Object:
    """Retain the size; report the sum of size and ready; healthy when they are equal."""
    size = request["object"]["spec"]["size"]
    ready = (request["object"].get("status") or {}).get("ready", 0)
    match request["operation"]:
        case "Retain":
            live = request["observedObject"]["spec"]["size"]
            patch = [{"op": "replace", "path": "/spec/size", "value": live}]
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            return {"successful": True, "patchType": "JSONPatch", "patch": encoded}
        case "InterpretStatus":
            return {"successful": True, "rawStatus": {"sum": size + ready}}
        case _:
            return {"successful": True, "healthy": size == ready}


def configuration(widgets: Widgets, client: Object, **more: Any) -> Object:
    hook = {
        "name": f"widgets.{widgets.group}",
        "clientConfig": client,
        "rules": [
            {
                "operations": ["Retain", "InterpretStatus", "InterpretHealth"],
                "apiGroups": [widgets.group],
                "apiVersions": ["*"],
                "kinds": ["Widget"],
            }
        ],
        "timeoutSeconds": 5,
        "interpreterContextVersions": ["v1alpha1"],
    }
    return {
        "apiVersion": CONFIG,
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": widgets.lab.id},
        "webhooks": [hook | more],
    }


def by_url(server: WebhookServer, ca_bundle: bytes | None = None) -> Object:
    bundle = base64.b64encode(ca_bundle or server.ca_bundle).decode()
    return {"url": server.url, "caBundle": bundle}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path, answer)
    yield server
    server.close()


@pytest.mark.smoke
def test_a_webhook_answers_all_three_operations(
    lab: Lab, widgets: Widgets, server: WebhookServer
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    lab.serve(group)
    widget = widgets.widget(namespace, size=2, color="red")
    work = lab.create_work(group, "widget", widget)
    widgets.set_status(widget, group, {"ready": 1})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", ready=1))

    path = widgets.declare(configuration(widgets, by_url(server)))
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", sum=3, ready=None))
    widgets.set_status(widget, group, {"ready": 2})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", sum=4))
    asked = server.requests[-1]
    assert asked["namespace"] == asked["object"]["metadata"]["namespace"] == namespace
    assert asked["kind"] == {"group": widgets.group, "version": "v1", "kind": "Widget"}

    host_path = widgets.host_path(widget, group)
    lab.host.patch(host_path, {"spec": {"size": 7}})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", sum=9))
    operation = {"op": "replace", "path": "/spec/workload/manifests/0/spec/color", "value": "blue"}
    lab.hub.patch_json(work, operation)
    within(PERIODIC_S, lambda: _has_spec(lab.host.get(host_path), size=7, color="blue"))

    lab.hub.delete(path)
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", ready=2, sum=None))


def test_customization_precedes_a_webhook(
    lab: Lab, widgets: Widgets, server: WebhookServer
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    widgets.declare(configuration(widgets, by_url(server)))
    widgets.customize(statusReflection="function ReflectStatus(o) return {script = 1} end")
    lab.serve(group)
    widget = widgets.widget(namespace, size=0)
    work = lab.create_work(group, "widget", widget)
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", script=1))
    assert {request["operation"] for request in server.requests} == {"InterpretHealth"}


def test_webhook_is_located_by_a_service_of_the_hub(
    lab: Lab, widgets: Widgets, tmp_path: Path
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    name = f"hook.{namespace}.svc"
    server = WebhookServer(tmp_path, answer, name)
    try:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook", "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        widgets.declare(service)
        reference = {"name": "hook", "namespace": namespace, "port": server.port, "path": "/x"}
        bundle = base64.b64encode(server.ca_bundle).decode()
        widgets.declare(configuration(widgets, {"service": reference, "caBundle": bundle}))
        lab.serve(group)
        work = lab.create_work(group, "widget", widgets.widget(namespace, size=4))
        wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", sum=4))
    finally:
        server.close()


def slow(_request: Object) -> Object:
    time.sleep(3)
    return {"successful": True, "healthy": True}


def refusing(_request: Object) -> Object:
    return {"successful": False, "status": {"code": 418, "message": "not today"}}


def silent(_request: Object) -> Object:
    return {"successful": True}


@pytest.mark.parametrize(
    ("respond", "timeout_s", "reason"),
    [
        (slow, 1, "no response within 1 s"),
        (refusing, 20, "code 418: not today"),
        (silent, 20, "healthy"),
    ],
    ids=["timeout", "not-successful", "no-health"],
)
def test_failing_webhook_is_reported_and_called_again(
    lab: Lab, widgets: Widgets, tmp_path: Path, respond: Any, timeout_s: int, reason: str
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    is_well: list[bool] = []

    def respond_at_first(request: Object) -> Object:
        return {"successful": True, "healthy": True} if is_well else dict(respond(request))

    server = WebhookServer(tmp_path, respond_at_first)
    try:
        config = configuration(widgets, by_url(server), timeoutSeconds=timeout_s)
        config["webhooks"][0]["rules"][0]["operations"] = ["InterpretHealth"]
        widgets.declare(config)
        lab.serve(group)
        work = lab.create_work(group, "widget", widgets.widget(namespace, size=4))
        wait_entry(lab.hub, work, lambda entry: _is(entry, "Unknown"))
        events = within(
            PERIODIC_S, lambda: _some(events_of(lab.hub, work, "InterpretHealthFailed"))
        )
        assert reason in events[0]["message"], events[0]["message"]
        assert f'webhook "{lab.id}/' in events[0]["message"]
        other = lab.create_work(group, "other", objects.config_map(namespace))
        lab.wait_applied(other)
        is_well.append(True)
        wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy"))
    finally:
        server.close()


def test_webhook_with_another_ca_is_not_called(
    lab: Lab, widgets: Widgets, server: WebhookServer, tmp_path: Path
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    foreign = self_signed(tmp_path / "foreign", "127.0.0.1").read_bytes()
    path = widgets.declare(configuration(widgets, by_url(server, foreign)))
    lab.serve(group)
    work = lab.create_work(group, "widget", widgets.widget(namespace, size=4))
    events = within(PERIODIC_S, lambda: _some(events_of(lab.hub, work, "ReflectStatusFailed")))
    assert "CERTIFICATE_VERIFY_FAILED" in events[0]["message"], events[0]["message"]
    assert server.requests == []
    bundle = base64.b64encode(server.ca_bundle).decode()
    lab.hub.patch_json(
        path, {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}
    )
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", sum=4))


def _is(entry: Object, health: str, **status: object) -> None:
    seen = entry.get("status") or {}
    assert {key: seen.get(key) for key in status} == status, entry
    assert entry["health"] == health, entry


def _has_spec(live: Object, **spec: object) -> None:
    assert {key: live["spec"].get(key) for key in spec} == spec


def _some(found: list[Object]) -> list[Object]:
    assert found
    return found
