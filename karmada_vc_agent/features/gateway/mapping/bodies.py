"""Bodies of writes: decoded, translated as a Work's manifest is, encoded (G-31, G-32)."""

import re
from dataclasses import replace
from typing import Any

import orjson

from karmada_vc_agent.features.gateway.mapping import cluster_view, decoding, refusals
from karmada_vc_agent.features.gateway.mapping.cluster_view import ParsedRequest
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    gvk_of,
)
from karmada_vc_agent.model.vocabulary import SELECTED_NODE_ANNOTATION, SERVICE_ACCOUNT_TOKEN
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import NAMES_ANNOTATION
from karmada_vc_agent.translation.kind_policy import Refusal, Treatment, pod_specs
from karmada_vc_agent.translation.translate import HostObject, translate

_PLACEHOLDER = "x"
"""Ends a generated name; rules treat it as a final one."""
_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generateName",
)
"""Fields of metadata that clients send back as they read them."""
_MAPS = ("labels", "annotations")
_DIRECTIVE, _DELETE, _RETAIN = "$patch", "delete", "$retainKeys"
_SECRET = GroupVersionKind("", "v1", "Secret")
_NODE_SELECTOR, _NODE_NAME = "nodeSelector", "nodeName"


def decode(body: bytes, content_type: str) -> Any:
    """Return the value of a body in JSON or protobuf. Raises RefusalError: 400, 415."""
    name = cluster_view.media_type_of(content_type)
    if name == refusals.PROTOBUF:
        return decoding.decode_protobuf(body)
    if name not in (refusals.JSON, ""):
        raise refusals.unsupported_body()
    return decode_json(body)


def decode_json(body: bytes) -> Any:
    """Return the value of a JSON body. Raises RefusalError: 400."""
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise refusals.bad_request(f"the body is not valid JSON: {error}") from error


def as_object(value: Any) -> Object:
    """Return a decoded body that is a map. Raises RefusalError: 400."""
    if not isinstance(value, dict):
        raise refusals.bad_request("the body is not an object")
    return value


