"""All that can be seen of a case in one lane, with names that any lane would have."""

from typing import Any

from e2e.differential import normalise
from e2e.differential.lane import Lane, is_same, manifests
from e2e.differential.normalise import Normaliser
from e2e.differential.scene import Scene
from e2e.lab.api import Object, collection
from e2e.lab.cleanup import LEASES
from e2e.lab.lab import CLUSTERS

AGENT_COMPONENTS = frozenset(("execution-controller", "work-status-controller"))
_DEFINITIONS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_HEALTH = "InterpretHealthSucceed"
_LOST_RACE = "the object has been modified; please apply your changes"
"""Karmada's agent has two writers of a Work's status, one of which must try again."""
_BINDINGS = {True: "ResourceBinding", False: "ClusterResourceBinding"}


def observe(scene: Scene) -> Object:
    """Return what Karmada and the host show of a case now."""
    return _Observation(scene).all()


class _Observation:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._lane: Lane = scene.lane
        belonging = [w for w in self._lane.works() if self._belongs(w)]
        self._works = sorted(belonging, key=self._general_name)
        self._names = {w["metadata"]["name"]: self._general_name(w) for w in self._works}
        self._normaliser = Normaliser(self._lane, self._names)

    def all(self) -> Object:
        observed: Object = {
            "works": {self._names[w["metadata"]["name"]]: self._work(w) for w in self._works},
            "templates": {self._title(t): self._template(t) for t in self._scene.templates},
            "host": {self._title(o): self._host_object(o) for o in self._host_objects()},
            "events": self._events(),
        }
        if self._scene.cluster_parts:
            observed["cluster"] = self._cluster()
        if self._scene.watches_lease:
            observed["lease"] = self._lease()
        return observed

    def _belongs(self, work: Object) -> bool:
        if work["metadata"]["name"] in self._scene.works:
            return True
        return any(is_same(m, t) for m in manifests(work) for t in self._scene.templates)

    def _general_name(self, work: Object) -> str:
        name: str = work["metadata"]["name"]
        if name in self._scene.works:
            return name.replace(self._lane.tag, "LANE")
        return f"WORK-OF-{self._title(manifests(work)[0])}"

    def _title(self, obj: Object) -> str:
        title = f"{obj['kind']}/{obj['metadata']['name']}"
        return title.replace(self._lane.tag, "LANE")

    # --- the hub ------------------------------------------------------------------------

    def _work(self, work: Object) -> Object:
        metadata, status = work["metadata"], work.get("status") or {}
        seen = {
            "metadata": {
                key: metadata.get(key)
                for key in ("annotations", "finalizers", "generation", "labels")
            },
            "spec": work["spec"],
            "status": {**status, "conditions": _conditions(status)},
        }
        return self._hub(seen)

    def _template(self, template: Object) -> Object:
        found = self._lane.on_hub.find(template)
        if found is None:
            return {"is there": False}
        return self._hub({"status": found.get("status"), "binding": self._binding(template)})

    def _binding(self, template: Object) -> Object | None:
        metadata = template["metadata"]
        namespace = metadata.get("namespace") or ""
        api_version, kind = "work.karmada.io/v1alpha2", _BINDINGS[bool(namespace)]
        name = f"{metadata['name']}-{template['kind'].lower()}".replace(":", ".")
        identity = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"namespace": namespace, "name": name},
        }
        found = self._lane.on_hub.find(identity)
        if found is None:
            return None
        status = found.get("status") or {}
        return {
            "aggregatedStatus": status.get("aggregatedStatus"),
            "conditions": _conditions(status),
        }

    def _events(self) -> dict[str, list[Object]]:
        """Return what the agent said of Works and templates: who, why and of whom -> each once."""
        about = set(self._names) | set(self._scene.works)
        raw = [
            event
            for event in self._lane.events(self._lane.execution_namespace)
            if event["involvedObject"]["name"] in about
        ]
        for template in self._scene.templates:
            namespace = template["metadata"].get("namespace") or ""
            raw += [e for e in self._lane.events(namespace) if _is_about(e, template)]
        seen: dict[str, dict[str, Object]] = {}
        for event in raw:
            if event["source"].get("component") in AGENT_COMPONENTS and self._is_current(event):
                general = self._hub(normalise.event(event))
                title = "{component} {reason} {about}".format_map(general)
                seen.setdefault(title, {})[general["message"]] = general
        return {title: [told[key] for key in sorted(told)] for title, told in seen.items()}

    def _is_current(self, event: Object) -> bool:
        """Whether an event is of now; what was passed through is a matter of moments."""
        if _LOST_RACE in event["message"] or self._lane.rival in event["message"]:
            return False
        if event["reason"] != _HEALTH:
            return True
        for work in self._works:
            if work["metadata"]["name"] == event["involvedObject"]["name"]:
                entries = (work.get("status") or {}).get("manifestStatuses") or []
                return not any(
                    _reports_another_health(event["message"], entry) for entry in entries
                )
        return True

    def _cluster(self) -> Object:
        cluster = self._lane.hub.get(f"{CLUSTERS}/{self._lane.cluster}")
        seen: Object = {}
        for part in self._scene.cluster_parts:
            value: Any = cluster
            for key in part.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if part == "status.conditions":
                value = {each["type"]: each for each in normalise.without_times(value)}
            elif part == "status.apiEnablements":
                value = normalise.by_group_version(value, self._foreign_groups())
            seen[part] = value
        return self._hub(seen)

    def _foreign_groups(self) -> set[str]:
        """Return the API groups that the host has of others than the cases."""
        definitions = self._lane.on_host.list(collection(*_DEFINITIONS))
        groups = {definition["spec"]["group"] for definition in definitions}
        return {group for group in groups if self._lane.tag not in group}

    def _lease(self) -> Object:
        lease = self._lane.hub.get(f"{LEASES}/{self._lane.cluster}")
        metadata = {"ownerReferences": lease["metadata"].get("ownerReferences")}
        return self._hub({"metadata": metadata, "spec": lease["spec"]})

    def _hub(self, value: Object) -> Object:
        walked: Object = self._normaliser.hub_object(value)
        return walked

    # --- the host -----------------------------------------------------------------------

    def _host_objects(self) -> list[Object]:
        return [*self._scene.templates, *self._scene.host_objects]

    def _host_object(self, obj: Object) -> Object | None:
        found = self._lane.find_on_host(obj)
        return self._normaliser.host_object(found) if found is not None else None


def _conditions(status: Object) -> list[Object]:
    return normalise.without_times(status.get("conditions") or [])


def _reports_another_health(message: str, entry: Object) -> bool:
    """Whether an event tells a health that is not the one reported now."""
    identifier = entry["identifier"]
    about = f"({identifier['kind']}/{identifier.get('namespace', '')}/{identifier['name']}) as "
    return about in message and not message.endswith(f"{about}{entry['health'].lower()}.")


def _is_about(event: Object, template: Object) -> bool:
    involved = event["involvedObject"]
    return (involved["kind"], involved["name"]) == (
        template["kind"],
        template["metadata"]["name"],
    )
