"""What an API server keeps: objects, versions, what happened to them, and its refusals.

Follows a real one where the agent could notice: one counter of resourceVersions, no new
version for a write that changes nothing, status apart from the rest, generation, finalizers,
preconditions, namespaces that must exist. There is no admission and no garbage collection.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.install.apply_objects import fields_of
from karmada_vc_agent.model.objects import Object, apply_json_patch, copy_object
from karmada_vc_agent.model.vocabulary import RBAC_API
from tests.fakes.served import Served

CREATED_AT = "2026-01-01T00:00:00Z"

DEFAULT_MODELS = [
    {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]},
    {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "9223372036854775807"}]},
]
"""Karmada's server fills in grades at creation where there are none; here only two of them."""


class NotServedError(Exception):
    """No kind is served at a path; the answer is no Status."""


class StatusError(Exception):
    """The server says no; the answer is a Status."""

    def __init__(
        self, code: int, reason: str, message: str, name: str = "", kind: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if name:
            self.status["details"] = {"name": name, "kind": kind}


@dataclass(frozen=True)
class Place:
    """What a path names: a collection, one object of it, or its subresource."""

    served: Served
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.served.api_version, self.served.plural, self.namespace, self.name)

    def said(self) -> str:
        group, _, _ = self.served.api_version.rpartition("/")
        return f"{self.served.plural}.{group}" if group else self.served.plural


@dataclass(frozen=True)
class Change:
    """One event: ADDED, MODIFIED or DELETED; before: the object until then."""

    version: int
    type: str
    place: Place
    obj: Object
    before: Object | None


