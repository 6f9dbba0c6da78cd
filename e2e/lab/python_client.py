"""What users of the official Python client do with one kind: by its typed and its dynamic API."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes import client, config, dynamic, watch

from e2e.lab.api import Object
from e2e.lab.conformance import MERGE, PATCH, TABLE, without_ages
from e2e.lab.wait import eventually

_config: Any = config
_dynamic: Any = dynamic
_watch: Any = watch
"""Without types, as the package has hardly any."""
TIMEOUT_S = 20
MANAGER = "python-client"
Case = tuple[str, Any]
_APIS: dict[str, Callable[[client.ApiClient], Any]] = {
    "v1": client.CoreV1Api,
    "apps/v1": client.AppsV1Api,
    "batch/v1": client.BatchV1Api,
    "networking.k8s.io/v1": client.NetworkingV1Api,
    "rbac.authorization.k8s.io/v1": client.RbacAuthorizationV1Api,
    "autoscaling/v2": client.AutoscalingV2Api,
    "policy/v1": client.PolicyV1Api,
    "coordination.k8s.io/v1": client.CoordinationV1Api,
}
"""The typed API of each version of a group."""


class PythonClient:
    """A client of one cluster. folder: of what it remembers of discovery."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.api: Any = _config.new_client_from_config(str(kubeconfig))
        self._dynamic = _dynamic.DynamicClient(self.api, cache_file=str(folder / "discovery.json"))

    def cases(self, obj: Object, name: str) -> Iterator[Case]:
        """Yield a name and what was answered of each. name: of the copies that it makes."""
        yield from _Typed(self.api, obj, name).cases()
        version, kind = obj["apiVersion"], obj["kind"]
        resource = self._dynamic.resources.get(api_version=version, kind=kind)
        yield from _dynamic_cases(resource, obj, f"{name}-dynamic")


class _Typed:
    """Methods such as `read_namespaced_config_map`."""

    def __init__(self, api: Any, obj: Object, name: str) -> None:
        self._client = api
        self._api = _APIS[obj["apiVersion"]](api)
        self._word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", obj["kind"]).lower()
        self._kind = obj["kind"]
        self._there: str = obj["metadata"]["name"]
        self._space: str = obj["metadata"]["namespace"]
        self._made = {**obj, "metadata": {**obj["metadata"], "name": name}}
        self._name = name

    def cases(self) -> Iterator[Case]:
        by_label = {"label_selector": "app=web"}
        yield "typed read", self._ask("read", self._there)
        yield "typed read of what is missing", self._ask("read", "missing")
        yield "list typed", self._ask("list")
        yield "list typed by label", self._ask("list", **by_label)
        yield "list typed a page", self._ask("list", limit=1)["items"]
        yield "list typed by a wrong field", self._ask("list", field_selector="x=y")
        if self._kind != "Secret":  # in one namespace at a time, docs/gateway.md
            every = getattr(self._api, f"list_{self._word}_for_all_namespaces")
            yield "list typed in all namespaces", self._shown(every, **by_label)
        yield "watch typed", self._watched()
        yield from self._writes()

    def _writes(self) -> Iterator[Case]:
        labels: Object = {"metadata": {"labels": {"k": "v"}}}
        operations = [{"op": "add", "path": "/metadata/labels/j", "value": "w"}]
        yield "typed create", self._ask("create", body=self._made)
        yield "typed create again", self._ask("create", body=self._made)
        yield "typed patch", self._ask("patch", self._name, body=labels)
        yield "typed patch by operations", self._ask("patch", self._name, body=operations)
        found = self._ask("read", self._name)
        found["metadata"]["labels"]["k"] = "replaced"
        yield "typed replace", self._ask("replace", self._name, body=found)
        yield "typed replace of what is old", self._ask("replace", self._name, body=found)
        deleted = self._ask("delete", self._name, propagation_policy="Background")
        yield "typed delete", deleted
        yield "typed delete again", self._ask("delete", self._name)

    def _ask(self, verb: str, *arguments: str, **named: Any) -> Any:
        method = getattr(self._api, f"{verb}_namespaced_{self._word}")
        return self._shown(method, *arguments, self._space, **named)

    def _shown(self, method: Callable[..., Any], *arguments: str, **named: Any) -> Any:
        return _told(lambda: self._client.sanitize_for_serialization(method(*arguments, **named)))

    def _watched(self) -> Any:
        """Return the events of what is there, all of one kind."""
        method = getattr(self._api, f"list_namespaced_{self._word}")
        count = len(method(self._space).items)
        events = _watch.Watch().stream(method, self._space, timeout_seconds=TIMEOUT_S)
        found = [(each["type"], each["raw_object"]) for each in itertools.islice(events, count)]
        return {"events": [{"type": event, "object": obj} for event, obj in found]}


def _dynamic_cases(resource: Any, obj: Object, name: str) -> Iterator[Case]:
    there = {"name": obj["metadata"]["name"], "namespace": obj["metadata"]["namespace"]}
    space = {"namespace": there["namespace"]}
    as_table = {"serialize": False, "header_params": {"Accept": TABLE}}
    head = {key: obj[key] for key in ("apiVersion", "kind")}
    applied: Object = {**head, "metadata": {"name": name, "labels": {"step": "apply"}}}
    made: Object = {**obj, "metadata": {**obj["metadata"], "name": name}}
    operations = [{"op": "add", "path": "/metadata/labels/step", "value": "patch"}]
    mine = {**space, "name": name}
    yield "dynamic get", _told(lambda: resource.get(**there).to_dict())
    yield "list dynamic", _told(lambda: resource.get(**space).to_dict())
    for case, which in (("get as a table", there), ("list as a table", space)):
        table = _told(partial(resource.get, **which, **as_table))
        yield case, without_ages(json.loads(table.data))
    yield "dynamic create", _told(lambda: resource.create(body=made, **space).to_dict())
    patches: tuple[tuple[str, Any, str], ...] = (
        ("dynamic patch", {"metadata": {"labels": {"step": "merge"}}}, MERGE),
        ("dynamic patch by operations", operations, PATCH),
    )
    for case, body, form in patches:
        answer = _told(partial(resource.patch, body=body, **mine, content_type=form))
        yield case, answer.to_dict()
    apply = {"field_manager": MANAGER, "force_conflicts": True}
    answer = _told(lambda: resource.server_side_apply(body=applied, **mine, **apply).to_dict())
    yield "dynamic apply", answer
    yield "dynamic watch", _told(lambda: _seen(resource, mine))


def _seen(resource: Any, mine: dict[str, str]) -> Any:
    """Delete the object while it is watched; return the events."""
    eventually(_is_cached, resource, mine)
    events = resource.watch(**mine, timeout=TIMEOUT_S)
    first = next(events)
    resource.delete(**mine, propagation_policy="Background")
    told = (first, next(events))
    return {"events": [{"type": e["type"], "object": e["object"].to_dict()} for e in told]}


def _is_cached(resource: Any, mine: dict[str, str]) -> None:
    """Assert that the API server's cache, from which watches start, has the last change."""
    cached = resource.get(**mine, resource_version="0").to_dict()
    assert cached["metadata"]["labels"]["step"] == "apply"


def _told(ask: Callable[[], Any]) -> Any:
    """Return an answer, or the Status that it was refused with."""
    try:
        return ask()
    except client.ApiException as error:
        return {"code": error.status, **json.loads(error.body or b"{}")}
    except dynamic.exceptions.DynamicApiError as error:
        return {"code": error.status, **json.loads(error.body or b"{}")}
