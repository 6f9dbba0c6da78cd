"""Bodies of writes for the host, by verb and media type; JSON patches (G-32).

A value of a JSON patch is put alone into an object of the kind, translate() maps or refuses that,
and the value is read back from its place. What such a view of one value cannot judge is answered
422.
"""

import re
from collections.abc import Iterator
from typing import Any

from karmada_vc_agent.features.gateway.mapping import bodies, refusals, request_syntax
from karmada_vc_agent.features.gateway.mapping.cluster_view import ParsedRequest
from karmada_vc_agent.model import domain, kinds
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation import kind_paths
from karmada_vc_agent.translation.kind_paths import Treatment

_PLACEMENT = ("nodeSelector", "affinity", "nodeName")
_WITH_VALUE = frozenset({"add", "replace", "test"})
_AS_A_WHOLE = frozenset(
    {
        Treatment.SELECTOR,
        Treatment.AFFINITY_TERM,
        Treatment.ROUTE_NAMESPACES,
        Treatment.DESTINATION,
    }
)
"""Treatments for which one part says what another one means, or that add to what is there."""
_WHOLE_ENTRIES = {
    kinds.ROLE: ("rules",),
    kinds.ROLE_BINDING: ("subjects", "roleRef"),
}
"""Fields whose entries have a meaning only as a whole."""
_INDEX = re.compile(r"0|[1-9][0-9]*|-")
_NUMBER = re.compile(r"[+-]?[0-9]+")
"""What an API server takes for an index: -1 is the last entry, +0 and 00 the first one."""
OPERATIONS_MAX, DEPTH_MAX = 500, 200
"""Of one patch, each of whose values is translated by itself; of one path."""
_ENTRY, _KEY = "[]", "{}"
_ABSENT = object()
_MAPS = (("metadata", "labels"), ("metadata", "annotations"))

Steps = tuple[str, ...]


