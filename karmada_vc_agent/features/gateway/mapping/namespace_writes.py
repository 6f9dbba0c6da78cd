"""Writes of Namespaces: creation is a claim, changes keep it (5.3).

The host lets tenants write no Namespace, since for RBAC a Namespace is in itself: who may patch
it *in* a namespace may move its claim. So the gateway writes, and asks for a right on a resource
that only it knows: `namespaces` of our own API group, in the anchor. What tenants may change of a
Namespace is in translation/own_steps.py; all else stays as it is. The policy
`gateway-confines` judges each write a second time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from karmada_vc_agent.config.virtual_cluster_problems import DNS_LABEL
from karmada_vc_agent.features.gateway.mapping import bodies, patches, refusals
from karmada_vc_agent.features.gateway.mapping.bodies import BodyTarget
from karmada_vc_agent.features.gateway.mapping.cluster_view import Attributes
from karmada_vc_agent.features.gateway.mapping.refusals import PlanError
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
_NO_DIRECTIVE = "must not be replaced as a whole by a patch"


@dataclass(slots=True)
class NamespaceBody:
    """What a write becomes. value: an object, or a JSON patch. dropped: keys that are left out."""

    value: Any
    dropped: list[str] = field(default_factory=list)

    def warnings(self) -> tuple[str, ...]:
        """Return what the client should know."""
        if not self.dropped:
            return ()
        names = ", ".join(sorted(set(self.dropped)))
        return (f"labels and annotations that the site decides are left as they are: {names}",)


def right(verb: str, name: str) -> Attributes:
    """Return the right that a client needs to write a Namespace."""
    return Attributes(verb, domain.DOMAIN, "v1alpha1", "namespaces", name=name)


def name_of(body: Object, target: BodyTarget) -> str:
    """Return the virtual name of a Namespace that is created; a generated one is made.

    Raises PlanError.
    """
    metadata = dig(body, "metadata")
    name, prefix = (dig(metadata, each) for each in ("name", "generateName"))
    if target.name:
        if name and name != target.name:
            raise _other_name(name, target)
        return _label(target.name, target)
    if isinstance(name, str) and name:
        return _label(name, target)
    if isinstance(prefix, str) and prefix:
        suffix = target.view.suffix()
        return _label(prefix[: _NAME_MAX_LENGTH - len(suffix)] + suffix, target)
    detail = "name or generateName is required"
    raise refusals.required(target.info, "metadata.name", detail)


def _label(name: str, target: BodyTarget) -> str:
    """Return a name that Kubernetes takes for a namespace. Raises PlanError: 422."""
    if not DNS_LABEL.fullmatch(name):
        detail = "must be a DNS label: a-z, 0-9 and -, up to 63 characters"
        raise refusals.invalid_value(target.info, name, "metadata.name", name, detail)
    return name


def created(body: Object, target: BodyTarget) -> NamespaceBody:
    """Return the claimed host Namespace. target: with the name. Raises PlanError."""
    context = target.view.context()
    if target.name in context.vc.adopt_namespaces:
        why = "an administrator of the host lets the virtual cluster adopt it"
        raise refusals.forbidden_resource(target.info, target.name, why)
    if 0 < context.vc.bounds.works <= len(context.claims):
        why = f"the virtual cluster may have {context.vc.bounds.works} namespaces (bounds.works)"
        raise refusals.forbidden_resource(target.info, target.name, why)
    _refuse_its_end(body, {}, target)
    named = {**body, "metadata": {**(dig(body, "metadata") or {}), "name": target.name}}
    obj = bodies.whole(named, target)
    marks = _marks(target)
    written = NamespaceBody(_without_ends(obj))
    for each in _MAPS:
        written.value["metadata"][each] = {
            **_tenants(body, each, {}, target, written.dropped),
            **marks["metadata"][each],
        }
    written.value["metadata"]["name"] = marks["metadata"]["name"]
    return written


def replaced(body: Object, live: Object, target: BodyTarget) -> NamespaceBody:
    """Return the host Namespace with what is not the tenant's as it is. Raises PlanError."""
    _check_name(body, target)
    _refuse_its_end(body, live, target)
    written = NamespaceBody(_without_ends(bodies.whole(body, target, is_update=True)))
    metadata = written.value["metadata"]
    for each in _MAPS:
        there: Object = dig(live, "metadata", each) or {}
        pairs = _tenants(body, each, there, target, written.dropped)
        pairs |= {key: value for key, value in there.items() if not _is_tenants(key, target)}
        metadata.pop(each, None)
        if pairs:
            metadata[each] = pairs
    for each in _OF_ITS_END:
        if live_value := dig(live, "metadata", each):
            metadata[each] = live_value
    return written


def merged(body: Object, live: Object, target: BodyTarget) -> NamespaceBody:
    """Return a merge or strategic merge patch of what is the tenant's. Raises PlanError."""
    _check_name(body, target)
    _refuse_directives(body, target)
    _refuse_its_end(body, live, target)
    written = NamespaceBody(_without_ends(bodies.part(body, target)))
    metadata = written.value.get("metadata")
    for each in _MAPS:
        pairs = _tenants(body, each, dig(live, "metadata", each) or {}, target, written.dropped)
        if isinstance(metadata, dict):
            metadata.pop(each, None)
        if pairs:
            metadata = written.value.setdefault("metadata", {})
            metadata[each] = pairs
    if metadata == {}:
        del written.value["metadata"]
    return written


