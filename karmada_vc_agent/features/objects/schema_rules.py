"""What the types of settings do not say: bounds, CEL rules, and the objects of Kubernetes in them.

Rules refuse at `kubectl apply` what model/virtual_cluster_problems.py finds wrong with a settings
file, in the same words; a test tries each on both. CEL knows no names of nodes and no other
objects: what depends on those is a condition of the object.
"""

import json
from collections.abc import Mapping
from typing import Any

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

_MOST_NODES = 1000
_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")

_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_PREFIX = "[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_DNS_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_LABEL_KEY = f"^({_PREFIX}/)?{_NAME}$"
_LABEL_KEY_TEXT = (
    "is not a valid label key: 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with "
    "a letter or digit; a part before '/' must be a DNS name"
)
_LABEL_VALUE_TEXT = (
    "is not a valid label value: at most 63 letters, digits, '-', '_' or '.', beginning and ending "
    "with a letter or digit"
)


def _rule(rule: str, message: str) -> Object:
    return {"rule": rule, "message": message}


def _rules(*rules: Object) -> Object:
    return {"x-kubernetes-validations": list(rules)}


_KEY: Object = {
    "type": "string",
    "maxLength": 317,
    **_rules(_rule(f"self.matches('{_LABEL_KEY}')", _LABEL_KEY_TEXT)),
}
_VALUE: Object = {
    "type": "string",
    "maxLength": 63,
    **_rules(_rule(f"self == '' || self.matches('^{_NAME}$')", _LABEL_VALUE_TEXT)),
}
_KEYS = _rules(_rule(f"self.all(key, key.matches('{_LABEL_KEY}'))", f"a key {_LABEL_KEY_TEXT}"))
# Quantities have no CEL rules: before 1.34 the API server estimates each of them, on what may be an
# integer or a string, as if the string were as long as a request.
_QUANTITY: Object = {
    "x-kubernetes-int-or-string": True,
    "maxLength": 40,
    "pattern": f"^[+-]?{AMOUNT}$",
}
NOT_NEGATIVE: Object = {**_QUANTITY, "pattern": f"^[+]?{AMOUNT}$", "minimum": 0}
_QUANTITIES: Object = {"type": "object", "maxProperties": 64, "additionalProperties": _QUANTITY}
_DNS_NAME: Object = {
    "maxLength": 253,
    **_rules(
        _rule(
            f"self.matches('^{_DNS_LABEL}([.]{_DNS_LABEL})*$')",
            "is not a valid DNS name: lower-case letters, digits, '-' and '.', each part beginning "
            "and ending with a letter or digit",
        )
    ),
}
_PATTERN = _rules(
    _rule(
        "self.matches('^([^/]+/)?[^/]+$')",
        "is not a pattern for kinds; write for example apps/Deployment, Secret or batch/*",
    ),
    _rule("self != '*'", "is every kind of the core group only; write */* for all kinds"),
)


def _choice(values: tuple[str, ...]) -> Object:
    return {"type": "string", "enum": list(values)}


def _listed(values: tuple[str, ...]) -> str:
    return json.dumps(list(values)).replace('"', "'")


NAME_RULES = (
    _rule(
        f"self.metadata.name.size() <= {CLUSTER_NAME_MAX_LENGTH} && "
        f"self.metadata.name.matches('^{_DNS_LABEL}$')",
        f"the name must be one of a Cluster: at most {CLUSTER_NAME_MAX_LENGTH} lower-case letters, "
        "digits and '-', beginning and ending with a letter or digit",
    ),
)
"""Of the whole object."""

