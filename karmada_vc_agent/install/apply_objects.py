"""Apply objects, report what changes, and write objects as YAML."""

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import yaml

from karmada_vc_agent.access.templates import Reasons
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import flow_text
from karmada_vc_agent.model.objects import Object, ObjectKey, copy_object, dig, key_of

_SERVERS_OWN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
_LONGEST = 160
_BEFORE = 40


class Changes:
    """Reports and counts changes. is_dry: nothing is to be written."""

    def __init__(
        self, say: Callable[[str], None] = lambda _: None, *, is_dry: bool = False
    ) -> None:
        self._say = say
        self.is_dry = is_dry
        self.count = 0

    def report(self, change: str, details: Iterable[str] = ()) -> None:
        """Report a change that is made next, with one line for each detail."""
        self.count += 1
        self._say(change)
        for line in details:
            self._say(f"    {line}")


def fields_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field that holds a value, with its path as server-side apply names it.

    Items of a list that have a name are named by it: `.containers[name="agent"].image`. Other
    lists are one value, as are empty maps.
    """
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from fields_of(inner, f"{path}.{key}")
    elif isinstance(value, list) and value and all(map(_has_name, value)):
        for item in value:
            yield from fields_of(item, f'{path}[name="{item["name"]}"]')
    else:
        yield path, value


def without_fields(value: Any, left_out: frozenset[str], path: str = "") -> Any:
    """Return a copy without the fields of these paths, see `fields_of`."""
    if isinstance(value, dict):
        return {
            key: without_fields(inner, left_out, f"{path}.{key}")
            for key, inner in value.items()
            if f"{path}.{key}" not in left_out
        }
    if isinstance(value, list) and all(map(_has_name, value)):
        return [without_fields(item, left_out, f'{path}[name="{item["name"]}"]') for item in value]
    return value


def differences(old: Object, new: Object) -> list[str]:
    """Return a line for each field of an object that differs; values of Secrets are not shown."""
    before, after = (dict(fields_of(_compared(obj))) for obj in (old, new))
    is_secret = key_of(new).gvk.kind == "Secret"
    lines = []
    for path in dict.fromkeys((*before, *after)):
        was, becomes = before.get(path), after.get(path)
        if was == becomes:
            continue
        if is_secret and path.startswith((".data", ".stringData")):
            lines.append(f"{path}: changed (not shown)")
        elif isinstance(was, list) and isinstance(becomes, list):
            lines += _between(path, list(map(_item, was)), list(map(_item, becomes)))
        elif isinstance(was, str) and isinstance(becomes, str) and "\n" in was + becomes:
            lines += _between(path, was.splitlines(), becomes.splitlines())
        else:
            lines.append(f"{path}: {' -> '.join(_unlike(_text(was), _text(becomes)))}")
    return lines


def _unlike(was: str, becomes: str) -> list[str]:
    """Return both texts short enough to read; what two long ones begin with alike is left out."""
    alike = 0
    if min(len(was), len(becomes)) > _LONGEST:
        pairs = zip(was, becomes, strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) - _BEFORE
    return [f"...{_short(text[alike:])}" if alike > 0 else _short(text) for text in (was, becomes)]


def _between(path: str, was: list[str], becomes: list[str]) -> Iterator[str]:
    yield f"{path}:"
    for line in difflib.unified_diff(was, becomes, n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line[0]} {_short(line[1:])}"


def _compared(obj: Object) -> Object:
    metadata = {k: v for k, v in obj.get("metadata", {}).items() if k not in _SERVERS_OWN}
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "metadata": metadata}


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _item(item: Any) -> str:
    is_rule = isinstance(item, dict) and "verbs" in item
    return flow_text(item) if is_rule else item if isinstance(item, str) else json.dumps(item)


def _text(value: Any) -> str:
    return "absent" if value is None else json.dumps(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


MANAGER = "karmada-vc-agent-join"
_CONTAINERS = tuple(
    f'.spec.template.spec.containers[name="{name}"]' for name in ("agent", "gateway")
)
_REPLICAS = ".spec.replicas"
IMAGE_FIELDS = tuple(f"{container}.image" for container in _CONTAINERS)
_RESOURCES = tuple(f"{container}.resources." for container in _CONTAINERS)
_CONFLICT_WITH_US = f'"{MANAGER}"'


def path_of(obj: Object) -> str:
    """Return the URL path of an object of a built-in kind."""
    key = key_of(obj)
    return _resource_of(key).path(key.namespace, key.name)


def _resource_of(key: ObjectKey) -> Resource:
    return Resource(key.gvk, kinds.plural(key.gvk.group_kind), namespaced=bool(key.namespace))


async def find(client: ApiClient, path: str) -> Object | None:
    """GET an object; None if it does not exist. Raises KubeError, also while it is not served."""
    try:
        return await client.get(path)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Step:
    """One write. body: what is to be applied; is_new: the object does not exist yet.

    is_ending: it exists and is being deleted, so that nothing can be applied to it.
    """

    body: Object
    is_new: bool
    details: tuple[str, ...] = ()
    is_ending: bool = False


async def apply_all(
    client: ApiClient,
    objects: Iterable[Object],
    changes: Changes,
    forced: Collection[str] = (),
) -> None:
    """Create or change objects, in the given order, so that they have the fields of these.

    Server-side apply: fields that are not named stay as they are, and so does what other writers
    set of replicas, image and resources of the agent, but for the fields of `forced`. All
    differences are reported before the first write. Raises KubeError.
    """
    steps = [step for obj in objects if (step := await _plan(client, obj, forced)) is not None]
    for step in steps:
        verb = "create" if step.is_new else "change"
        changes.report(f"{client.name}: {verb} {key_of(step.body)}", step.details)
    for step in () if changes.is_dry else steps:
        if step.is_ending:  # the server refuses it, and says why
            key = key_of(step.body)
            await client.create(_resource_of(key).path(key.namespace), step.body)
        else:
            await _send(client, step.body)


async def _plan(client: ApiClient, desired: Object, forced: Collection[str]) -> _Step | None:
    """Return what is to be written, None where everything is there already."""
    live = await find(client, path_of(desired))
    if live is None or dig(live, "metadata", "deletionTimestamp") is not None:
        return _Step(desired, is_new=True, is_ending=live is not None)
    if _holds(live, desired):
        return None
    body = desired
    try:
        answer = await _send(client, body, is_dry=True, is_forced=False)
    except ConflictError as conflict:
        body = without_fields(desired, _tuned(conflict, forced))
        answer = await _send(client, body, is_dry=True)
    details = differences(live, answer)
    return _Step(body, is_new=False, details=tuple(details)) if details else None


async def _send(
    client: ApiClient, body: Object, *, is_dry: bool = False, is_forced: bool = True
) -> Object:
    return await client.server_side_apply(
        path_of(body), body, MANAGER, is_dry=is_dry, is_forced=is_forced
    )


def _tuned(conflict: ConflictError, forced: Collection[str]) -> frozenset[str]:
    """Return the fields that another writer set and may keep."""
    return frozenset(
        field
        for field, message in conflict.fields
        if field not in forced
        and _CONFLICT_WITH_US not in message
        and (field in (_REPLICAS, *IMAGE_FIELDS) or field.startswith(_RESOURCES))
    )


def _holds(live: Any, desired: Any) -> bool:
    """Return whether `live` contains all of `desired`; lists must agree element by element."""
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return False
        return all(_holds(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list) or len(live) != len(desired):
            return False
        return all(map(_holds, live, desired))
    return bool(live == desired)


_WIDTH = 100


def manifest_text(objects: Iterable[Object], why: Reasons, head: str) -> str:
    """Return a YAML stream. head: text of the comment at its start, without `#`."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + "---\n".join(_manifest(obj, why) for obj in objects)


def _manifest(obj: Object, why: Reasons) -> str:
    text = _dump({key: value for key, value in obj.items() if key != "rules"})
    if "rules" not in obj:
        return text
    reasons = why.get(str(key_of(obj)), [""] * len(obj["rules"]))
    lines = ["rules:"]
    for rule, reason in zip(obj["rules"], reasons, strict=True):
        lines += [f"# {reason}"] if reason else []
        lines.append(f"- {flow_text(rule)}")
    return text + "\n".join(lines) + "\n"


def _dump(obj: Object) -> str:
    # A deep copy shares no objects, so the dumper writes no aliases.
    return str(yaml.dump(copy_object(obj), Dumper=_Dumper, sort_keys=False, width=_WIDTH))


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as literal blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
