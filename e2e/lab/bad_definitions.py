"""Virtual clusters that nobody can have, and what is told of each.

The unit tests hold the settings file to this table, the story of the CRD the API server.
"""

from typing import Any

NODES = {"nodeSelector": {"matchLabels": {"branch": "south"}}}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no nodes": ({}, "selects no nodes"),
    "empty selector": ({"nodeSelector": {"matchLabels": {}}}, "selects no nodes"),
    "unknown operator": (
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        "Is",
    ),
    "expression without values": (
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "must not be empty with In",
    ),
    "expression with values": (
        {
            "nodeSelector": {
                "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]
            }
        },
        "must be empty with Exists",
    ),
    "label key": ({"nodeSelector": {"matchLabels": {"a b": "x"}}}, "is not a valid label key"),
    "label value": ({"nodeSelector": {"matchLabels": {"a": "x y"}}}, "is not a valid label value"),
    "label of the Cluster": (NODES | {"clusterLabels": {"a": "-"}}, "is not a valid label value"),
    "region": (NODES | {"region": "a b"}, "is not a valid label value"),
    "node name": ({"nodeNames": ["Edge_1"]}, "is not a valid"),
    "node named twice": ({"nodeNames": ["edge-1", "edge-1"]}, "edge-1"),
    "namespace of the system": (
        NODES | {"adoptNamespaces": ["kube-system"]},
        "belongs to the host itself",
    ),
    "namespace of KubeEdge": (NODES | {"adoptNamespaces": ["kubeedge"]}, "belongs to the host"),
    "namespace of Karmada": (
        NODES | {"adoptNamespaces": ["karmada-system"]},
        "belongs to the host itself",
    ),
    "namespace that none can have": (
        NODES | {"adoptNamespaces": ["Edge"]},
        "is not a valid namespace",
    ),
    "namespace adopted twice": (NODES | {"adoptNamespaces": ["edge", "edge"]}, "edge"),
    "window": (NODES | {"window": "Mon-Fri 22-05"}, "is not a valid window"),
    "second window": (NODES | {"window": "10:00-11:00; Mo 22:00-05:00"}, "is not a valid window"),
    "what passes windows": (NODES | {"windowPasses": ["a/b/c"]}, "is not a pattern for kinds"),
    "bound of bytes": (NODES | {"bounds": {"bytes": "lots"}}, "should match"),
    "bound below zero": (NODES | {"bounds": {"bytes": "-1Mi"}}, "should match"),
    "former name": (NODES | {"formerNames": ["a.b"]}, "is not a valid Cluster name"),
    "taint without effect": (NODES | {"taints": [{"key": "a"}]}, "effect"),
    "effect of a taint": (
        NODES | {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]},
        "PreferNoSchedule",
    ),
    "key of a taint": (
        NODES | {"taints": [{"key": "a b", "effect": "NoSchedule"}]},
        "is not a valid label key",
    ),
    "taint twice": (NODES | {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "NoSchedule"),
    "toleration of nothing": (NODES | {"tolerations": [{"value": "a"}]}, "key is not set"),
    "toleration with value": (
        NODES | {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "must not be set with operator Exists",
    ),
    "toleration for seconds": (
        NODES | {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
        "needs effect NoExecute",
    ),
    "quota": (NODES | {"quota": {"cpu": "much"}}, "should match"),
    "quota below nothing": (NODES | {"quota": {"cpu": "-1"}}, "should match"),
    "quota of minus one": (NODES | {"quota": {"cpu": -1}}, "greater than or equal to 0"),
    "type of a limit": (NODES | {"limits": [{"type": "Node"}]}, "Node"),
    "amount of a limit": (
        NODES | {"limits": [{"type": "Pod", "max": {"cpu": "x"}}]},
        "should match",
    ),
    "range of a model": (
        NODES
        | {"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "x", "max": "2"}]}]},
        "should match",
    ),
    "model without ranges": (NODES | {"resourceModels": [{"grade": 0}]}, "ranges"),
    "model of no resource": (NODES | {"resourceModels": [{"grade": 0, "ranges": []}]}, "ranges"),
    "pattern of kinds": (NODES | {"allowedKinds": ["*"]}, "write */* for all kinds"),
    "pattern with many slashes": (NODES | {"deniedKinds": ["a/b/c"]}, "is not a"),
    "allowance": (NODES | {"allow": ["Everything"]}, "must be one of HostPath"),
    "account": (NODES | {"applyAs": {"namespace": "A_b", "name": "c"}}, "is not a valid DNS name"),
    "account without a name": (NODES | {"applyAs": {"namespace": "b"}}, "name"),
    "bound below nothing": (NODES | {"bounds": {"works": -1}}, "0"),
    "choice": (NODES | {"namespaces": "Sometimes"}, "Sometimes"),
    "type": (NODES | {"offlineTolerations": "yes"}, "offlineTolerations"),
}
"""What is wrong -> (the spec, a part of what is told)."""

BAD_NAMES = ("a" * 49, "a.b")
"""Names that an object of Kubernetes may have and a Cluster may not."""
