"""The CustomResourceDefinition of VirtualCluster objects, from their settings.

A new setting needs nothing here: its type, help text and range give its schema. What types do not
say is in crd/schema_rules.yaml. Everything has a bound, for the API server estimates what rules
cost from the largest object there can be.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from karmada_vc_agent.access import templates
from karmada_vc_agent.config.checks import DNS_LABEL_TEXT, FORMER_NAME_TEXT, SYSTEM_TEXT
from karmada_vc_agent.config.decoding import REQUIRED, Setting, part_of, settings_of, struct_of
from karmada_vc_agent.features.objects.definitions import DELETION_POLICIES, Phase
from karmada_vc_agent.install.apply_objects import manifest_text
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import (
    AMOUNT,
    ONE_WINDOW,
    WINDOW_RULE,
    Duration,
    QuantityText,
    Size,
)
from karmada_vc_agent.model.virtual_cluster import Guard, VirtualCluster
from karmada_vc_agent.model.vocabulary import CLUSTER_NAME_MAX_LENGTH

_HEAD = """\
For the host: VirtualCluster objects, which the agent serves with `objects: {enabled: true}`.
`hack/update-manifests` writes this file from karmada_vc_agent/model/virtual_cluster.py."""
_FOLDER = Path(__file__).parent / "crd"
_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_DNS_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_RULES = templates.document(
    str(_FOLDER / "schema_rules.yaml"),
    {
        "amount": AMOUNT,
        "dns_label": _DNS_LABEL,
        "dns_label_text": DNS_LABEL_TEXT,
        "former_name_text": FORMER_NAME_TEXT,
        "guards": tuple(Guard),
        "guards_text": ", ".join(Guard),
        "label_key": f"^({_DNS_LABEL}([.]{_DNS_LABEL})*/)?{_NAME}$",
        "label_key_text": (
            "is not a valid label key: 1 to 63 letters, digits, '-', '_' or '.', beginning and "
            "ending with a letter or digit; a part before '/' must be a DNS name"
        ),
        "name": _NAME,
        "name_max_length": CLUSTER_NAME_MAX_LENGTH,
        "system_text": SYSTEM_TEXT,
        "window": ONE_WINDOW,
        "window_text": WINDOW_RULE,
    },
)
EXTRA: Mapping[str, Object] = _RULES["extra"]
ITEMS: Mapping[str, Object] = _RULES["items"]
NAME_RULES: list[Object] = _RULES["whole"]
NOT_NEGATIVE: Object = _RULES["parts"]["not_negative"]


def rules_in(schema: Any) -> list[Object]:
    """Return all CEL rules of a schema."""
    if isinstance(schema, list):
        return [rule for inner in schema for rule in rules_in(inner)]
    if not isinstance(schema, dict):
        return []
    own = list(schema.get("x-kubernetes-validations") or [])
    return own + [rule for inner in schema.values() for rule in rules_in(inner)]


MOST_ITEMS = 64
MOST_KEYS = 64
MOST_CHARACTERS = 253

_INT_OR_STRING: Object = {"x-kubernetes-int-or-string": True}
_TYPES: Mapping[Any, Object] = {
    str: {"type": "string", "maxLength": MOST_CHARACTERS},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    Duration: {"type": "string", "maxLength": MOST_CHARACTERS},
    Size: NOT_NEGATIVE,
    QuantityText: _INT_OR_STRING,
}
_ANY_OBJECT: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def schema_of(struct: type[msgspec.Struct], without: frozenset[str] = frozenset()) -> Object:
    """Return the schema of a struct of settings; without: keys that are left out."""
    settings = [setting for setting in settings_of(struct) if setting.key not in without]
    made: Object = {
        "type": "object",
        "properties": {setting.key: _of_setting(setting, struct) for setting in settings},
    }
    required = [setting.key for setting in settings if setting.default is REQUIRED]
    if required:
        made["required"] = required
    return made | EXTRA.get(struct.__name__, {})


def _of_setting(setting: Setting, struct: type[msgspec.Struct]) -> Object:
    place = f"{struct.__name__}.{setting.key}"
    made = {"description": _description(setting), **_of_type(setting.kind, place)}
    if setting.choices:
        made = {"description": made["description"], "type": "string", "enum": [*setting.choices]}
    if setting.range is not None and "type" in made and not setting.range.is_open:
        made["minimum"] = int(setting.range.least)
    return made | EXTRA.get(place, {})


def _of_type(kind: Any, place: str) -> Object:
    struct, origin = struct_of(kind), get_origin(kind)
    if kind in _TYPES:
        return dict(_TYPES[kind])
    if struct is not None:
        return schema_of(struct)
    if isinstance(origin, type) and issubclass(origin, Mapping) and origin is not dict:
        values = {**_of_type(part_of(kind), f"{place}[]"), **EXTRA.get(f"{place}[]", {})}
        return {"type": "object", "maxProperties": MOST_KEYS, "additionalProperties": values}
    if origin in (tuple, frozenset):
        items = ITEMS.get(place) or _of_type(part_of(kind), f"{place}[]")
        return {
            "type": "array",
            "maxItems": MOST_ITEMS,
            "items": {**items, **EXTRA.get(f"{place}[]", {})},
        }
    return dict(_ANY_OBJECT)


def _description(setting: Setting) -> str:
    """Return its help text, with the default where there is one to name."""
    default = setting.default
    if isinstance(default, bool | int | str) and setting.default_text:
        return f"{setting.plain_help} Default: {setting.default_text}."
    return setting.plain_help


_OF_OBJECTS: Object = {
    "deletionPolicy": {
        "description": "What happens on the host when this object is deleted. Delete: the "
        "objects of its Works are deleted. Preserve: they stay, without the agent's labels. In "
        "both cases the Cluster on the hub is deleted.",
        "type": "string",
        "enum": list(DELETION_POLICIES),
        "default": DELETION_POLICIES[0],
    },
}
"""Settings of the object, and not of the virtual cluster that it describes."""


def definition() -> Object:
    """Return the CRD."""
    spec = schema_of(VirtualCluster, without=frozenset({"name"}))
    described = {"description": "The virtual cluster; its name is that of the object.", **spec}
    described["properties"] = {**spec["properties"], **_OF_OBJECTS}
    values = {"spec": described, "phases": get_args(Phase), "rules": tuple(NAME_RULES)}
    return templates.document(str(_FOLDER / "crd.yaml"), values)


def text() -> str:
    """Return the text of manifests/base/crd.yaml, and of the copies in chart and package."""
    return manifest_text([definition()], {}, _HEAD)
