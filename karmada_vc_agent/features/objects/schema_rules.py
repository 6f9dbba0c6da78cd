"""What the types of settings do not say: schema_rules.yaml, with what it shares with the code."""

from collections.abc import Mapping
from typing import Any

from karmada_vc_agent.access import templates
from karmada_vc_agent.model.adoption_problems import (
    DNS_LABEL_TEXT,
    FORMER_NAME_TEXT,
    SYSTEM_TEXT,
)
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import AMOUNT
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.windows import ONE_WINDOW, WINDOW_RULE

_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_DNS_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_RULES = templates.document(
    "objects/schema_rules.yaml",
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
