"""The site decides when: windows, and a hold of an administrator (ADR 43)."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from e2e.lab.works import condition

DOMAIN = "virtualcluster.kubeedge.io"
HOLD = f"{DOMAIN}/hold"


UNTOUCHED_S = 4.0
LATE_S = 30.0
"""How late a busy machine may be with what is applied at once."""
OPENS_S = 180.0
"""Longer than until a window of `beginning_in(2)` begins."""


def beginning_in(minutes: int) -> str:
    """Return a window of two hours that begins at a full minute, so many from now.

    A quarter of a minute more is there for what is to be seen before.
    """
    start = datetime.now(UTC) + timedelta(minutes=minutes, seconds=15)
    return f"{start:%H:%M}-{start + timedelta(hours=2):%H:%M} UTC"


def closed() -> str:
    """Return a window that opens in half a day."""
    return beginning_in(12 * 60)


def says(lab: Lab, work: str, status: str, reason: str) -> Object:
    def look() -> Object:
        found = condition(lab.hub.get(work), "Dispatching")
        assert (found["status"], found["reason"]) == (status, reason), found
        return found

    return within(PERIODIC_S, look)


def _is_recorded(lab: Lab, work: str, generation: int) -> None:
    """Check that a Work was synced since there is a window: drift is corrected from then on."""
    found = condition(lab.hub.get(work), "Dispatching")
    assert found.get("observedGeneration") == generation, found


def of_cluster(lab: Lab, group: Group, kind: str, status: str) -> Object:
    def look() -> Object:
        found = condition(lab.cluster(group.name), kind)
        assert found["status"] == status, found
        return found

    return within(PERIODIC_S, look)


def with_window(group: Group, window: str, **more: Any) -> dict[str, Any]:
    return {**group.settings(), "window": window, **more}


def set_key(lab: Lab, work: str, value: str) -> None:
    path = "/spec/workload/manifests/0/data/key"
    lab.hub.patch_json(work, {"op": "replace", "path": path, "value": value})


def has_key(lab: Lab, path: str, value: str) -> None:
    assert lab.host.get(path)["data"]["key"] == value


def stays(lab: Lab, path: str, value: str) -> None:
    """Look for a while whether an object stays as it is."""
    end = time.monotonic() + UNTOUCHED_S
    while time.monotonic() < end:
        has_key(lab, path, value)
        time.sleep(0.2)


def told(lab: Lab, group: Group, reason: str) -> None:
    events = lab.hub.list(collection("v1", "Event", "default"))
    assert reason in {e["reason"] for e in events if e["involvedObject"]["name"] == group.name}


def test_new_generations_wait_for_the_window_and_repair_continues(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    namespace = lab.namespace()
    settings, secret = objects.config_map(namespace, key="1"), objects.secret(namespace)
    on_host, key_on_host = lab.host_path(settings, group), lab.host_path(secret, group)
    work = lab.create_work(group, "settings", settings)
    lab.wait_applied(work)

    agent.settings["virtualClusters"] = [with_window(group, closed())]
    agent.reload()
    text = of_cluster(lab, group, "TakesChanges", "False")["message"]
    assert "new generations wait until" in text
    within(PERIODIC_S, _is_recorded, lab, work, 1)
    set_key(lab, work, "2")
    waiting = says(lab, work, "False", "OutsideWindow")
    assert "Generation 2 waits until" in waiting["message"]
    assert condition(lab.hub.get(work), "Applied")["status"] == "True"

    # What was applied is repaired, and comes back.
    lab.host.patch(on_host, {"data": {"key": "by hand"}})
    within(PERIODIC_S, has_key, lab, on_host, "1")
    lab.host.delete(on_host)
    within(PERIODIC_S, has_key, lab, on_host, "1")

    # A new one waits as well, a Secret does not.
    other = objects.config_map(namespace, "other", key="1")
    other_work = lab.create_work(group, "other", other)
    lab.wait_applied(lab.create_work(group, "secret", secret))
    says(lab, other_work, "False", "OutsideWindow")
    assert lab.host.find(lab.host_path(other, group)) is None

    # So it is after a restart.
    agent.restart()
    lab.wait_serving(agent)
    lab.host.patch(key_on_host, {"data": {"key": "eA=="}})
    within(PERIODIC_S, has_key, lab, key_on_host, "MQ==")
    stays(lab, on_host, "1")
    assert lab.host.find(lab.host_path(other, group)) is None

    # It opens at a full minute: all that waits is applied at once.
    window = beginning_in(2)
    agent.settings["virtualClusters"] = [with_window(group, window)]
    agent.reload()
    within(PERIODIC_S, _is_due, lab, group, window.partition("-")[0])
    assert lab.host.get(on_host)["data"]["key"] == "1"
    within(OPENS_S, has_key, lab, on_host, "2")
    assert datetime.now(UTC).second < LATE_S
    within(LATE_S, has_key, lab, lab.host_path(other, group), "1")
    says(lab, work, "True", "Dispatching")
    assert of_cluster(lab, group, "TakesChanges", "True")["reason"] == "InsideWindow"
    assert "Traceback" not in agent.log()


def _is_due(lab: Lab, group: Group, begins: str) -> None:
    text = condition(lab.cluster(group.name), "TakesChanges")["message"]
    assert f" {begins}" in text, text


@pytest.mark.smoke
def test_held_namespace_is_not_touched_until_it_is_released(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    namespace = lab.namespace()
    settings, gone = objects.config_map(namespace, key="1"), objects.config_map(namespace, "gone")
    on_host = lab.host_path(settings, group)
    work = lab.create_work(group, "settings", settings)
    leaving = lab.create_work(group, "gone", gone)
    for each in (work, leaving):
        lab.wait_applied(each)
    held = f"/api/v1/namespaces/{group.host_namespace(namespace)}"
    lab.host.patch(held, {"metadata": {"annotations": {HOLD: "belt stopped"}}})
    text = of_cluster(lab, group, "NamespacesHeld", "True")["message"]
    assert text == f"the agent writes nothing in {namespace} (belt stopped)"

    set_key(lab, work, "2")
    applied = condition(lab.wait_applied(work, "False"), "Applied")
    assert "NamespaceHeld" in applied["message"]
    assert "belt stopped" in applied["message"]
    lab.hub.delete(leaving)
    lab.host.patch(on_host, {"data": {"key": "by hand"}})
    stays(lab, on_host, "by hand")
    assert lab.hub.get(leaving)["metadata"]["deletionTimestamp"]
    lab.on_host(gone, group)
    within(PERIODIC_S, told, lab, group, "NamespaceHeld")

    lab.host.patch(held, {"metadata": {"annotations": {HOLD: None}}})
    within(LATE_S, has_key, lab, on_host, "2")
    lab.wait_applied(work)
    wait_until_deleted(lab.hub, leaving)
    assert lab.host.find(lab.host_path(gone, group)) is None
    of_cluster(lab, group, "NamespacesHeld", "False")
    within(PERIODIC_S, told, lab, group, "NamespaceReleased")
    assert "Traceback" not in agent.log()
