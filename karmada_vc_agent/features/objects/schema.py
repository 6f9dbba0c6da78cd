"""OpenAPI schemas of settings, as a CRD has them, from the structs that the code uses.

A new setting needs nothing here: its type, help text and range give its schema. What types do not
say is in schema_rules.yaml. Everything has a bound, for the API server estimates what rules cost
from the largest object there can be.
"""

from collections.abc import Mapping
from typing import Any, get_origin

import msgspec

from karmada_vc_agent.config.declared import REQUIRED, Setting, part_of, settings_of, struct_of
from karmada_vc_agent.features.objects.schema_rules import EXTRA, ITEMS, NOT_NEGATIVE
from karmada_vc_agent.model.durations import Duration
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import QuantityText, Size

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
        return f"{setting.help} Default: {setting.default_text}."
    return setting.help
