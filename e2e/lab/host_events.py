"""Why something does not run: what the host reports of it, and what is told of it on the hub."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from e2e.lab.works import execution_namespace

# --- what is seen -------------------------------------------------------------------------------


def told(hub: Api, namespace: str, reason: str = "", **involved: str) -> list[Object]:
    """Return the mirrored events in a namespace of the hub, as `kubectl describe` selects them."""
    fields = ",".join(f"involvedObject.{key}={value}" for key, value in involved.items())
    found = hub.list(f"{collection('v1', 'Event', namespace)}?fieldSelector={fields}")
    mirrored = [event for event in found if event["source"].get("component") == "host-events"]
    return [event for event in mirrored if not reason or event["reason"] == reason]


def reasons(hub: Api, namespace: str) -> set[str]:
    """Return the reasons told in a namespace, but what is true of every new namespace for a while.

    Before its ServiceAccount is there, no pod of it can be created.
    """
    found = told(hub, namespace)
    return {e["reason"] for e in found if 'serviceaccount "default" not found' not in e["message"]}


def event_of_template(hub: Api, template: Object, reason: str, text: str = "") -> Object:
    """Return the one event about a template with a reason, and in its message a text."""
    name, namespace = template["metadata"]["name"], template["metadata"]["namespace"]
    uid = hub.get(path_of(template))["metadata"]["uid"]
    events = told(hub, namespace, reason, kind=template["kind"], name=name, uid=uid)
    found = [event for event in events if text in event["message"]]
    assert len(found) == 1, [event["message"] for event in events]
    return found[0]


def event_of_work(lab: Lab, group: Group, template: Object, reason: str, text: str = "") -> Object:
    """Return the one event about the Work of a template with a reason and a text."""
    work = next(
        work
        for work in lab.works(group)
        for manifest in work["spec"]["workload"]["manifests"]
        if manifest["kind"] == template["kind"]
        and manifest["metadata"]["name"] == template["metadata"]["name"]
    )
    named = {"kind": "Work", "name": work["metadata"]["name"], "uid": work["metadata"]["uid"]}
    events = told(lab.hub, execution_namespace(group.name), reason, **named)
    found = [event for event in events if text in event["message"]]
    assert len(found) == 1, events
    return found[0]


# --- what happens -------------------------------------------------------------------------------


def report(lab: Lab, about: Object, reason: str, message: str, **more: Any) -> Object:
    """Write a warning on the host, as a kubelet does."""
    return lab.host.create(warning(about, reason, message, **more))


def warning(about: Object, reason: str, message: str, **more: Any) -> Object:
    """Return a warning about an object, which needs no UID for it."""
    metadata = about["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}
    event: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e-{uuid4().hex}", "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **involved},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": "edge"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    return event | more


def pods(lab: Lab, group: Group, namespace: str, count: int) -> list[Object]:
    def look() -> list[Object]:
        found = lab.pods(group.host_namespace(namespace))
        assert len(found) == count, len(found)
        return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in found]

    return within(THROUGH_HUB_S, look)