def encode(value: Any) -> bytes:
    """Return a body as JSON. Raises RefusalError: 400 for what can be read, but nests too deep."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise refusals.bad_request(f"the body cannot be sent on: {error}") from error


def whole(body: Object, parsed: ParsedRequest, *, is_update: bool = False) -> Object:
    """Return the host object; an update keeps what controllers set. Raises RefusalError."""
    manifest = _manifest(body, parsed)
    spec = manifest.get("spec")
    node = None
    if is_update and parsed.info.plural == "pods" and isinstance(spec, dict):
        node = _own_node(spec.get(_NODE_NAME), parsed)
        if node is not None:
            manifest["spec"] = {key: value for key, value in spec.items() if key != _NODE_NAME}
    obj = _translated(manifest, parsed)
    if node is not None:
        obj["spec"][_NODE_NAME] = node
    metadata, sent = obj["metadata"], _put_back(body, obj)
    if not parsed.name and not sent.get("name"):
        metadata.pop("name", None)
    selected = _own_node(annotations_of(body).get(SELECTED_NODE_ANNOTATION), parsed)
    if is_update and selected is not None:
        metadata.setdefault("annotations", {})[SELECTED_NODE_ANNOTATION] = selected
    return obj


def _put_back(body: Object, obj: Object) -> Object:
    """Put back, in place, what clients send as they read it; return the metadata as sent."""
    sent = _map(body, "metadata")
    obj["metadata"].update({key: sent[key] for key in _OF_THE_SERVER if key in sent})
    if "status" in body:
        obj["status"] = body["status"]
    return sent


def _own_node(name: Any, parsed: ParsedRequest) -> str | None:
    """Return a node that was read and is written back; None for others: applying may create."""
    return name if isinstance(name, str) and parsed.view.context().owns_node(name) else None


def _manifest(body: Object, parsed: ParsedRequest) -> Object:
    """Return a body as a manifest, whatever the host would fill in; shares parts of it."""
    _check_kind(body, parsed)
    if parsed.info.gvk == _SECRET and body.get("type") == SERVICE_ACCOUNT_TOKEN:
        raise parsed.refuse(refusals.HOSTS_CREDENTIALS)
    metadata = dict(_map(body, "metadata"))
    _check_namespace(metadata, parsed)
    if parsed.info.namespaced:
        metadata["namespace"] = parsed.namespace
    if not metadata.get("name"):
        generated = metadata.get("generateName")
        prefix = generated if isinstance(generated, str) else ""
        metadata["name"] = parsed.name or prefix + _PLACEHOLDER
    return {
        **body,
        "apiVersion": parsed.info.gvk.api_version,
        "kind": parsed.info.gvk.kind,
        "metadata": metadata,
    }


def _check_kind(body: Object, parsed: ParsedRequest) -> None:
    """Refuse another kind than that of the path: rules go by the kind. Raises RefusalError: 400."""
    sent, expected = gvk_of(body), parsed.info.gvk
    if body.get("kind") and sent.kind != expected.kind:
        text = f"{sent.kind} in the data does not match the expected kind {expected.kind}"
        raise refusals.bad_request(text)
    if body.get("apiVersion") and sent.api_version != expected.api_version:
        raise refusals.bad_request(
            f"the API version in the data ({sent.api_version}) does not match the expected API "
            f"version ({expected.api_version})"
        )


def _check_namespace(metadata: Object, parsed: ParsedRequest) -> None:
    sent = metadata.get("namespace")
    if parsed.info.namespaced and sent and sent != parsed.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _translated(manifest: Object, parsed: ParsedRequest) -> Object:
    """Return what translate() makes of a manifest. Raises RefusalError where it refuses."""
    context = replace(parsed.view.context(), work=_work_of(manifest, parsed.view.name))
    result = translate(manifest, parsed.info.namespaced, context)
    if isinstance(result, Refusal):
        name = str(dig(manifest, "metadata", "name"))
        raise refusals.refused_object(result, parsed.view.name, parsed.info, parsed.namespace, name)
    if not isinstance(result, HostObject):
        raise refusals.forbidden_resource(parsed.info, "", "it cannot be written here")
    obj = result.obj
    if parsed.info.namespaced:
        obj["metadata"]["namespace"] = parsed.host_namespace
    return obj


def _work_of(manifest: Object, cluster: str) -> str:
    """Return the Work that an object is of, as reads show it; only those of the same cluster."""
    annotations = annotations_of(manifest)
    namespace = annotations.get(vocabulary.WORK_NAMESPACE_ANNOTATION)
    name = annotations.get(vocabulary.WORK_NAME_ANNOTATION)
    if (
        namespace != vocabulary.execution_namespace(cluster)
        or not isinstance(name, str)
        or not name
    ):
        return ""
    return f"{namespace}/{name}"


def part(body: Object, parsed: ParsedRequest) -> Object:
    """Return the patch for the host; null deletes, and passes. Raises RefusalError."""
    _refuse_parts_of_destinations(body, parsed)
    manifest, nulls = _without_nulls(_manifest(body, parsed))
    had = {spec.path: frozenset(spec.spec) for spec in _pod_specs(manifest, parsed)}
    obj = _translated(manifest, parsed)
    for spec in _pod_specs(obj, parsed):
        _keep_touched(spec.spec, had.get(spec.path, frozenset()))
    _take_marks_off(obj, nulls)
    metadata, sent = obj["metadata"], _put_back(body, obj)
    for key in ("name", "namespace"):
        if key not in sent:
            metadata.pop(key, None)
    for key in ("apiVersion", "kind", "metadata"):
        if key not in body and (key != "metadata" or not metadata):
            obj.pop(key, None)
    _refuse_directives(obj, parsed)
    return obj


def _refuse_parts_of_destinations(body: Object, parsed: ParsedRequest) -> None:
    """Refuse to move a destination whose namespace was not mapped, as it was another cluster's."""
    for row in parsed.reference_rows():
        if row.treatment is not Treatment.DESTINATION:
            continue
        destination = dig(body, *row.path.split("."))
        if isinstance(destination, dict) and destination and "namespace" not in destination:
            detail = "must have the namespace, too: what it means depends on the cluster"
            raise parsed.invalid(row.path, detail)


