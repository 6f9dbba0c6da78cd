"""What an API server serves, by its OpenAPI v3 documents: resources, subresources, fields."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("recording.json")
EXTENSIONS = Path(__file__).with_name("extensions.yaml")

Types = Mapping[str, Mapping[str, str]]
"""Type -> field -> its type: `string`, `[]core.Volume`, `{}string`, ..."""
Served = Mapping[str, Mapping[str, Any]]
"""`group/resource[/subresource]` -> verbs, type, whether it lies in namespaces."""

_PREFIX = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.")
_LEAVES = {"meta.Time", "meta.MicroTime", "api.resource.Quantity", "util.intstr.IntOrString"}
WRITING = {"create", "update", "patch", "delete", "deletecollection", "connect"}
_CHANGING = ("patch", "update")
_ALL = ("create", "delete", "deletecollection", *_CHANGING)
_STABLE = ("v1", "v2")
_ALSO = {"certificates.k8s.io/v1alpha1": ("podcertificaterequests",)}
"""Versions that are no default, and what of them a host may serve to tenants or nodes all the same:
the newest versions of Kubernetes do."""


def record(version: str, read: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
    """Return a recording. paths: of documents, as `apis/apps/v1`; read: gets one of them."""
    types: dict[str, dict[str, str]] = {}
    served: dict[str, dict[str, Any]] = {}
    for path in sorted(paths):
        group_version = path.removeprefix("apis/").removeprefix("api/")
        only = _ALSO.get(group_version)
        if group_version.rpartition("/")[2] not in _STABLE and not only:
            continue
        document = read(path)
        for where, item in document.get("paths", {}).items():
            _resource(served, path, where, item, only)
        for name, schema in document["components"]["schemas"].items():
            types.setdefault(_short(name), {}).update(_fields(schema))  # of all versions
    served = {name: row for name, row in served.items() if row["verbs"]}
    return {
        "version": version,
        "resources": dict(sorted(served.items())),
        "types": reachable({row["type"] for row in served.values()}, types),
    }


def _resource(
    served: dict[str, dict[str, Any]],
    path: str,
    where: str,
    item: Mapping[str, Any],
    only: tuple[str, ...] | None,
) -> None:
    rest = where.removeprefix(f"/{path}/")
    if rest == where or rest.startswith("watch/"):
        return
    parts = rest.split("/")
    is_namespaced = parts[:2] == ["namespaces", "{namespace}"] and len(parts) > 2
    parts = parts[2:] if is_namespaced else parts
    name = "/".join(each for each in parts if not each.startswith("{"))
    if only and parts[0] not in only:
        return
    group = path.split("/")[1] if path.startswith("apis/") else ""
    for operation in item.values():
        action = isinstance(operation, dict) and operation.get("x-kubernetes-action")
        if not action:
            continue
        row = served.setdefault(
            f"{group}/{name}", {"namespaced": is_namespaced, "type": "", "verbs": []}
        )
        row["namespaced"] |= is_namespaced
        verb = {"post": "create", "put": "update"}.get(action, action)
        row["verbs"] = sorted({*row["verbs"], verb} & WRITING)
        body = operation.get("requestBody") if verb in ("create", "update") else None
        if body:
            schema = body["content"]["*/*"]["schema"]
            row["type"] = _type(schema)


def _fields(schema: Mapping[str, Any]) -> dict[str, str]:
    return {name: _type(each) for name, each in sorted(schema.get("properties", {}).items())}


def _type(schema: Mapping[str, Any]) -> str:
    for each in (schema, *schema.get("allOf", ())):
        if "$ref" in each:
            return _short(each["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"[]{_type(schema['items'])}"
    if isinstance(more := schema.get("additionalProperties"), dict):
        return f"{{}}{_type(more)}"
    return str(schema.get("type", "object"))


def _short(name: str) -> str:
    for prefix in _PREFIX:
        name = name.removeprefix(prefix)
    *package, kind = name.removeprefix("io.k8s.apimachinery.pkg.").split(".")
    kept = [each for each in package if each not in _STABLE]
    short = ".".join((*kept, kind))
    return "leaf" if short in _LEAVES or not package else short


def reachable(roots: Iterable[str], types: Types) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    waiting = list(roots)
    while waiting:
        name = base(waiting.pop())
        if name not in found and name in types:
            found[name] = types[name]
            waiting += types[name].values()
    return {name: dict(found[name]) for name in sorted(found) if found[name]}


def base(name: str) -> str:
    """Return the type of the elements of a list or map."""
    return name.rpartition("]")[2].rpartition("}")[2]


def from_files(version: str, folder: Path) -> dict[str, Any]:
    """Record what the sources of Kubernetes keep: `api/openapi-spec/v3`."""
    files = {
        each.name.removesuffix("_openapi.json").replace("__", "/"): each
        for each in folder.glob("*__*_openapi.json")
    }
    return record(version, lambda path: json.loads(files[path].read_text()), files)


def text(recording: Mapping[str, Any]) -> str:
    """Return a recording with one line for each resource and type."""
    parts = [f'"version": {json.dumps(recording["version"])}']
    for field in ("resources", "types"):
        rows = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recording[field].items())
        parts.append(f'"{field}": {{\n' + ",\n".join(rows) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


def of_kubernetes() -> dict[str, Any]:
    """Return the recording of what Kubernetes itself serves."""
    recorded: dict[str, Any] = json.loads(FILE.read_text())
    return recorded


def load() -> dict[str, Any]:
    """Return the recording, with what hosts serve beside Kubernetes (extensions.yaml)."""
    found = of_kubernetes()
    beside = yaml.safe_load(EXTENSIONS.read_text())
    found["types"] |= beside["types"]
    for scope in ("namespaced", "cluster"):
        for group, plurals in beside[scope].items():
            for plural, kind in plurals.items():
                row = {"namespaced": scope == "namespaced", "type": kind, "verbs": [*_ALL]}
                found["resources"][f"{group}/{plural}"] = row
                found["resources"][f"{group}/{plural}/status"] = {**row, "verbs": [*_CHANGING]}
    return found
