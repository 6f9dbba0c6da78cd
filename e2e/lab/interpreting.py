"""A kind of its own for a test, what people say of it on the hub, and what the hub learns."""

from collections.abc import Callable
from typing import Any

from e2e.lab import objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, within

CONFIG = "config.karmada.io/v1alpha1"


class Widgets:
    """A CRD on the host named after the test, and the customizations of its kind on the hub."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.group = f"{lab.id}.example.io"
        self.api_version = f"{self.group}/v1"
        self._on_hub: list[str] = []
        lab.host.create(objects.custom_definition(self.group))
        within(PERIODIC_S, lab.host.list, f"/apis/{self.api_version}/widgets")

    def widget(self, namespace: str, name: str = "web", **spec: Any) -> Object:
        return {
            "apiVersion": self.api_version,
            "kind": "Widget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }

    def customize(self, **scripts: str) -> str:
        """Create a customization of the kind; return its path. scripts: field -> Lua."""
        return self.declare(
            {
                "apiVersion": CONFIG,
                "kind": "ResourceInterpreterCustomization",
                "metadata": {"name": self.lab.id},
                "spec": {
                    "target": {"apiVersion": self.api_version, "kind": "Widget"},
                    "customizations": {
                        field: {"luaScript": text} for field, text in scripts.items()
                    },
                },
            }
        )

    def declare(self, obj: Object) -> str:
        """Create something on the hub that goes with the test; return its path."""
        path = path_of(self.lab.hub.create(obj))
        self._on_hub.append(path)
        return path

    def host_path(self, widget: Object, group: Group) -> str:
        return self.lab.host_path(widget, group)

    def set_status(self, widget: Object, group: Group, status: Object) -> None:
        """Write a status on the host, as an operator there would."""
        path = self.host_path(widget, group)
        within(PERIODIC_S, self.lab.host.patch, f"{path}/status", {"status": status})

    def clean_up(self) -> None:
        for path in self._on_hub:
            self.lab.hub.delete(path)
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.lab.host.delete(f"{definitions}/widgets.{self.group}")


def wait_entry(hub: Api, work: str, look: Callable[[Object], None]) -> Object:
    """Wait until the entry of the first manifest in a Work is as `look` wants it; return it."""

    def see() -> Object:
        entries = hub.get(work)["status"]["manifestStatuses"]
        entry = next(e for e in entries if e["identifier"]["ordinal"] == 0)
        look(entry)
        return dict(entry)

    return within(PERIODIC_S, see)


def events_of(hub: Api, work: str, reason: str) -> list[Object]:
    """Return the events of a reason about a Work."""
    namespace, _, name = work.rpartition("/namespaces/")[2].partition("/works/")
    found = hub.list(f"/api/v1/namespaces/{namespace}/events")
    return [e for e in found if e["reason"] == reason and e["involvedObject"]["name"] == name]
