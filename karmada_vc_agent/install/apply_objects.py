"""Apply objects, report what changes, and write objects as YAML."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from os.path import commonprefix
from typing import Any

import yaml

from karmada_vc_agent.access.templates import Reasons
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, copy_object, dig, key_of
from karmada_vc_agent.model.vocabulary import flow_text

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
        old_items, new_items = _items(was), _items(becomes)
        if is_secret and path.startswith((".data", ".stringData")):
            lines.append(f"{path}: changed (not shown)")
        elif old_items and new_items:
            lines.append(f"{path}:")
            lines += [f"  - {_short(each)}" for each in old_items if each not in new_items]
            lines += [f"  + {_short(each)}" for each in new_items if each not in old_items]
        else:
            lines.append(f"{path}: {' -> '.join(_unlike(_text(was), _text(becomes)))}")
    return lines


def _items(value: Any) -> list[str]:
    """Return the items of a list, and the lines of a text that has several; none of others."""
    if isinstance(value, str):
        return value.splitlines() if "\n" in value else []
    return list(map(_item, value)) if isinstance(value, list) else []


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


def _unlike(*texts: str) -> list[str]:
    """Return texts short enough to read; what long ones begin with alike is left out."""
    alike = 0
    if min(map(len, texts)) > _LONGEST:
        alike = len(commonprefix(texts)) - _BEFORE  # noqa: RUF071 - texts, no paths
    return [f"...{_short(text[alike:])}" if alike > 0 else _short(text) for text in texts]


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
    plural = vocabulary.plural(key.gvk.group_kind)
    return Resource(key.gvk, plural, bool(key.namespace)).path(key.namespace, key.name)


async def find(client: ApiClient, path: str) -> Object | None:
    """GET an object; None if it does not exist. Raises KubeError, also while it is not served."""
    try:
        return await client.get(path)
    except NotFoundError:
        return None


async def apply_all(
    client: ApiClient,
    objects: Iterable[Object],
    changes: Changes,
    forced: Collection[str] = (),
) -> None:
    """Create or change objects, in the given order, so that they have the fields of these.

    Server-side apply: fields that are not named stay as they are, and so does what other writers
    set of replicas, image and resources of the agent, but for the fields of `forced`. All
    differences are reported before the first write. Raises KubeError, CommandError.
    """
    planned = [plan for obj in objects if (plan := await _plan(client, obj, forced)) is not None]
    for body, verb, details in planned:
        changes.report(f"{client.name}: {verb} {key_of(body)}", details)
    for body, _, _ in () if changes.is_dry else planned:
        await _send(client, body)


async def _plan(
    client: ApiClient, desired: Object, forced: Collection[str]
) -> tuple[Object, str, list[str]] | None:
    """Return what to apply, the verb for it, and the differences; None if all is there already."""
    live = await find(client, path_of(desired))
    if live is None:
        return desired, "create", []
    if dig(live, "metadata", "deletionTimestamp") is not None:
        problem = f"{client.name}: {key_of(desired)} is being deleted; try again once it is"
        raise CommandError(problem)
    body = desired
    try:
        answer = await _send(client, body, is_dry=True, is_forced=False)
    except ConflictError as conflict:
        body = without_fields(desired, _tuned(conflict, forced))
        answer = await _send(client, body, is_dry=True)
    details = differences(live, answer)
    return (body, "change", details) if details else None


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
