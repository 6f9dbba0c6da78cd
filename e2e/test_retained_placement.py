"""Pods stay on the nodes of their virtual cluster whatever a script of the hub retains."""

from collections.abc import Iterator

import pytest

from e2e.lab.api import Object
from e2e.lab.interpreting import Widgets
from e2e.lab.lab import Lab
from e2e.lab.wait import eventually

KEEPS_ALL = "function Retain(desired, live) desired.spec = live.spec return desired end"


@pytest.fixture
def widgets(lab: Lab) -> Iterator[Widgets]:
    widgets = Widgets(lab)
    yield widgets
    widgets.clean_up()


def test_removed_selector_returns_although_the_live_template_is_retained(
    lab: Lab, widgets: Widgets
) -> None:
    group, namespace = lab.group("a", nodes=0), lab.namespace()
    templates = {"group": widgets.group, "kind": "Widget", "paths": ["spec.template.spec"]}
    widgets.customize(retention=KEEPS_ALL)
    lab.serve(group, podTemplates=[templates])
    template = {"spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]}}
    widget = widgets.widget(namespace, template=template)
    lab.wait_applied(lab.create_work(group, "widget", widget))
    path = widgets.host_path(widget, group)
    pinned = _selector(lab.host.get(path))
    assert pinned

    lab.host.patch(path, {"spec": {"template": {"spec": {"nodeSelector": None}}}})

    def is_pinned_again() -> None:
        assert _selector(lab.host.get(path)) == pinned

    eventually(is_pinned_again)


def _selector(widget: Object) -> Object:
    spec = widget["spec"]["template"]["spec"]
    return dict(spec.get("nodeSelector") or {})
