"""Apply objects, report what changes, and write objects as YAML."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

from karmada_vc_agent.access.templates import Reasons
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ConflictError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, copy_object, dig, key_of
from karmada_vc_agent.model.vocabulary import flow_text

_OF_SERVER = frozenset(
    f".metadata.{name}"
    for name in ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
) | {".status"}
_LONGEST = 160


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
        self._say("\n    ".join((change, *details)))


def fields_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field that holds a value, with its path as server-side apply names it.

    Items of a list that have a name are named by it; other lists and empty maps are one value.
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
    before, after = (dict(fields_of(without_fields(obj, _OF_SERVER))) for obj in (old, new))
    is_secret = key_of(new).gvk.kind == "Secret"
    lines = []
    for path in dict.fromkeys((*before, *after)):
        was, becomes = _texts(before.get(path)), _texts(after.get(path))
        if before.get(path) == after.get(path):
            continue
        if is_secret and path.startswith((".data", ".stringData")):
            lines.append(f"{path}: changed (not shown)")
        elif len(was) == len(becomes) == 1 and not isinstance(after.get(path), list):
            lines.append(f"{path}: {_short(was[0])} -> {_short(becomes[0])}")
        else:
            removed = [f"  - {_short(each)}" for each in was if each not in becomes]
            added = [f"  + {_short(each)}" for each in becomes if each not in was]
            lines += [f"{path}:", *removed, *added]
    return lines


def _texts(value: Any) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return value.splitlines()
    if isinstance(value, list) and value:
        return [each if isinstance(each, str) else _item(each) for each in value]
    return ["absent" if value is None else json.dumps(value)]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _item(item: Any) -> str:
    is_rule = isinstance(item, dict) and "verbs" in item
    return flow_text(item) if is_rule else json.dumps(item)


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


MANAGER = "karmada-vc-agent-join"
_TUNED = (
    ".spec.replicas",
    '.spec.template.spec.containers[name="agent"].resources.',
    '.spec.template.spec.containers[name="gateway"].resources.',
)
_WIDTH = 100


def path_of(obj: Object) -> str:
    """Return the URL path of an object of a built-in kind."""
    key = key_of(obj)
    plural = vocabulary.plural(key.gvk.group_kind)
    return Resource(key.gvk, plural, bool(key.namespace)).path(key.namespace, key.name)


async def apply_all(client: ApiClient, objects: Iterable[Object], changes: Changes) -> None:
    """Create or change objects, in the given order, so that they have the fields of these.

    Server-side apply: fields that are not named stay as they are, and so does what other writers
    set of replicas and resources of the agent. All differences are reported before the first
    write. Raises KubeError, CommandError.
    """
    planned = [body for obj in objects if (body := await _plan(client, obj, changes))]
    for body in () if changes.is_dry else planned:
        await client.server_side_apply(path_of(body), body, MANAGER, is_forced=True)


async def _plan(client: ApiClient, desired: Object, changes: Changes) -> Object | None:
    """Report what an object lacks; return what to apply, None if all is there already."""
    path, name, body = path_of(desired), key_of(desired), desired
    live = await client.find(path)
    if live is None:
        changes.report(f"{client.name}: create {name}")
        return desired
    if dig(live, "metadata", "deletionTimestamp") is not None:
        raise CommandError(f"{client.name}: {name} is being deleted; try again once it is")
    try:
        answer = await client.server_side_apply(path, body, MANAGER, is_dry=True)
    except ConflictError as conflict:
        body = without_fields(desired, _tuned(conflict))
        answer = await client.server_side_apply(path, body, MANAGER, is_dry=True, is_forced=True)
    if details := differences(live, answer):
        changes.report(f"{client.name}: change {name}", details)
    return body if details else None


def _tuned(conflict: ConflictError) -> frozenset[str]:
    return frozenset(
        field
        for field, message in conflict.fields
        if f'"{MANAGER}"' not in message and field.startswith(_TUNED)
    )


def manifest_text(objects: Iterable[Object], why: Reasons, head: str) -> str:
    """Return a YAML stream. head: text of the comment at its start, without `#`."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + "---\n".join(_manifest(obj, why) for obj in objects)


def _manifest(obj: Object, why: Reasons) -> str:
    # A deep copy shares no objects, so the dumper writes no aliases.
    content = copy_object({key: value for key, value in obj.items() if key != "rules"})
    lines = [str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=_WIDTH)).rstrip("\n")]
    if "rules" in obj:
        lines.append("rules:")
        reasons = why.get(str(key_of(obj)), [""] * len(obj["rules"]))
        for rule, reason in zip(obj["rules"], reasons, strict=True):
            lines += [f"# {reason}"] if reason else []
            lines.append(f"- {flow_text(rule)}")
    return "\n".join(lines) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as literal blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