def applied(body: Object, live: Object, target: BodyTarget) -> NamespaceBody:
    """Return what a server-side apply sends for a Namespace that is there. Raises PlanError.

    It has the marks, too: what a manager applied before and leaves out now is removed.
    """
    written = merged(body, live, target)
    marks = _marks(target)
    metadata = written.value.setdefault("metadata", {})
    for each in _MAPS:
        there = dig(live, "metadata", each) or {}
        metadata[each] = {
            **metadata.get(each, {}),
            **{key: there[key] for key in marks["metadata"][each] if key in there},
        }
    return written


def json_patched(operations: Any, target: BodyTarget) -> NamespaceBody:
    """Return a JSON patch of what is the tenant's. Raises PlanError."""
    patch = patches.json_patch(operations, target)
    for operation in patch:
        path = str(operation["path"])
        steps = [each.replace("~1", "/").replace("~0", "~") for each in path.split("/")[1:]]
        if operation["op"] != "test" and not _may_patch(steps, target):
            detail = "is not for tenants"
            raise refusals.invalid(target.info, target.name, path, detail)
    return NamespaceBody(patch)


def refuse_deletion(live: Object, target: BodyTarget) -> None:
    """Refuse to delete what is not for tenants to delete. Raises PlanError."""
    if why := _kept_because(live, target.name):
        raise refusals.forbidden_resource(target.info, target.name, why)


def _kept_because(live: Object, name: str) -> str:
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


def _marks(target: BodyTarget) -> Object:
    """Return the host Namespace with nothing but what makes it one of the virtual cluster."""
    context = target.view.context()
    marks = claimed_namespace(context.vc, VirtualNamespace(target.name), context.settings)
    marks["metadata"]["annotations"][domain.BY_GATEWAY_ANNOTATION] = "true"
    return marks


# --- what is the tenant's -------------------------------------------------------------------


def _is_tenants(key: str, target: BodyTarget) -> bool:
    settings = target.view.context().settings
    patterns = own_steps.tenants_patterns(settings.tenancy, settings.namespace_keys)
    return own_steps.is_tenants(key, patterns)


def _tenants(
    body: Object, each: str, there: Object, target: BodyTarget, dropped: list[str]
) -> dict[str, Any]:
    """Return what a client may change of a map of the body; note what else it tried to change.

    there: the same map of the live object.
    """
    sent = dig(body, "metadata", each)
    pairs: dict[str, Any] = {}
    for key, value in (sent if isinstance(sent, dict) else {}).items():
        if _is_tenants(key, target):
            pairs[key] = value
        elif key != NAMESPACE_NAME_LABEL and not domain.is_ours(key) and there.get(key) != value:
            dropped.append(key)
    return pairs


def _may_patch(steps: list[str], target: BodyTarget) -> bool:
    if steps[:1] != ["metadata"]:
        return steps[:1] not in (["spec"], ["status"])
    if len(steps) > 1 and steps[1] in _KEPT:
        return False
    is_key = len(steps) > 2 and steps[1] in _MAPS
    return not is_key or _is_tenants(steps[2], target)


# --- what is refused ------------------------------------------------------------------------


def _check_name(body: Object, target: BodyTarget) -> None:
    name = dig(body, "metadata", "name")
    if name and name != target.name:
        raise _other_name(name, target)


def _other_name(name: Any, target: BodyTarget) -> PlanError:
    text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
    return refusals.bad_request(text)


def _refuse_its_end(body: Object, live: Object, target: BodyTarget) -> None:
    """Refuse finalizers and owners: who deletes a namespace must see it go."""
    for place in _ends(body, live):
        why = f"{place} of a namespace is not for tenants"
        raise refusals.forbidden_resource(target.info, target.name, why)


def _ends(body: Object, live: Object) -> Iterator[str]:
    metadata = dig(body, "metadata")
    for each in _OF_ITS_END:
        is_there = isinstance(metadata, dict) and each in metadata
        if is_there and (dig(body, "metadata", each) or []) != (dig(live, "metadata", each) or []):
            yield f"metadata.{each}"
    if dig(body, "spec", "finalizers") not in (None, [], ["kubernetes"]):
        yield "spec.finalizers"


def _without_ends(obj: Object) -> Object:
    """Take off what the host sets by itself, and keeps whatever a client sends."""
    kept = {key: value for key, value in obj.items() if key not in ("spec", "status")}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {k: v for k, v in metadata.items() if k not in _KEPT}
    return kept


def _refuse_directives(body: Object, target: BodyTarget) -> None:
    """Refuse a patch that replaces, or removes, more than single keys."""
    metadata = body.get("metadata")
    for where, value in (("", body), ("metadata", metadata)):
        if isinstance(value, dict) and any(str(key).startswith(_DIRECTIVES) for key in value):
            raise refusals.invalid(target.info, target.name, where, _NO_DIRECTIVE)
    for each in _MAPS:
        where = f"metadata.{each}"
        pairs = dig(metadata, each)
        if isinstance(pairs, dict) and any(str(key).startswith(_DIRECTIVES) for key in pairs):
            raise refusals.invalid(target.info, target.name, where, _NO_DIRECTIVE)
        if isinstance(metadata, dict) and metadata.get(each, {}) is None:
            detail = "must not be removed"
            raise refusals.invalid(target.info, target.name, where, detail)
