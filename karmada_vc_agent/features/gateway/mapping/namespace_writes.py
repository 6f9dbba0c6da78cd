"""Writes of Namespaces: creation is a claim, changes keep it (5.3).

The host lets tenants write no Namespace, since for RBAC a Namespace is in itself: who may patch
it *in* a namespace may move its claim. So the gateway writes, and asks for a right on a resource
that only it knows: `namespaces` of our own API group, in the anchor. What tenants may change of a
Namespace is in translation/own_steps.py; all else stays as it is. The policy
`gateway-confines` judges each write a second time.
"""

from typing import Any

from karmada_vc_agent.config.virtual_cluster_problems import DNS_LABEL
from karmada_vc_agent.features.gateway.mapping import bodies, patches, refusals
from karmada_vc_agent.features.gateway.mapping.cluster_view import ParsedRequest
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes
from karmada_vc_agent.model import domain
from karmada_vc_agent.model.kinds import NAMESPACE_NAME_LABEL
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation import own_steps
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.translation.translate import claimed_namespace

IMMORTAL = "default"
"""Kubernetes deletes it never, and neither does a virtual cluster."""
_MAPS = ("labels", "annotations")
_OF_ITS_END = ("finalizers", "ownerReferences")
"""What would keep a namespace on the host that its virtual cluster, or the agent, deleted."""
_KEPT = (*_OF_ITS_END, "managedFields")
"""What writes leave as the host has it."""
_DIRECTIVES = "$"
_NAME_MAX_LENGTH = 63


Written = tuple[Any, tuple[str, ...]]
"""What a write becomes, an object or a JSON patch, and warnings for the client."""


def right(verb: str, name: str) -> Attributes:
    """Return the right that a client needs to write a Namespace."""
    return Attributes(verb, domain.DOMAIN, "v1alpha1", "namespaces", name=name)


def name_of(body: Object, parsed: ParsedRequest) -> str:
    """Return the virtual name of a Namespace that is created; a generated one is made.

    Raises RefusalError.
    """
    metadata = dig(body, "metadata")
    name, prefix = (dig(metadata, each) for each in ("name", "generateName"))
    if parsed.name:
        _check_name(body, parsed)
        name = parsed.name
    elif not (isinstance(name, str) and name):
        if not (isinstance(prefix, str) and prefix):
            detail = "Required value: name or generateName is required"
            raise refusals.invalid(parsed.info, "", "metadata.name", detail, "FieldValueRequired")
        suffix = parsed.view.suffix()
        name = prefix[: _NAME_MAX_LENGTH - len(suffix)] + suffix
    if not DNS_LABEL.fullmatch(name):
        detail = "must be a DNS label: a-z, 0-9 and -, up to 63 characters"
        detail = f'Invalid value: "{name}": {detail}'
        raise refusals.invalid(parsed.info, name, "metadata.name", detail)
    return name


def created(body: Object, parsed: ParsedRequest) -> Written:
    """Return the claimed host Namespace. parsed: with the name. Raises RefusalError."""
    context = parsed.view.context()
    if parsed.name in context.vc.adopt_namespaces:
        raise parsed.refuse("an administrator of the host lets the virtual cluster adopt it")
    if 0 < context.vc.bounds.works <= len(context.claims):
        most = context.vc.bounds.works
        raise parsed.refuse(f"the virtual cluster may have {most} namespaces (bounds.works)")
    _refuse_its_end(body, {}, parsed)
    named = {**body, "metadata": {**(dig(body, "metadata") or {}), "name": parsed.name}}
    written = _without_ends(bodies.whole(named, parsed))
    pairs, dropped = _tenants(body, {}, parsed)
    marks = _marks(parsed)["metadata"]
    written["metadata"]["name"] = marks["name"]
    for each in _MAPS:
        written["metadata"][each] = {**pairs[each], **marks[each]}
    return written, dropped