def json_patch(operations: Any, parsed: ParsedRequest) -> list[Object]:
    """Return the patch for the host. Raises RefusalError: 400, 403, 422."""
    if not isinstance(operations, list):
        raise refusals.bad_request("a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_MAX:
        text = f"a JSON patch has at most {OPERATIONS_MAX} operations here; use a merge patch"
        raise refusals.bad_request(text)
    return [_operation(operation, parsed) for operation in operations]


def _operation(operation: Any, parsed: ParsedRequest) -> Object:
    kind = operation.get("op") if isinstance(operation, dict) else None
    path = operation.get("path") if isinstance(operation, dict) else None
    if not isinstance(kind, str) or not isinstance(path, str) or (path and path[0] != "/"):
        raise refusals.bad_request("the body is not a list of JSON patch operations")
    if path.count("/") > DEPTH_MAX:
        raise refusals.bad_request(f"a path has more than {DEPTH_MAX} steps")
    steps = steps_in(path)
    if kind == "remove":
        _refuse_protected(steps, path, parsed)
        if parsed.info.gvk.group_kind == kinds.NAMESPACE and steps in _MAPS:
            raise parsed.invalid(path, "has keys that are set for the virtual cluster")
        return {"op": kind, "path": path}
    if kind not in _WITH_VALUE:
        raise parsed.invalid(path, f'operation "{kind}" is not supported; use add and remove')
    if "value" not in operation:
        raise refusals.bad_request(f"{kind} {path} has no value")
    if steps == ("metadata", "namespace") and kind == "test":
        is_same = operation["value"] == parsed.namespace
        value = parsed.host_namespace if is_same else operation["value"]
        return {"op": kind, "path": path, "value": value}
    if kind != "test":
        _refuse_protected(steps, path, parsed)
    return {"op": kind, "path": path, "value": _value(steps, operation["value"], path, parsed)}


def steps_in(path: str) -> Steps:
    """Return the steps of a JSON pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])


def _refuse_protected(steps: Steps, path: str, parsed: ParsedRequest) -> None:
    """Refuse operations on, above or below what places pods, and on what identifies the object."""
    for protected in _protected(parsed):
        if _meets(steps, protected):
            raise parsed.invalid(path, "is set for the virtual cluster; use a merge patch")
    if any(domain.is_ours(step) or step == domain.NODE_SELECTOR_ANNOTATION for step in steps):
        raise parsed.invalid(path, "is set for the virtual cluster")
    for row in parsed.reference_rows():
        pattern = _steps_of(row.path)
        if row.treatment in _AS_A_WHOLE and len(steps) > len(pattern) and _meets(steps, pattern):
            raise parsed.invalid(path, "must be replaced as a whole")
    whole = _WHOLE_ENTRIES.get(parsed.info.gvk.group_kind, ())
    depth = 1 if steps[:1] == ("roleRef",) else 2
    if steps[0] in whole and len(steps) > depth:
        raise parsed.invalid(path, "must be replaced as a whole entry")


def _protected(parsed: ParsedRequest) -> Iterator[Steps]:
    yield from (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
    for template in _templates(parsed):
        for field in _PLACEMENT:
            yield _steps_of(f"{template}.{field}")


def _templates(parsed: ParsedRequest) -> Iterator[str]:
    """Yield the paths of the pod specs of a kind."""
    gvk = parsed.info.gvk
    yield from (
        path for row in kind_paths.POD_TEMPLATES.get(gvk.group_kind, ()) for path in row.paths
    )
    for row in parsed.view.context().settings.pod_templates:
        if (row.group, row.kind) == (gvk.group, gvk.kind):
            yield from row.paths


def _steps_of(table_path: str) -> Steps:
    """Return the steps of a table path, with _ENTRY for any index, _KEY for any key."""
    steps: list[str] = []
    for part in table_path.split("."):
        steps.append(part.removesuffix("[]").removesuffix("{}"))
        if part.endswith(("[]", "{}")):
            steps.append(_ENTRY if part.endswith("[]") else _KEY)
    return tuple(steps)


def _meets(steps: Steps, pattern: Steps) -> bool:
    """Whether one is on, above or below the other."""
    return all(there in (_ENTRY, _KEY, here) for here, there in zip(steps, pattern, strict=False))


def _value(steps: Steps, value: Any, path: str, parsed: ParsedRequest) -> Any:
    """Return a value as it is on the host."""
    if steps in _MAPS:
        keys = value if isinstance(value, dict) else ()
        if parsed.info.gvk.group_kind == kinds.NAMESPACE or any(map(domain.is_ours, keys)):
            raise parsed.invalid(path, "has keys that are set for the virtual cluster")
    if steps[:1] == ("status",) or (
        steps[:1] == ("metadata",) and len(steps) > 1 and steps[:2] not in _MAPS
    ):
        return value  # translate() takes it off; the host decides
    where = [_is_index(steps, at, path, parsed) for at in range(len(steps))]
    alone = value
    for step, is_index in reversed(list(zip(steps, where, strict=True))):
        alone = [alone] if is_index else {step: alone}
    if not isinstance(alone, dict):
        raise parsed.invalid(path, "is not a map")
    obj = bodies.translated_part(alone, parsed)
    mapped, is_alone = _read(obj, steps, where)
    if mapped is _ABSENT or (mapped != value and not is_alone):
        raise parsed.invalid(path, "cannot be set here; use a merge patch")
    return mapped


def _is_index(steps: Steps, at: int, path: str, parsed: ParsedRequest) -> bool:
    """Whether a step is the index of a list; a number may be the key of a map.

    Raises RefusalError for a number that an API server, and no rule, takes for an index.
    """
    is_index = _INDEX.fullmatch(steps[at]) is not None
    is_odd = not is_index and _NUMBER.fullmatch(steps[at]) is not None
    if not (is_index or is_odd) or steps[:at] in _MAPS:
        return False
    if any(
        len(pattern) > at and pattern[at] == _KEY and _meets(steps[:at], pattern[:at])
        for pattern in _patterns(parsed)
    ):
        return False
    if is_odd:
        raise parsed.invalid(path, f'"{steps[at]}" is no index; count from 0')
    return True


def _patterns(parsed: ParsedRequest) -> Iterator[Steps]:
    for row in parsed.reference_rows():
        yield _steps_of(row.path)
    for template in _templates(parsed):
        yield _steps_of(template)


def _read(obj: Any, steps: Steps, where: list[bool]) -> tuple[Any, bool]:
    """Return what is at a place, and whether no list on the way got further entries."""
    is_alone = True
    for step, is_index in zip(steps, where, strict=True):
        if is_index:
            if not isinstance(obj, list) or not obj:
                return _ABSENT, False
            is_alone = is_alone and len(obj) == 1
            obj = obj[0]
        elif isinstance(obj, dict) and step in obj:
            obj = obj[step]
        else:
            return _ABSENT, False
    return obj, is_alone


APPLY = "application/apply-patch+yaml"
"""Clients of Kubernetes send JSON, which is YAML."""
JSON_PATCH = "application/json-patch+json"
MERGE = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
OF_THE_KIND = frozenset({"", "status", "ephemeralcontainers", "resize"})
"""Subresources whose body is an object of the kind; others have kinds of their own."""


def body_for(parsed: ParsedRequest) -> tuple[bytes, str]:
    """Return the body for the host and its Content-Type. Raises RefusalError."""
    body, content_type = parsed.request.body, parsed.request.content_type
    if parsed.verb in ("delete", "deletecollection"):
        return delete_options(body, content_type)
    if parsed.verb == "patch":
        kind = request_syntax.media_type_of(content_type)
        return bodies.encode(_patched(kind, body, parsed)), kind
    sent = bodies.as_object(bodies.decode(body, content_type))
    subresource = parsed.path.subresource
    if subresource == "binding":
        node = dig(sent, "target", "name")
        if not isinstance(node, str) or not parsed.view.context().owns_node(node):
            raise parsed.refuse(f'node "{node}" is not in the virtual cluster')
    if subresource in OF_THE_KIND:
        written = bodies.whole(sent, parsed, is_update=parsed.verb == "update")
    else:
        written = bodies.in_namespace_only(sent, parsed)
    return bodies.encode(written), refusals.JSON


def delete_options(body: bytes, content_type: str) -> tuple[bytes, str]:
    """Return the DeleteOptions of a deletion; they name nothing. Raises RefusalError."""
    if not body:
        return b"", ""
    return bodies.encode(bodies.decode(body, content_type)), refusals.JSON


def _patched(kind: str, body: bytes, parsed: ParsedRequest) -> Any:
    """Return a decoded patch for the host. Raises RefusalError."""
    is_of_kind = parsed.path.subresource in OF_THE_KIND
    if kind == JSON_PATCH:
        operations = bodies.decode_json(body)
        if is_of_kind:
            return json_patch(operations, parsed)
        for operation in operations if isinstance(operations, list) else ():
            path = dig(operation, "path")
            # Of the identity; the rest of a Scale or so names nothing.
            if not isinstance(path, str) or not path.startswith(("/spec", "/status")):
                raise parsed.invalid(str(path), "must not be patched")
        return operations
    if kind not in MERGE and kind != APPLY:
        raise refusals.unsupported_body()
    sent = bodies.as_object(bodies.decode_json(body))
    if not is_of_kind:
        return bodies.in_namespace_only(sent, parsed)
    if kind == APPLY and not parsed.path.subresource:
        return bodies.whole(sent, parsed, is_update=True)
    return bodies.part(sent, parsed)