class Storage:
    """The objects of one server; `listener` is told of each change."""

    def __init__(self, served: tuple[Served, ...]) -> None:
        self.served = list(served)
        self.version = 100
        self.compacted = 0
        self.history: list[Change] = []
        self.objects: dict[tuple[str, str, str, str], Object] = {}
        self.listener: Callable[[Change], None] = lambda _: None
        self._uids = itertools.count(1)
        self.owned: dict[tuple[tuple[str, str, str, str], str], str] = {}
        """(object, field) -> the manager that set it, for server-side apply."""

    # --- paths ----------------------------------------------------------------------------

    def place(self, path: str) -> Place | None:
        """Return what a path names, None where this server has no such resource."""
        for served in self.served:
            root = served.root + "/"
            if not path.startswith(root):
                continue
            parts = path.removeprefix(root).split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2 and parts[2] != "status":
                namespace, parts = parts[1], parts[2:]
            if parts[0] == served.plural and (served.namespaced or not namespace):
                name, subresource = ([*parts[1:], "", ""])[:2]
                return Place(served, namespace, name, subresource)
        return None

    def matching(self, place: Place) -> list[Object]:
        """Return the objects of a collection, in order of their keys."""
        return [
            obj
            for key, obj in sorted(self.objects.items())
            if key[:2] == place.key[:2] and place.namespace in ("", key[2])
        ]

    # --- reading and writing ----------------------------------------------------------------

    def get(self, place: Place) -> Object:
        try:
            return self.objects[place.key]
        except KeyError:
            text = f'{place.said()} "{place.name}" not found'
            raise StatusError(404, "NotFound", text, place.name, place.served.plural) from None

    def create(self, place: Place, body: Object) -> Object:
        obj = copy_object(body)
        metadata = obj.setdefault("metadata", {})
        place = Place(place.served, place.namespace, metadata.get("name") or "", "")
        if not place.name:
            raise StatusError(422, "Invalid", "metadata.name: Required value")
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        if metadata.get("namespace", place.namespace) != place.namespace:
            raise StatusError(400, "BadRequest", "the namespace of the object does not match")
        self._check_namespace(place)
        if place.key in self.objects:
            raise StatusError(409, "AlreadyExists", f'{place.said()} "{place.name}" already exists')
        if place.served.has_status:
            obj.pop("status", None)
        if place.served.kind == "Cluster" and not obj["spec"].get("resourceModels"):
            obj["spec"]["resourceModels"] = copy_object(DEFAULT_MODELS)
        return self._insert(place, obj)

    def _insert(self, place: Place, obj: Object) -> Object:
        metadata = obj["metadata"]
        metadata.setdefault("uid", f"00000000-0000-4000-8000-{next(self._uids):012d}")
        metadata.setdefault("creationTimestamp", CREATED_AT)
        if place.namespace:
            metadata["namespace"] = place.namespace
        if place.served.has_generation:
            metadata.setdefault("generation", 1)
        obj.setdefault("apiVersion", place.served.api_version)
        obj.setdefault("kind", place.served.kind)
        return self._commit("ADDED", place, obj, None)

    def replace(self, place: Place, body: Object) -> Object:
        """Do a PUT of an object or of its status; one of RBAC that is not there is created."""
        sent = body.get("metadata") or {}
        if place.key not in self.objects and place.served.api_version == RBAC_API:
            if sent.get("uid"):
                raise _conflict(place)
            return self.create(place, copy_object(body))
        live = self.get(place)
        if sent.get("name") != place.name:
            raise StatusError(400, "BadRequest", "the name of the object does not match the URL")
        for field in ("resourceVersion", "uid"):
            if sent.get(field) and sent[field] != live["metadata"][field]:
                raise _conflict(place)
        if place.served.is_custom and not sent.get("resourceVersion"):
            raise StatusError(422, "Invalid", "metadata.resourceVersion: must be specified")
        return self._update(place, live, copy_object(body))

    def merge_patch(self, place: Place, patch: Object) -> Object:
        live = self.get(place)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            raise _conflict(place)
        uid = (patch.get("metadata") or {}).get("uid")
        if uid and uid != live["metadata"]["uid"]:
            text = f'{place.served.kind} "{place.name}" is invalid: metadata.uid: Invalid value: '
            raise StatusError(422, "Invalid", f'{text}"{uid}": field is immutable')
        return self._update(place, live, _merged(live, patch))

    def json_patch(self, place: Place, patch: Any) -> Object:
        live = self.get(place)
        try:
            patched = apply_json_patch(live, patch)
        except ValueError as error:
            raise StatusError(422, "Invalid", str(error)) from error
        return self._update(place, live, patched)

    def apply(self, place: Place, body: Object, *, is_forced: bool) -> Object:
        """Do a server-side apply; `owned` says which fields others own."""
        if place.key not in self.objects:
            return self.create(place, body)
        live = self.get(place)
        before, after = dict(fields_of(live)), dict(fields_of(body))
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{owner}" using v1',
                "field": field,
            }
            for (key, field), owner in self.owned.items()
            if key == place.key and field in after and after[field] != before.get(field)
        ]
        if causes and not is_forced:
            error = StatusError(409, "Conflict", f"Apply failed with {len(causes)} conflicts")
            error.status["details"] = {"causes": causes}
            raise error
        return self._update(place, live, _applied(live, body))

    def _update(self, place: Place, live: Object, wanted: Object) -> Object:
        if place.subresource == "status":
            obj = {**live, "status": wanted.get("status")}
            if obj["status"] is None:
                del obj["status"]
            if place.served.kind == "Cluster":  # Karmada keeps metadata of a status
                obj["metadata"] = wanted.get("metadata") or {}
        else:
            obj = wanted
            if place.served.has_status:
                obj.pop("status", None)
                obj |= {"status": live["status"]} if "status" in live else {}
        metadata = dict(obj.get("metadata") or {})
        for field in (
            "uid",
            "creationTimestamp",
            "resourceVersion",
            "generation",
            "deletionTimestamp",
            "namespace",
        ):
            metadata.pop(field, None)
            if field in live["metadata"]:
                metadata[field] = live["metadata"][field]
        obj = {"apiVersion": live["apiVersion"], "kind": live["kind"], **obj, "metadata": metadata}
        if obj == live:
            return live
        if place.served.has_generation and _spec_of(obj) != _spec_of(live):
            metadata["generation"] = live["metadata"].get("generation", 0) + 1
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return self._remove(place, obj)
        return self._commit("MODIFIED", place, obj, live)

    def delete(self, place: Place, options: Object | None) -> Object:
        live = self.get(place)
        for field, wanted in ((options or {}).get("preconditions") or {}).items():
            if live["metadata"].get(field) != wanted:
                raise _conflict(place)
        if not live["metadata"].get("finalizers"):
            return self._remove(place, live)
        if live["metadata"].get("deletionTimestamp"):
            return live
        metadata = {**live["metadata"], "deletionTimestamp": CREATED_AT}
        if place.served.has_generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        return self._commit("MODIFIED", place, {**live, "metadata": metadata}, live)

    def _remove(self, place: Place, obj: Object) -> Object:
        before = self.objects.pop(place.key)
        if place.served.plural == "namespaces":
            for key in [key for key in self.objects if key[2] == place.name]:
                del self.objects[key]
        return self._commit("DELETED", place, copy_object(obj), before)

    def _commit(self, kind: str, place: Place, obj: Object, before: Object | None) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self.objects[place.key] = obj
        change = Change(self.version, kind, place, obj, before)
        self.history.append(change)
        self.listener(change)
        return obj

    def _check_namespace(self, place: Place) -> None:
        if not place.namespace:
            return
        namespace = self.objects.get(("v1", "namespaces", "", place.namespace))
        if namespace is None:
            text = f'namespaces "{place.namespace}" not found'
            raise StatusError(404, "NotFound", text, place.namespace, "namespaces")
        if namespace["metadata"].get("deletionTimestamp"):
            text = f"unable to create new content in namespace {place.namespace}: being terminated"
            raise StatusError(403, "Forbidden", text)

    # --- for tests ----------------------------------------------------------------------------

    def seed(self, obj: Object) -> Object:
        """Put an object there as it is, status and finalizers too, whatever the rules say."""
        metadata = obj["metadata"]
        for served in self.served:
            if (served.api_version, served.kind) == (obj["apiVersion"], obj["kind"]):
                name, namespace = metadata["name"], metadata.get("namespace") or ""
                place = Place(served, namespace, name, "")
                break
        else:
            raise AssertionError(f"{obj['apiVersion']} {obj['kind']} is not served here")
        live = self.objects.get(place.key)
        if live is None:
            return self._insert(place, copy_object(obj))
        changed = {**copy_object(obj), "metadata": {**live["metadata"], **metadata}}
        return self._commit("MODIFIED", place, changed, live)

    def backup(self) -> tuple[int, dict[tuple[str, str, str, str], Object]]:
        """Return what `restore` takes."""
        return self.version, {key: copy_object(obj) for key, obj in self.objects.items()}

    def restore(self, backup: tuple[int, dict[tuple[str, str, str, str], Object]]) -> None:
        """Go back in time: nobody is told, and versions are given out again."""
        self.version, objects = backup
        self.objects = {key: copy_object(obj) for key, obj in objects.items()}
        self.compacted = 0
        self.history.clear()

    def compact(self) -> None:
        """Forget what happened so far; watches cannot resume from it any more."""
        self.compacted = self.version
        self.history.clear()


def _conflict(place: Place) -> StatusError:
    text = (
        f'Operation cannot be fulfilled on {place.said()} "{place.name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return StatusError(409, "Conflict", text)


def _applied(old: Any, new: Any) -> Any:
    """Merge as server-side apply does: maps by key, lists of named items by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _applied(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list) and all("name" in each for each in new):
        known = {each["name"]: each for each in old}
        wanted = {each["name"]: each for each in new}
        return [_applied(known.get(name), wanted.get(name, {})) for name in known | wanted]
    return copy_object(new)


def _spec_of(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in ("metadata", "status")}


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy_object(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