def _keep_touched(spec: Object, had: frozenset[str]) -> None:
    """Take additions off a pod spec but for placement: lists of a patch replace lists there."""
    placed = {_NODE_SELECTOR, "affinity"} if _NODE_NAME in had else {_NODE_SELECTOR}
    for key in spec.keys() - had - placed:
        del spec[key]


def _pod_specs(obj: Object, parsed: ParsedRequest) -> Any:
    return pod_specs(obj, parsed.info.gvk, parsed.view.context().settings.pod_templates)


def _without_nulls(manifest: Object) -> tuple[Object, dict[str, Object]]:
    metadata: Object = dict(manifest["metadata"])
    nulls: dict[str, Object] = {}
    for field in _MAPS:
        pairs = metadata.get(field)
        if isinstance(pairs, dict):
            metadata[field] = {key: value for key, value in pairs.items() if value is not None}
            nulls[field] = {
                key: None
                for key, value in pairs.items()
                if value is None and not vocabulary.is_ours(key)
            }
    return {**manifest, "metadata": metadata}, nulls


def _take_marks_off(obj: Object, nulls: dict[str, Object]) -> None:
    """Remove our marks from a patch, unless it replaces all labels; put what it deletes back."""
    metadata = obj["metadata"]
    for field in _MAPS:
        pairs = metadata.get(field) or {}
        if _DIRECTIVE not in pairs:
            pairs = {key: value for key, value in pairs.items() if _stays(key)}
        pairs |= nulls.get(field, {})
        metadata.pop(field, None)
        if pairs:
            metadata[field] = pairs


def _stays(key: str) -> bool:
    is_tenants = key in (vocabulary.REWRITE_DNS_ANNOTATION, NAMES_ANNOTATION)
    return is_tenants or not (vocabulary.is_ours(key) or key == vocabulary.NODE_SELECTOR_ANNOTATION)


def _refuse_directives(obj: Object, parsed: ParsedRequest) -> None:
    """Refuse directives of a strategic merge patch that would drop what was added (G-32)."""
    required = parsed.view.context().vc.required_selector
    left: list[Any] = [obj]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            removes = value.get(_DIRECTIVE) == _DELETE or _RETAIN in value
            if removes and any(vocabulary.is_ours(key) or key in required for key in value):
                detail = "what is set for the virtual cluster must not be deleted or restricted"
                raise parsed.invalid(_DIRECTIVE, detail)
            value = value.values()
        left += [inner for inner in value if isinstance(inner, (dict, list))]


def _map(obj: Object, key: str) -> Object:
    """Return a map of a body for reading. Raises RefusalError: 400."""
    value = obj.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusals.bad_request(f"{key} is not a map")
    return value


def in_namespace_only(body: Object, parsed: ParsedRequest) -> Object:
    """Return the body of a subresource with a kind of its own, such as Scale or Eviction."""
    metadata = dict(_map(body, "metadata"))
    _check_namespace(metadata, parsed)
    if metadata.get("namespace"):
        metadata["namespace"] = parsed.host_namespace
    mapped: Object = copy_object({**body, "metadata": metadata}) if metadata else dict(body)
    return mapped


OPERATIONS_MAX, OPERATION_STEPS_MAX = 500, 100
"""Of one patch, each of whose values may be translated by itself; of one path."""
_NUMBER = re.compile(r"[+-]?[0-9]+|-")
"""What an API server takes for an index: -1 is the last entry, +0 and 00 the first one."""
_INDEX = re.compile(r"0|[1-9][0-9]*|-")
_MAP_STEPS = (["metadata", "labels"], ["metadata", "annotations"])
_PLACEMENT = ("nodeSelector", "affinity", "nodeName")
_RBAC_ENTRIES = ("rules", "subjects", "roleRef")
"""Fields of RBAC whose entries have a meaning only as a whole."""