EXTRA: Mapping[str, Object] = {
    "VirtualCluster": _rules(
        _rule(
            "(has(self.nodeNames) && self.nodeNames.size() > 0) || (has(self.nodeSelector) && "
            "((has(self.nodeSelector.matchLabels) && self.nodeSelector.matchLabels.size() > 0) || "
            "(has(self.nodeSelector.matchExpressions) && "
            "self.nodeSelector.matchExpressions.size() > 0)))",
            "selects no nodes; set nodeSelector or nodeNames",
        )
    ),
    "LabelSelector.matchLabels": _KEYS,
    "LabelSelector.matchLabels[]": _VALUE,
    "Requirement": _rules(
        _rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "values must not be empty with In and NotIn, and must be empty with Exists and "
            "DoesNotExist",
        )
    ),
    "Requirement.key": _KEY,
    "Requirement.values": {"x-kubernetes-list-type": "set"},
    "Requirement.values[]": {"maxLength": 63},
    "VirtualCluster.nodeNames": {"maxItems": _MOST_NODES, "x-kubernetes-list-type": "set"},
    "VirtualCluster.nodeNames[]": _DNS_NAME,
    "VirtualCluster.clusterLabels": _KEYS,
    "VirtualCluster.clusterLabels[]": _VALUE,
    "VirtualCluster.provider": _VALUE,
    "VirtualCluster.region": _VALUE,
    "VirtualCluster.zones[]": _VALUE,
    "VirtualCluster.adoptNamespaces": {"x-kubernetes-list-type": "set"},
    "VirtualCluster.adoptNamespaces[]": {
        "maxLength": 63,
        **_rules(
            _rule(f"self.matches('^{_DNS_LABEL}$')", DNS_LABEL_TEXT),
            _rule(
                "!self.startsWith('kube-') && !self.startsWith('karmada-') && "
                "!(self in ['kubeedge', 'default'])",
                SYSTEM_TEXT,
            ),
        ),
    },
    "VirtualCluster.formerNames": {"x-kubernetes-list-type": "set"},
    "VirtualCluster.formerNames[]": {
        "maxLength": CLUSTER_NAME_MAX_LENGTH,
        **_rules(_rule(f"self.matches('^{_DNS_LABEL}$')", FORMER_NAME_TEXT)),
    },
    "VirtualCluster.taints": {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key", "effect"],
    },
    "VirtualCluster.quota[]": NOT_NEGATIVE,
    "VirtualCluster.allowedKinds[]": _PATTERN,
    "VirtualCluster.deniedKinds[]": _PATTERN,
    "VirtualCluster.windowPasses[]": _PATTERN,
    "VirtualCluster.window": _rules(
        _rule(
            f"self == '' || self.matches('^ *{ONE_WINDOW}( *; *{ONE_WINDOW})* *$')",
            f"is not a valid window; {WINDOW_RULE}",
        )
    ),
    "VirtualCluster.allow[]": _rules(
        _rule(
            f"self in {_listed(tuple(Guard))} || self.matches('^[^/]+/[^/]+(/[^/]+)?$')",
            f"must be one of {', '.join(Guard)}, a group/Kind, or a group/Kind/name",
        )
    ),
    "ApplyAs.namespace": _DNS_NAME,
    "ApplyAs.name": _DNS_NAME,
}
"""By the name of a struct, `Struct.key` of a setting, or `Struct.key[]` of what is in it."""

_RANGE: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 253},
        "min": _QUANTITY,
        "max": _QUANTITY,
    },
}

ITEMS: Mapping[str, Object] = {
    "VirtualCluster.taints": {
        "type": "object",
        "required": ["key", "effect"],
        "properties": {
            "key": _KEY,
            "value": _VALUE,
            "effect": _choice(("NoSchedule", "NoExecute")),
        },
    },
    "VirtualCluster.tolerations": {
        "type": "object",
        "properties": {
            "key": {"type": "string", "maxLength": 317},
            "operator": _choice(("Exists", "Equal")),
            "value": _VALUE,
            "effect": _choice(("NoSchedule", "PreferNoSchedule", "NoExecute")),
            "tolerationSeconds": {"type": "integer", "format": "int64"},
        },
        **_rules(
            _rule(
                f"!has(self.key) || self.key == '' || self.key.matches('{_LABEL_KEY}')",
                f"the key {_LABEL_KEY_TEXT}",
            ),
            _rule(
                "(has(self.key) && self.key != '') || "
                "(has(self.operator) && self.operator == 'Exists')",
                "key is not set; only operator Exists tolerates every key",
            ),
            _rule(
                "!(has(self.operator) && self.operator == 'Exists' && has(self.value) && "
                "self.value != '')",
                "value must not be set with operator Exists",
            ),
            _rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds needs effect NoExecute",
            ),
        ),
    },
    "VirtualCluster.resourceModels": {
        "type": "object",
        "required": ["grade", "ranges"],
        "properties": {
            "grade": {"type": "integer", "minimum": 0},
            "ranges": {"type": "array", "minItems": 1, "maxItems": 16, "items": _RANGE},
        },
    },
    "VirtualCluster.limits": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": _choice(("Container", "Pod", "PersistentVolumeClaim")),
            **dict.fromkeys(_LIMITS, _QUANTITIES),
        },
    },
}
"""Schemas of objects of Kubernetes that a setting is a list of, by `Struct.key`."""


def rules_in(schema: Any) -> list[Object]:
    """Return all CEL rules of a schema."""
    if isinstance(schema, list):
        return [rule for inner in schema for rule in rules_in(inner)]
    if not isinstance(schema, dict):
        return []
    own = list(schema.get("x-kubernetes-validations") or [])
    return own + [rule for inner in schema.values() for rule in rules_in(inner)]