def replaced(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    """Return the host Namespace with what is not the tenant's as it is. Raises RefusalError."""
    _check_name(body, parsed)
    _refuse_its_end(body, live, parsed)
    written = _without_ends(bodies.whole(body, parsed, is_update=True))
    metadata = written["metadata"]
    pairs, dropped = _tenants(body, live, parsed)
    for each in _MAPS:
        there: Object = dig(live, "metadata", each) or {}
        kept = {key: value for key, value in there.items() if not _is_tenants(key, parsed)}
        _put(metadata, each, pairs[each] | kept)
    for each in _OF_ITS_END:
        if live_value := dig(live, "metadata", each):
            metadata[each] = live_value
    return written, dropped


def patched(live: Object, parsed: ParsedRequest, kind: str) -> Written:
    """Return a patch of what is the tenant's. kind: its media type. Raises RefusalError."""
    content = parsed.request.body
    if kind == patches.JSON_PATCH:
        return _json_patched(bodies.decode_json(content), parsed), ()
    if kind not in patches.MERGE and kind != patches.APPLY:
        raise refusals.unsupported_body()
    changed = _applied if kind == patches.APPLY else _merged
    return changed(bodies.as_object(bodies.decode_json(content)), live, parsed)


def _merged(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    _check_name(body, parsed)
    _refuse_directives(body, parsed)
    _refuse_its_end(body, live, parsed)
    written = _without_ends(bodies.part(body, parsed))
    pairs, dropped = _tenants(body, live, parsed)
    metadata = written.get("metadata") or {}
    for each in _MAPS:
        _put(metadata, each, pairs[each])
    if metadata:
        written["metadata"] = metadata
    else:
        written.pop("metadata", None)
    return written, dropped


def _applied(body: Object, live: Object, parsed: ParsedRequest) -> Written:
    """Return a server-side apply to a Namespace that is there.

    It has the marks, too: what a manager applied before and leaves out now is removed.
    """
    written, dropped = _merged(body, live, parsed)
    marks = _marks(parsed)["metadata"]
    metadata = written.setdefault("metadata", {})
    for each in _MAPS:
        there = dig(live, "metadata", each) or {}
        kept = {key: there[key] for key in marks[each] if key in there}
        metadata[each] = {**metadata.get(each, {}), **kept}
    return written, dropped


def _json_patched(operations: Any, parsed: ParsedRequest) -> list[Object]:
    patch = patches.json_patch(operations, parsed)
    for operation in patch:
        if operation["op"] != "test":
            path = operation["path"]
            if not _may_patch(patches.steps_in(path), parsed):
                raise parsed.invalid(path, "is not for tenants")
    return patch


def kept_because(live: Object, name: str) -> str:
    """Return why a Namespace is not for tenants to delete, "" if it is."""
    if name == IMMORTAL:
        return "this namespace may not be deleted"
    marks = annotations_of(live)
    if not is_made_by_agent(live):
        return "it was there before the virtual cluster adopted it"
    if marks.get(domain.WORK_ANNOTATION):
        return "Karmada propagates it, and would create it again; delete it there"
    if domain.HOLD_ANNOTATION in marks:
        return "an administrator of the host holds it"
    return ""


def _marks(parsed: ParsedRequest) -> Object:
    """Return the host Namespace with nothing but what makes it one of the virtual cluster."""
    context = parsed.view.context()
    marks = claimed_namespace(context.vc, VirtualNamespace(parsed.name), context.settings)
    marks["metadata"]["annotations"][domain.BY_GATEWAY_ANNOTATION] = "true"
    return marks


# --- what is the tenant's -------------------------------------------------------------------


def _is_tenants(key: str, parsed: ParsedRequest) -> bool:
    settings = parsed.view.context().settings
    patterns = own_steps.tenants_patterns(settings.tenancy, settings.namespace_keys)
    return own_steps.is_tenants(key, patterns)


def _tenants(
    body: Object, live: Object, parsed: ParsedRequest
) -> tuple[dict[str, Object], tuple[str, ...]]:
    """Return what a client may change of labels and annotations, and the warning about others."""
    kept: dict[str, Object] = {}
    dropped: set[str] = set()
    for each in _MAPS:
        there, kept[each] = dig(live, "metadata", each) or {}, {}
        sent = dig(body, "metadata", each)
        for key, value in (sent if isinstance(sent, dict) else {}).items():
            if _is_tenants(key, parsed):
                kept[each][key] = value
            elif not (
                key == NAMESPACE_NAME_LABEL or domain.is_ours(key) or there.get(key) == value
            ):
                dropped.add(key)
    names = ", ".join(sorted(dropped))
    warning = f"labels and annotations that the site decides are left as they are: {names}"
    return kept, (warning,) if dropped else ()


def _put(obj: Object, key: str, value: Object) -> None:
    """Set a map, or remove it where it would be empty."""
    obj.pop(key, None)
    if value:
        obj[key] = value


def _may_patch(steps: patches.Steps, parsed: ParsedRequest) -> bool:
    if steps[:1] != ("metadata",):
        return steps[:1] not in (("spec",), ("status",))
    if len(steps) > 1 and steps[1] in _KEPT:
        return False
    is_key = len(steps) > 2 and steps[1] in _MAPS
    return not is_key or _is_tenants(steps[2], parsed)


# --- what is refused ------------------------------------------------------------------------


def _check_name(body: Object, parsed: ParsedRequest) -> None:
    name = dig(body, "metadata", "name")
    if name and name != parsed.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({parsed.name})"
        raise refusals.bad_request(text)


def _refuse_its_end(body: Object, live: Object, parsed: ParsedRequest) -> None:
    """Refuse finalizers and owners: who deletes a namespace must see it go."""
    metadata = dig(body, "metadata")
    for each in _OF_ITS_END:
        is_there = isinstance(metadata, dict) and each in metadata
        if is_there and (metadata[each] or []) != (dig(live, "metadata", each) or []):
            raise parsed.refuse(f"metadata.{each} of a namespace is not for tenants")
    if dig(body, "spec", "finalizers") not in (None, [], ["kubernetes"]):
        raise parsed.refuse("spec.finalizers of a namespace is not for tenants")


def _without_ends(obj: Object) -> Object:
    """Take off what the host sets by itself, and keeps whatever a client sends."""
    kept = {key: value for key, value in obj.items() if key not in ("spec", "status")}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {k: v for k, v in metadata.items() if k not in _KEPT}
    return kept


def _refuse_directives(body: Object, parsed: ParsedRequest) -> None:
    """Refuse a patch that replaces, or removes, more than single keys."""
    metadata = body.get("metadata")
    maps = {f"metadata.{each}": dig(metadata, each) for each in _MAPS}
    for where, value in {"": body, "metadata": metadata, **maps}.items():
        if isinstance(value, dict) and any(str(key).startswith(_DIRECTIVES) for key in value):
            raise parsed.invalid(where, "must not be replaced as a whole by a patch")
    for each in _MAPS:
        if isinstance(metadata, dict) and metadata.get(each, {}) is None:
            raise parsed.invalid(f"metadata.{each}", "must not be removed")