def _json_patch(sent: Any, parsed: ParsedRequest) -> tuple[str, Any]:
    """Return a JSON patch as merge patch or operations. Raises RefusalError: 400, 422."""
    operations: list[Any] = sent if isinstance(sent, list) else [None]
    for operation in operations:
        path = dig(operation, "path")
        is_path = isinstance(path, str) and path.startswith("/")
        if not is_path or path.count("/") >= OPERATION_STEPS_MAX:
            raise refusals.bad_request("the body is not a list of JSON patch operations")
    if len(operations) > OPERATIONS_MAX:
        raise refusals.bad_request(f"a JSON patch has at most {OPERATIONS_MAX} operations here")
    if (merged := _as_merge_patch(operations)) is not None:
        return MERGE[0], merged
    return JSON_PATCH, [_operation(operation, parsed) for operation in operations]


def _steps(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _as_merge_patch(operations: list[Object]) -> Object | None:
    """Return the merge patch; None: none says it, as of entries of lists, or `test`."""
    merged: Object = {}
    for operation in operations:
        kind, steps = operation.get("op"), _steps(operation["path"])
        value = None if kind == "remove" else operation.get("value")
        has_index = steps[:-1] not in _MAP_STEPS and any(map(_NUMBER.fullmatch, steps))
        if kind not in ("add", "replace", "remove") or isinstance(value, dict) or has_index:
            return None
        inner: Any = merged
        for step in steps[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            return None
        inner[steps[-1]] = value
    return merged


def _operation(operation: Object, parsed: ParsedRequest) -> Object:
    kind, path = operation.get("op"), operation["path"]
    steps, patched = _steps(path), {"op": kind, "path": path}
    if kind not in ("add", "replace", "remove", "test"):
        raise parsed.invalid(path, "this operation is not supported; use a merge patch")
    if parsed.path.subresource not in OF_THE_KIND:  # a Scale or so names nothing but itself
        if steps[0] not in ("spec", "status"):
            raise parsed.invalid(path, "must not be patched")
        return patched if kind == "remove" else {**patched, "value": operation.get("value")}
    indices = [
        steps[:at] not in _MAP_STEPS and _NUMBER.fullmatch(step) is not None
        for at, step in enumerate(steps)
    ]
    _refuse_protected(steps, indices, path, parsed)
    if kind == "remove":
        return patched
    value = operation.get("value")
    if steps[0] != "status" and (steps[0] != "metadata" or steps[:2] in _MAP_STEPS):
        mapped: Any = value
        for step, is_index in reversed(list(zip(steps, indices, strict=True))):
            mapped = [mapped] if is_index else {step: mapped}
        mapped = _translated(_manifest(copy_object(mapped), parsed), parsed)
        is_alone = True  # no list on the way has entries that one value cannot stand for
        for step, is_index in zip(steps, indices, strict=True):
            is_alone = is_alone and not (is_index and len(mapped or ()) != 1)
            mapped = (mapped or [None])[0] if is_index else dig(mapped, step)
        if mapped is None or not (is_alone or mapped == value):
            raise parsed.invalid(path, "means something else on the host; use a merge patch")
        value = mapped
    return {**patched, "value": value}


def _refuse_protected(
    steps: list[str], indices: list[bool], path: str, parsed: ParsedRequest
) -> None:
    """Refuse what identifies or places an object, and parts that mean nothing alone."""
    settings, kind = parsed.view.context().settings, parsed.info.gvk.group_kind
    configured = [row for row in settings.pod_templates if (row.group, row.kind) == kind]
    rows = (*kind_policy.POD_TEMPLATES.get(kind, ()), *configured)
    templates = [path for row in rows for path in row.paths]
    identity = ("apiVersion", "kind", "metadata.name", "metadata.namespace")
    fixed = [*identity, *(f"{each}.{field}" for each in templates for field in _PLACEMENT)]
    references = [row.path for row in parsed.reference_rows()]
    is_part = kind.group == vocabulary.ROLE.group and steps[0] in _RBAC_ENTRIES and len(steps) > 2
    is_odd = any(
        is_index and not _INDEX.fullmatch(step)
        for step, is_index in zip(steps, indices, strict=True)
    )
    if (
        (is_part or is_odd or kind == vocabulary.NAMESPACE)
        or any(not _stays(step) for step in steps)
        or any(_meets(steps, indices, each, is_above=True) for each in fixed)
        or any(_meets(steps, indices, each, is_above=False) for each in references)
    ):
        raise parsed.invalid(path, "is set for the virtual cluster, or not to be set alone")


def _meets(steps: list[str], indices: list[bool], table_path: str, *, is_above: bool) -> bool:
    """Whether steps lead to a path of a table, below or, too, above it, or into a map by number."""
    pattern = table_path.replace("[]", ".[]").replace("{}", ".{}").split(".")
    pairs = list(zip(steps, indices, pattern, strict=False))
    is_same = all(there in ("[]", "{}", step) for step, _, there in pairs)
    is_number = any(is_index and there == "{}" for _, is_index, there in pairs)
    return is_same and (is_above or is_number or len(steps) >= len(pattern))


APPLY = "application/apply-patch+yaml"
"""Clients of Kubernetes send JSON, which is YAML."""
JSON_PATCH = "application/json-patch+json"
MERGE = ("application/merge-patch+json", "application/strategic-merge-patch+json")
OF_THE_KIND = frozenset({"", "status", "ephemeralcontainers", "resize"})
"""Subresources whose body is an object of the kind; others have kinds of their own."""


def body_for(parsed: ParsedRequest) -> tuple[bytes, str]:
    """Return the body for the host and its Content-Type. Raises RefusalError."""
    body, content_type = parsed.request.body, parsed.request.content_type
    if parsed.verb in ("delete", "deletecollection"):
        return delete_options(body, content_type)
    if parsed.verb == "patch":
        kind, sent = decoded_patch(parsed)
        return encode(_patched(kind, sent, parsed)), kind
    sent = as_object(decode(body, content_type))
    subresource = parsed.path.subresource
    if subresource == "binding":
        node = dig(sent, "target", "name")
        if not isinstance(node, str) or not parsed.view.context().owns_node(node):
            raise parsed.refuse(f'node "{node}" is not in the virtual cluster')
    if subresource in OF_THE_KIND:
        written = whole(sent, parsed, is_update=parsed.verb == "update")
    else:
        written = in_namespace_only(sent, parsed)
    return encode(written), refusals.JSON


def delete_options(body: bytes, content_type: str) -> tuple[bytes, str]:
    """Return the DeleteOptions of a deletion; they name nothing. Raises RefusalError."""
    if not body:
        return b"", ""
    return encode(decode(body, content_type)), refusals.JSON


def decoded_patch(parsed: ParsedRequest) -> tuple[str, Any]:
    """Return the media type of a patch for the host, and what it says. Raises RefusalError."""
    kind = cluster_view.media_type_of(parsed.request.content_type)
    if kind not in (*MERGE, APPLY, JSON_PATCH):
        raise refusals.unsupported_body()
    sent = decode_json(parsed.request.body)
    if kind == JSON_PATCH:
        return _json_patch(sent, parsed)
    return kind, as_object(sent)


def _patched(kind: str, sent: Any, parsed: ParsedRequest) -> Any:
    """Return a decoded patch for the host. Raises RefusalError."""
    if kind == JSON_PATCH:
        return sent
    if parsed.path.subresource not in OF_THE_KIND:
        return in_namespace_only(sent, parsed)
    if kind == APPLY and not parsed.path.subresource:
        return whole(sent, parsed, is_update=True)
    return part(sent, parsed)
