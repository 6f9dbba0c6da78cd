"""A kind that only a ResourceInterpreterCustomization of the hub understands."""

from collections.abc import Iterator

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.interpreting import Widgets, events_of, wait_entry
from e2e.lab.lab import Lab
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition

RETAIN = """
function Retain(desired, live)
  desired.spec.size = live.spec.size
  return desired
end
"""
REFLECT = """
function ReflectStatus(o)
  return {ready = o.status.ready, half = o.spec.size / 2, where = o.metadata.namespace}
end
"""
HEALTH = "function InterpretHealth(o) return o.status.ready == o.spec.size end"
BAD = {
    "endless": "while true do end",
    "bomb": "local t = {} while true do t[#t + 1] = {} end",
    "pathological": (
        "local s = 'a' for i = 1, 12 do s = s .. s end "
        "string.find(s, '(.-)(.-)(.-)(.-)(.-)(.-)(.-)(.-)b')"
    ),
    "crash": (
        "local s, p = 'a', 'a?' for i = 1, 18 do s, p = s .. s, p .. p end string.find(s, p)"
    ),
    "error": "error('on purpose')",
}


@pytest.fixture
def widgets(lab: Lab) -> Iterator[Widgets]:
    widgets = Widgets(lab)
    yield widgets
    widgets.clean_up()


@pytest.mark.smoke
def test_all_three_scripts_hold_for_a_kind(lab: Lab, widgets: Widgets) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    widgets.customize(retention=RETAIN, statusReflection=REFLECT, healthInterpretation=HEALTH)
    lab.serve(group)
    widget = widgets.widget(namespace, size=2, color="red")
    work = lab.create_work(group, "widget", widget)
    lab.wait_applied(work)
    widgets.set_status(widget, group, {"ready": 1, "secret": "of the host"})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", ready=1, half=1))
    widgets.set_status(widget, group, {"ready": 2})
    entry = wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", ready=2, half=1))
    assert entry["status"] == {"ready": 2, "half": 1, "where": namespace}

    path = widgets.host_path(widget, group)
    lab.host.patch(path, {"spec": {"size": 5}})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", ready=2, half=2.5))
    operation = {
        "op": "replace",
        "path": "/spec/workload/manifests/0/spec/color",
        "value": "blue",
    }
    lab.hub.patch_json(work, operation)
    live = within(PERIODIC_S, lambda: _with_color(lab.host.get(path), "blue"))
    assert live["spec"]["size"] == 5, "the size was not retained"


def test_a_changed_script_holds_for_what_is_applied_already(lab: Lab, widgets: Widgets) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    lab.serve(group)
    widget = widgets.widget(namespace, size=1)
    work = lab.create_work(group, "widget", widget)
    widgets.set_status(widget, group, {"ready": 1, "more": "details"})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", ready=1, more="details"))
    version = lab.host.get(widgets.host_path(widget, group))["metadata"]["resourceVersion"]

    customization = widgets.customize(statusReflection=REFLECT)
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", half=0.5, more=None))
    never = {"luaScript": "function InterpretHealth(o) return false end"}
    lab.hub.patch(customization, {"spec": {"customizations": {"healthInterpretation": never}}})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unhealthy", half=0.5))
    lab.hub.delete(customization)
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", more="details", half=None))
    after = lab.host.get(widgets.host_path(widget, group))["metadata"]["resourceVersion"]
    assert after == version, "the object on the host was written"


@pytest.mark.parametrize("script", BAD.values(), ids=BAD.keys())
def test_bad_script_is_reported_and_blocks_no_one(lab: Lab, widgets: Widgets, script: str) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    customization = widgets.customize(
        statusReflection=REFLECT,
        healthInterpretation=f"function InterpretHealth(o) {script} return true end",
    )
    lab.serve(group)
    widget = widgets.widget(namespace, size=1)
    work = lab.create_work(group, "widget", widget)
    widgets.set_status(widget, group, {"ready": 1})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Unknown", ready=1))
    events = within(PERIODIC_S, lambda: _some(events_of(lab.hub, work, "InterpretHealthFailed")))
    assert f'ResourceInterpreterCustomization "{lab.id}"' in events[0]["message"]

    other = lab.create_work(group, "other", objects.config_map(namespace))
    lab.wait_applied(other)
    good = {"luaScript": HEALTH}
    lab.hub.patch(customization, {"spec": {"customizations": {"healthInterpretation": good}}})
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy", ready=1))


def test_unreadable_status_is_reported(lab: Lab, widgets: Widgets) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    customization = widgets.customize(
        statusReflection="function ReflectStatus(o) error('lost in ' .. o.metadata.namespace) end"
    )
    lab.serve(group)
    work = lab.create_work(group, "widget", widgets.widget(namespace, size=1))
    lab.wait_applied(work)
    events = within(PERIODIC_S, lambda: _some(events_of(lab.hub, work, "ReflectStatusFailed")))
    assert f"lost in {namespace}." in events[0]["message"]
    lab.hub.delete(customization)
    wait_entry(lab.hub, work, lambda entry: _is(entry, "Healthy"))


def test_a_script_that_moves_an_object_does_not_win(lab: Lab, widgets: Widgets) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    widgets.customize(
        retention="function Retain(d, live) d.metadata.namespace = 'kube-system' return d end"
    )
    lab.serve(group)
    widget = widgets.widget(namespace, size=1)
    work = lab.create_work(group, "widget", widget)
    lab.wait_applied(work)  # what is created has nothing to retain
    lab.hub.patch_json(
        work, {"op": "add", "path": "/spec/workload/manifests/0/spec/size", "value": 2}
    )
    found = lab.wait_applied(work, "False")
    assert (
        "the interpreter changed the kind, namespace or name"
        in condition(found, "Applied")["message"]
    )
    moved = lab.host.find(f"/apis/{widgets.api_version}/namespaces/kube-system/widgets/web")
    assert moved is None


def _is(entry: Object, health: str, **status: object) -> None:
    seen = entry.get("status") or {}
    assert {key: seen.get(key) for key in status} == status, entry
    assert entry["health"] == health, entry


def _with_color(live: Object, color: str) -> Object:
    assert live["spec"]["color"] == color
    return live


def _some(found: list[Object]) -> list[Object]:
    assert found
    return found
