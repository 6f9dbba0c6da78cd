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
from karmada_vc_agent.translation.context import NAMES_ANNOTATION
from karmada_vc_agent.translation.kind_policy import Refusal, Treatment, pod_specs
from karmada_vc_agent.translation.translate import HostObject, translate

_PLACEHOLDER = "x"
"""Ends a generated name; rules treat it as a final one."""
_OF_THE_SERVER = (
    *("uid", "resourceVersion", "generation", "managedFields", "ownerReferences"),
    *("finalizers", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("selfLink", "generateName"),
)
"""Fields of metadata that clients send back as they read them."""
_MAPS = ("labels", "annotations")
_DIRECTIVE, _DELETE, _RETAIN = "$patch", "delete", "$retainKeys"
_SECRET = GroupVersionKind("", "v1", "Secret")
_NODE_SELECTOR, _NODE_NAME = "nodeSelector", "nodeName"


# --- reading and writing ----------------------------------------------------------------


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


# --- whole objects ----------------------------------------------------------------------


def whole(body: Object, parsed: ParsedRequest, *, is_update: bool = False) -> Object:
    """Return the host object for a created, replaced or applied one.

    is_update: the object exists, so what its controllers set is kept. Raises RefusalError.
    """
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


# --- parts of objects -------------------------------------------------------------------


def part(body: Object, parsed: ParsedRequest) -> Object:
    """Return the merge or strategic merge patch for the host.

    A value that is null deletes, and passes. Raises RefusalError.
    """
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
    """Take off, in place, what was added to a pod spec but for its placement.

    Lists of a patch replace those that are there: tolerations, search domains.
    """
    placed = {_NODE_SELECTOR, "affinity"} if _NODE_NAME in had else {_NODE_SELECTOR}
    for key in spec.keys() - had - placed:
        del spec[key]


def _pod_specs(obj: Object, parsed: ParsedRequest) -> Any:
    return pod_specs(obj, parsed.info.gvk, parsed.view.context().settings.pod_templates)


def _without_nulls(manifest: Object) -> tuple[Object, dict[str, Object]]:
    """Return a manifest without what it deletes of labels and annotations, and that."""
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


OPERATION_STEPS_MAX = 100
_INDEX = re.compile(r"[+-]?[0-9]+|-")
_MAP_STEPS = (["metadata", "labels"], ["metadata", "annotations"])


def _as_merge_patch(operations: Any, parsed: ParsedRequest) -> Object:
    """Return a JSON patch as the merge patch that does the same, so that its rules hold.

    Raises RefusalError: 400; 422 for what no merge patch says, such as parts of lists, or `test`.
    """
    merged: Object = {}
    listed: list[Any] = operations if isinstance(operations, list) else [None]
    for operation in listed:
        kind, path = dig(operation, "op"), dig(operation, "path")
        if not isinstance(path, str) or not 0 < path.count("/") < OPERATION_STEPS_MAX:
            raise refusals.bad_request("the body is not a list of JSON patch operations")
        *steps, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
        value = None if kind == "remove" else operation.get("value")
        has_index = steps not in _MAP_STEPS and any(map(_INDEX.fullmatch, (*steps, last)))
        if kind not in ("add", "replace", "remove") or isinstance(value, dict) or has_index:
            detail = "this operation is not supported; use a merge patch or a strategic one"
            raise parsed.invalid(path, detail)
        inner: Any = merged
        for step in steps:
            inner = inner.setdefault(step, {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            raise parsed.invalid(path, "is below what another operation sets")
        inner[last] = value
    return merged


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


def decoded_patch(parsed: ParsedRequest) -> tuple[str, Object]:
    """Return the media type of a patch for the host, and what it says. Raises RefusalError."""
    kind = cluster_view.media_type_of(parsed.request.content_type)
    if kind not in (*MERGE, APPLY, JSON_PATCH):
        raise refusals.unsupported_body()
    sent = decode_json(parsed.request.body)
    if kind == JSON_PATCH:
        return MERGE[0], _as_merge_patch(sent, parsed)
    return kind, as_object(sent)


def _patched(kind: str, sent: Object, parsed: ParsedRequest) -> Object:
    """Return a decoded patch for the host. Raises RefusalError."""
    if parsed.path.subresource not in OF_THE_KIND:
        return in_namespace_only(sent, parsed)
    if kind == APPLY and not parsed.path.subresource:
        return whole(sent, parsed, is_update=True)
    return part(sent, parsed)
