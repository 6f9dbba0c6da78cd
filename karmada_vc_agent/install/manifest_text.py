"""Objects as YAML for people: each rule on one line, below its reason."""

from collections.abc import Iterable

import yaml

from karmada_vc_agent.access.templates import Reasons
from karmada_vc_agent.model.objects import Object, copy_object, key_of
from karmada_vc_agent.model.rbac_rule import flow_text

_WIDTH = 100


def manifest_text(objects: Iterable[Object], why: Reasons, head: str) -> str:
    """Return a YAML stream. head: text of the comment at its start, without `#`."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + "---\n".join(_document(obj, why) for obj in objects)


def _document(obj: Object, why: Reasons) -> str:
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


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
