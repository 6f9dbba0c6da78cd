"""Writes of Namespaces: creation is a claim, changes keep it (5.3).

The host lets tenants write no Namespace, since for RBAC a Namespace lies in itself: who may patch
it *in* a namespace may move its claim. So the gateway writes, and asks for a right on a resource
that only it knows: `namespaces` of our own API group, in the anchor.
"""

from typing import Any

from karmada_vc_agent.gateway.mapping import bodies, json_patches, refusals
from karmada_vc_agent.gateway.mapping.bodies import Target
from karmada_vc_agent.gateway.mapping.exchange import Attributes
from karmada_vc_agent.gateway.mapping.refusals import PlanError
from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent

_MAPS = ("labels", "annotations")
_DIRECTIVES = "$"


def right(verb: str, name: str) -> Attributes:
    """Return the right that a client needs to write a Namespace."""
    return Attributes(verb, domain.DOMAIN, "v1alpha1", "namespaces", name=name)


def created(body: Object, target: Target) -> Object:
    """Return the claimed host Namespace. Raises PlanError."""
    if not dig(body, "metadata", "name"):
        raise PlanError(refusals.invalid(target.info, "", "metadata.name", "is required"))
    return bodies.whole(body, target)


def replaced(body: Object, live: Object, target: Target) -> Object:
    """Return the host Namespace with our marks as they are. Raises PlanError."""
    obj = bodies.whole(body, target, is_update=True)
    metadata = obj["metadata"]
    for field in _MAPS:
        wanted: Object = metadata.pop(field, None) or {}
        found: Object = dig(live, "metadata", field) or {}
        pairs = {key: value for key, value in wanted.items() if not _is_kept(key)}
        pairs |= {key: value for key, value in found.items() if _is_kept(key)}
        if pairs:
            metadata[field] = pairs
    return obj


def merged(body: Object, target: Target) -> Object:
    """Return a merge, strategic merge or apply patch that leaves our marks. Raises PlanError."""
    for field in _MAPS:
        pairs = dig(body, "metadata", field)
        if isinstance(pairs, dict) and any(str(key).startswith(_DIRECTIVES) for key in pairs):
            where = f"metadata.{field}"
            detail = "must not be replaced as a whole by a patch"
            raise PlanError(refusals.invalid(target.info, target.name, where, detail))
        if isinstance(body.get("metadata"), dict) and body["metadata"].get(field, {}) is None:
            raise PlanError(
                refusals.invalid(
                    target.info, target.name, f"metadata.{field}", "must not be removed"
                )
            )
    metadata = dig(body, "metadata")
    if isinstance(metadata, dict) and any(key.startswith(_DIRECTIVES) for key in metadata):
        detail = "must not be replaced as a whole by a patch"
        raise PlanError(refusals.invalid(target.info, target.name, "metadata", detail))
    return bodies.part(body, target)


def json_patched(operations: Any, target: Target) -> list[Object]:
    """Return a JSON patch that leaves our marks. Raises PlanError."""
    return json_patches.json_patch(operations, target)


def refuse_deletion(live: Object, target: Target) -> None:
    """Refuse to delete what no agent made. Raises PlanError."""
    if not is_made_by_agent(live):
        why = "it was there before the virtual cluster adopted it"
        raise PlanError(refusals.forbidden_resource(target.info, target.name, why))


def _is_kept(key: str) -> bool:
    return domain.is_ours(key) or key == domain.NODE_SELECTOR_ANNOTATION
