"""Service names in texts, rewritten if the object requests it (rewriting-rules 4.3).

The annotation `D/rewrite-dns: "env,args,data"` lists the places: values of environment variables,
arguments and commands of containers, data of a ConfigMap. There the namespace in
`<service>.<namespace>.svc` is replaced if it is claimed. Binary data and Secrets never are.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import REWRITE_DNS_ANNOTATION
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, annotations_of, dig
from karmada_vc_agent.translation import pod_templates

ENV, ARGS, DATA = "env", "args", "data"
PLACES = (ENV, ARGS, DATA)

DATA_FIELDS: Mapping[GroupKind, tuple[str, ...]] = {kinds.CONFIG_MAP: ("data",)}
"""The fields behind `data`: maps of strings."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

Replace = Callable[[str], str]


def places_of(obj: Object) -> tuple[str, ...]:
    """Return the places that the annotation of an object lists, valid or not."""
    text = annotations_of(obj).get(REWRITE_DNS_ANNOTATION, "")
    return tuple(place for place in map(str.strip, text.split(",")) if place)


def rewrite_texts(
    obj: Object,
    gvk: GroupVersionKind,
    namespaces: Iterable[tuple[str, str]],
    extra: Iterable[pod_templates.PodTemplates] = (),
) -> bool:
    """Replace, in place, namespaces in the texts that the object's annotation selects.

    namespaces: what to replace -> replacement. Returns whether the object has the annotation: the
    result then depends on the claims.
    """
    places = frozenset(places_of(obj)).intersection(PLACES)
    if not places:
        return False
    replace = _replacing(dict(namespaces))
    if DATA in places:
        for field in DATA_FIELDS.get(gvk.group_kind, ()):
            _change(obj.get(field), replace)
    for pod_spec in pod_templates.pod_specs(obj, gvk, extra):
        for container in _containers(pod_spec):
            for variable in _list(dig(container, "env")) if ENV in places else ():
                _change(variable, replace, "value")
            for field in ("args", "command") if ARGS in places else ():
                _change(dig(container, field), replace)
    return True


def _replacing(namespaces: Mapping[str, str]) -> Replace:
    """Return a function that replaces all of them at once: a replacement may equal another key."""
    if not namespaces:
        return lambda text: text
    names = "|".join(map(re.escape, sorted(namespaces)))
    pattern = re.compile(rf"\.({names})\.svc(?=\.|[:/]|$)", re.MULTILINE)
    return lambda text: pattern.sub(lambda match: f".{namespaces[match[1]]}.svc", text)


def _containers(pod_spec: pod_templates.LocatedPodSpec) -> list[Any]:
    if pod_spec.selector_only:
        return []
    return [each for field in _CONTAINERS for each in _list(pod_spec.spec.get(field))]


def _change(part: Any, replace: Replace, *keys: str) -> None:
    """Replace, in place, the texts in a map or list; keys: only those of a map."""
    items = part.items() if isinstance(part, dict) else enumerate(_list(part))
    for key, value in list(items):
        if isinstance(value, str) and (not keys or key in keys):
            part[key] = replace(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
