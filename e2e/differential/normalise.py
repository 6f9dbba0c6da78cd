"""Names and values that must differ between two lanes become equal here, and only here.

Four things are taken out: which lane it is, what servers make up (uids, times, addresses),
how the host of our agent names and marks things (rewriting-rules 1, 2, 3), and order that
means nothing. What our agent lets through to the hub is not mapped back: a host name there is
a difference.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from e2e.differential.lane import Lane
from e2e.lab.api import Object

_FOLDED = re.compile(r" \(and \d+ more with this reason, which were dropped\)$")
"""What ours says of warnings that it folds (docs/adr/0021); karmada-agent writes each."""

DOMAIN = "virtualcluster.kubeedge.io"
_NODE_SELECTOR_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_SERVER_METADATA = ("creationTimestamp", "managedFields", "resourceVersion", "selfLink", "uid")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_ADDRESSES = frozenset(("clusterIP", "hostIP", "podIP"))
_ADDRESS_LISTS = frozenset(("clusterIPs", "hostIPs", "podIPs"))
_SERVER_NAMES = ((re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-*"),)
_PORTS = frozenset(("healthCheckNodePort", "nodePort"))
FIXED_PORTS = range(30000, 30086)
"""Node ports that the server gives only to who asks for them; cases take theirs from here."""

Step = Callable[[str], str]


class Normaliser:
    """Takes out of the objects of one case and one lane what makes them different.

    work_names: the Works of the case, by the names to give them; a name has a hash in it.
    """

    def __init__(self, lane: Lane, work_names: dict[str, str]) -> None:
        self._lane = lane
        self._uuids: dict[str, str] = {}
        longest_first = sorted(work_names.items(), key=lambda item: -len(item[0]))
        self._hub_names = [*longest_first, (lane.cluster, "CLUSTER"), (lane.tag, "LANE")]
        self._host_name = re.compile(rf"\b([a-z0-9.-]+?)-v-{re.escape(lane.cluster)}\b")

    def hub_object(self, value: Any) -> Any:
        """Return a part of a hub object as it would be in any lane."""
        return self._walk(value, self._hub_text)

    def host_object(self, obj: Object) -> Object:
        """Return a host object as it would be in any lane: metadata and content, no status."""
        obj = json.loads(json.dumps(obj))
        obj.pop("status", None)
        for field in _SERVER_METADATA:
            obj["metadata"].pop(field, None)
        if obj.get("type") == _ACCOUNT_TOKEN:
            obj["data"] = dict.fromkeys(obj.get("data") or {}, "MADE BY THE HOST")
        if self._lane.is_mapped:
            _give_back_marks(obj)
            _drop_selector(obj, self._lane.selector)
        walked: Object = self._walk(obj, self._host_text)
        return walked

    def _hub_text(self, text: str) -> str:
        for name, general in self._hub_names:
            text = text.replace(name, general)
        for pattern, general in _SERVER_NAMES:
            text = pattern.sub(general, text)
        return _TIME.sub("TIME", _UUID.sub(self._number, text))

    def _host_text(self, text: str) -> str:
        return self._hub_text(self._host_name.sub(r"\1", text))

    def _number(self, match: re.Match[str]) -> str:
        """Return one and the same word for one and the same uid of this case."""
        return self._uuids.setdefault(match.group(), f"UID-{len(self._uuids) + 1}")

    def _walk(self, value: Any, text: Step) -> Any:
        match value:
            case str():
                return text(value)
            case dict():
                return {text(key): self._entry(key, value[key], text) for key in sorted(value)}
            case list():
                return [self._walk(item, text) for item in value]
        return value

    def _entry(self, key: str, value: Any, text: Step) -> Any:
        if key in _ADDRESSES and value != "None":
            return "ADDRESS" if value else value
        if key in _ADDRESS_LISTS and value != ["None"]:
            return ["ADDRESS" for _ in value]
        if key in _PORTS and value not in FIXED_PORTS:
            return "PORT" if value else value
        if key == "nodeName":
            return "NODE"  # which of the nodes is the scheduler's choice
        return self._walk(value, text)


def _give_back_marks(obj: Object) -> None:
    """Replace our marks on a host object by Karmada's (rewriting-rules 2, step 7)."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    namespace, _, name = annotations.get(f"{DOMAIN}/work", "").partition("/")
    if name:
        annotations["work.karmada.io/namespace"] = namespace
        annotations["work.karmada.io/name"] = name
    for field in ("labels", "annotations"):
        entries = metadata.get(field) or {}
        for key in [key for key in entries if key.startswith(f"{DOMAIN}/")]:
            del entries[key]
        if obj["kind"] == "Namespace":
            entries.pop(_NODE_SELECTOR_ANNOTATION, None)
        if not entries:
            metadata.pop(field, None)


def _drop_selector(value: Any, selector: dict[str, str]) -> None:
    """Remove the node selector that was added to pod specs, anywhere in an object."""
    if isinstance(value, list):
        for item in value:
            _drop_selector(item, selector)
    if not isinstance(value, dict):
        return
    found = value.get("nodeSelector")
    if isinstance(found, dict):
        for key in selector:
            found.pop(key, None)
        if not found:
            del value["nodeSelector"]
    for inner in value.values():
        _drop_selector(inner, selector)


def event(raw: Object) -> Object:
    """Return what of an event is compared: who says what about whom, not when or how often."""
    involved = raw["involvedObject"]
    return {
        "about": f"{involved['kind']}/{involved['name']}",
        "apiVersion": involved.get("apiVersion"),
        "namespace": involved.get("namespace"),
        "type": raw["type"],
        "reason": raw["reason"],
        "message": _FOLDED.sub("", raw["message"]),
        "component": raw["source"].get("component"),
        "reportingComponent": raw.get("reportingComponent"),
    }


def without_times(conditions: list[Object]) -> list[Object]:
    """Return conditions in order of type, without when they came to be so."""
    return sorted(
        ({k: v for k, v in one.items() if k != "lastTransitionTime"} for one in conditions),
        key=lambda one: str(one["type"]),
    )


def by_group_version(enablements: list[Object], without: set[str]) -> Object:
    """Return apiEnablements as group version -> resource -> kind.

    without: groups to leave out.
    """
    return {
        entry["groupVersion"]: {one["name"]: one["kind"] for one in entry.get("resources") or []}
        for entry in enablements
        if entry["groupVersion"].partition("/")[0] not in without
    }
