"""Mistakes that a settings file can hold and that would be taken without a word."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.discovered.records import DiscoveredFields

ADOPTED_BY_ALL_TOLD = (
    "discover.settings.adoptNamespaces: is for a single virtual cluster; define that one in "
    "virtualClusters"
)
LABEL_KEY_TOLD = (
    'discover.nodeLabel: "X_/a" is not a valid label key: the part before "/" must be a DNS name'
)
HEAD = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: AgentConfig\n"


def load(tmp_path: Path, settings: dict[str, Any] | str) -> None:
    text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
    (tmp_path / "agent.yaml").write_text(HEAD + text)
    load_config(CONFIG, tmp_path / "agent.yaml", {})


def problem(tmp_path: Path, settings: dict[str, Any] | str) -> str:
    """Load what must be refused; return the one line of it, without the file's name."""
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, settings)
    text = str(raised.value)
    assert text.isprintable()
    file = f"{tmp_path / 'agent.yaml'}: "
    assert text.startswith(file)
    return text.removeprefix(file)


def with_entry(**fields: Any) -> dict[str, Any]:
    entry = {"name": "branch-a", "nodeSelector": {"matchLabels": {"branch": "a"}}}
    return {"virtualClusters": [{**entry, **fields}]}


def test_setting_that_is_set_twice_is_refused(tmp_path: Path) -> None:
    twice = "virtualClusters: [{name: a, nodeNames: [a]}]\n" * 2
    assert problem(tmp_path, twice) == (
        'line 4: "virtualClusters" is set twice, first in line 3; keep one of them'
    )


@pytest.mark.parametrize(
    "setting", ["clusterProvider", "clusterRegion", "clusterZones", "clusterHost"]
)
def test_description_of_clusters_that_is_no_label_value_is_refused(
    tmp_path: Path, setting: str
) -> None:
    found = problem(tmp_path, {**with_entry(), setting: "north west"})
    assert found.startswith(f'{setting}: "north west" is not a valid label value: ')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            'apiVersion: is "v1", must be "config.virtualcluster.kubeedge.io/v1alpha1"',
        ),
        (
            "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: 5\nclusters: []\n",
            'kind: is 5, must be "AgentConfig"',
        ),
        ("clusters: []\n", "apiVersion: is not set, must be "),
    ],
    ids=["other kind", "no kind", "nothing"],
)
def test_file_of_another_kind_is_reported_by_its_kind(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config(CONFIG, file, {})
    assert str(raised.value).startswith(f"{file}: {expected}")


@pytest.mark.parametrize("setting", ["dnsNamespace", "karmadaKubeconfigNamespace"])
def test_namespace_that_none_can_be_is_refused(tmp_path: Path, setting: str) -> None:
    found = problem(tmp_path, {**with_entry(), setting: "../x"})
    assert found.startswith(f'{setting}: "../x" is not a valid DNS label: ')


@pytest.mark.parametrize("domain", ["", "a b", "a\nb", "*", "cluster.local.", "a" * 254])
def test_domain_that_is_none_is_refused(tmp_path: Path, domain: str) -> None:
    found = problem(tmp_path, {**with_entry(), "clusterDomain": domain})
    assert found.startswith("clusterDomain: ")
    assert found.endswith("is not a valid DNS name, such as cluster.local")


def test_patterns_that_policies_read_otherwise_are_refused(tmp_path: Path) -> None:
    keys = ["example.com/*", "example.com/[!a]"]
    found = problem(tmp_path, {**with_entry(), "namespaceKeys": keys})
    assert found == 'namespaceKeys[1]: "example.com/[!a]" has a "["; use * and ? only'


@pytest.mark.parametrize("setting", ["metricsBindAddress", "healthProbeBindAddress"])
@pytest.mark.parametrize(
    "address",
    [":99999", ":65536", "x", ":", "a b:80", ":-1", ":\u0662", "[::1:80", "::1:80", "1.2.3:80"],
)
def test_address_that_is_none_is_refused(tmp_path: Path, setting: str, address: str) -> None:
    assert problem(tmp_path, {**with_entry(), setting: address}) == (
        f'{setting}: "{address}" is not a valid address; write host:port or :port (at most 65535), '
        "or 0 to disable it"
    )


@pytest.mark.parametrize(
    "address", ["", "0", ":0", ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:80", "a.b:65535"]
)
def test_address_is_taken(tmp_path: Path, address: str) -> None:
    load(tmp_path, {**with_entry(), "metricsBindAddress": address})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kubeAPIQPS": -1}, "kubeAPIQPS: is -1, must be 0 (no limit) or more"),
        ({"kubeAPIQPS": float("nan")}, "kubeAPIQPS: is nan, must be a finite number"),
        ({"clusterAPIQPS": float("inf")}, "clusterAPIQPS: is inf, must be a finite number"),
        ({"rateLimiterQPS": -0.5}, "rateLimiterQPS: is -0.5, must be 0 (no limit) or more"),
        ({"kubeAPIBurst": -1}, "kubeAPIBurst: is -1, must be 0 or more"),
        ({"clusterAPIBurst": -1}, "clusterAPIBurst: is -1, must be 0 or more"),
        ({"resyncPeriod": -1}, "resyncPeriod: is -1s, must be 0s (never) or more"),
        ({"clusterSuccessThreshold": -1}, "clusterSuccessThreshold: is -1s, must be 0s or more"),
        ({"rateLimiterMaxDelay": float("nan")}, "rateLimiterMaxDelay: is nan, must be a finite"),
    ],
    ids=str,
)
def test_number_that_cannot_be_used_is_refused(
    tmp_path: Path, settings: dict[str, Any], expected: str
) -> None:
    assert problem(tmp_path, {**with_entry(), **settings}).startswith(expected)


@pytest.mark.parametrize("name", ["N_!", "", "-a", "a..b", "Node", "a" * 254, "a/b"])
def test_node_name_that_no_node_can_have_is_refused(tmp_path: Path, name: str) -> None:
    assert problem(tmp_path, with_entry(nodeNames=["n", name])) == (
        f'virtualClusters[0].nodeNames[1]: "{name}" is not a valid node name: at most 253 '
        'characters; lower-case letters, digits, "-" and ".", each part beginning and ending with '
        "a letter or digit"
    )


def test_node_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path, with_entry(nodeNames=["n", "m", "n"])) == (
        'virtualClusters[0].nodeNames[2]: "n" is listed twice'
    )


def test_names_that_nodes_have_are_taken(tmp_path: Path) -> None:
    load(tmp_path, with_entry(nodeNames=["n", "10.0.0.1", "edge-1.shop.example", "a" * 253]))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kee": "a"}, 'tolerations[0].kee: is unknown; did you mean "key"?'),
        ({"foo": "a"}, "tolerations[0].foo: is unknown"),
        ({}, "tolerations[0].key: is not set; only operator Exists tolerates every key"),
        ({"key": "a b"}, 'tolerations[0].key: "a b" is not a valid label key'),
        ({"key": 5}, "tolerations[0].key: is 5, must be a string; write it in quotes"),
        (
            {"key": "a", "value": True},
            "tolerations[0].value: is true, must be a string; write it in",
        ),
        ({"key": "a", "operator": "Is"}, 'tolerations[0].operator: is "Is", must be Exists or'),
        (
            {"key": "a", "operator": "Exists", "value": "x"},
            "tolerations[0].value: must not be set with operator Exists",
        ),
        (
            {"key": "a", "effect": "None"},
            'tolerations[0].effect: is "None", must be NoSchedule, PreferNoSchedule or NoExecute',
        ),
        (
            {"key": "a", "effect": "NoExecute", "tolerationSeconds": "5"},
            'tolerations[0].tolerationSeconds: is "5", must be an integer',
        ),
        (
            {"key": "a", "tolerationSeconds": 5},
            "tolerations[0].tolerationSeconds: needs effect NoExecute",
        ),
    ],
    ids=str,
)
def test_toleration_that_no_pod_may_have_is_refused(
    tmp_path: Path, fields: dict[str, Any], expected: str
) -> None:
    found = problem(tmp_path, with_entry(tolerations=[fields]))
    assert found.startswith(f"virtualClusters[0].{expected}")


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "a"},
        {"key": "a", "operator": "Equal", "value": "x", "effect": "PreferNoSchedule"},
        {"key": "x.io/a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1},
        {"key": "a", "operator": "", "value": "", "effect": ""},
    ],
    ids=str,
)
def test_toleration_is_taken(tmp_path: Path, toleration: dict[str, Any]) -> None:
    load(tmp_path, with_entry(tolerations=[toleration]))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"key": "a", "effekt": "NoSchedule"}, 'effekt: is unknown; did you mean "effect"?'),
        ({"key": "a"}, "effect: is not set"),
        ({"key": "a", "effect": "NoSchedule", "value": 5}, "value: is 5, must be a string; write"),
        ({"key": 5, "effect": "NoSchedule"}, "key: is 5, must be a string; write it in quotes"),
        (
            {"key": "a", "effect": "NoSchedule", "value": "a b"},
            'value: "a b" is not a valid label value',
        ),
        (
            {"key": "a", "effect": ["NoSchedule"]},
            "effect: is a list, must be NoSchedule or NoExecute",
        ),
    ],
    ids=str,
)
def test_taint_that_no_cluster_may_have_is_refused(
    tmp_path: Path, fields: dict[str, Any], expected: str
) -> None:
    found = problem(tmp_path, with_entry(taints=[fields]))
    assert found.startswith(f"virtualClusters[0].taints[0].{expected}")


@pytest.mark.parametrize(
    ("ranges", "given"), [(1.5, "1.5"), ("cpu", '"cpu"'), ({"name": "cpu"}, "a map")]
)
def test_ranges_of_a_model_that_are_no_list_are_refused(
    tmp_path: Path, ranges: Any, given: str
) -> None:
    assert problem(tmp_path, with_entry(resourceModels=[{"grade": 0, "ranges": ranges}])) == (
        f"virtualClusters[0].resourceModels[0].ranges: is {given}, must be a list"
    )


def test_limit_without_a_type_is_reported(tmp_path: Path) -> None:
    assert problem(tmp_path, with_entry(limits=[{"max": {"cpu": 1}}])) == (
        "virtualClusters[0].limits[0].type: is not set"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"virtualCluster": []}, "virtualCluster: is unknown; did you mean"),
        (
            with_entry(nodeName=["a"]),
            "virtualClusters[0].nodeName: is unknown",
        ),
        (
            {"cluster_lease_duration": "4s"},
            "cluster_lease_duration: is unknown",
        ),
    ],
    ids=str,
)
def test_misspelt_setting_is_reported_with_a_suggestion(
    tmp_path: Path, settings: dict[str, Any], expected: str
) -> None:
    found = problem(tmp_path, settings)
    assert found.startswith(expected)
    meant = ("virtualClusters", "nodeNames", "clusterLeaseDuration")
    assert found.endswith(tuple(f'; did you mean "{name}"?' for name in meant))


def test_setting_that_is_like_no_other_is_only_named(tmp_path: Path) -> None:
    assert problem(tmp_path, {"zzz": 1}) == "zzz: is unknown"


def test_selector_labels_written_as_in_a_pod_are_reported_with_their_place(
    tmp_path: Path,
) -> None:
    assert problem(tmp_path, with_entry(nodeSelector={"branch": "a"})) == (
        "virtualClusters[0].nodeSelector.branch: is unknown; "
        "write labels as nodeSelector: {matchLabels: {branch: ...}}"
    )
    assert problem(tmp_path, with_entry(nodeSelector={"matchLabel": {}})).endswith(
        '; did you mean "matchLabels"?'
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"nodeSelector": {"matchLabels": {"x": "y", "a": True}}},
            'nodeSelector.matchLabels[a]: is true, must be a string; write it in quotes: "true"',
        ),
        (
            {"clusterLabels": {"k.io/k": 5}},
            "clusterLabels[k.io/k]: is 5, must be a string; write it in quotes",
        ),
        ({"nodeNames": ["a", 7]}, "nodeNames[1]: is 7, must be a string; write it in quotes"),
        ({"zones": [{"a": "b"}]}, "zones[0]: is a map, must be a string"),
        (
            {"clusterLabels": {"a": "b", 1: "x"}},
            "clusterLabels: a key is 1, must be a string; write it in quotes",
        ),
        (
            {"clusterLabels": {True: "x"}},
            "clusterLabels: a key is true, must be a string; write it in quotes",
        ),
        ({"quota": {1: 2}}, "quota: a key is 1, must be a string; write it in quotes"),
        ({"taints": [{1: 2}]}, "taints[0]: a key is 1, must be a string; write it in quotes"),
        (
            {"quota": {"pods": 1, "cpu": True}},
            "quota[cpu]: is true, must be a quantity such as 500m, 2 or 1.5Gi",
        ),
        ({"clusterLabels": {"k": None}}, "clusterLabels[k]: is null, must be a string"),
        ({"clusterLabels": {"k": ["x"]}}, "clusterLabels[k]: is a list, must be a string"),
        ({"nodeNames": [None]}, "nodeNames[0]: is null, must be a string"),
        (
            {"zones": [dt.date(2024, 1, 2)]},
            "zones[0]: is 2024-01-02, must be a string; write it in quotes",
        ),
        (
            {"clusterLabels": {"k": dt.date(2024, 1, 2)}},
            "clusterLabels[k]: is 2024-01-02, must be a string; write it in quotes",
        ),
        (
            {"clusterLabels": {dt.date(2024, 1, 2): "k"}},
            "clusterLabels: a key is 2024-01-02, must be a string",
        ),
    ],
    ids=str,
)
def test_value_that_is_no_text_is_reported_with_its_key(
    tmp_path: Path, fields: dict[str, Any], expected: str
) -> None:
    assert problem(tmp_path, with_entry(**fields)).startswith(f"virtualClusters[0].{expected}")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            f"tolerations: [{{operator: Exists, tolerationSeconds: {10**30}}}]",
            f"tolerations[0].tolerationSeconds: Expected `int` <= {2**63 - 1}",
        ),
        (
            f"tolerations: [{{operator: Exists, tolerationSeconds: 0x{'f' * 20_000}}}]",
            f"tolerations[0].tolerationSeconds: Expected `int` <= {2**63 - 1}",
        ),
        (
            f"resourceModels: [{{grade: -{10**30}, ranges: []}}]",
            f"resourceModels[0].grade: Expected `int` >= -{2**63 - 1}",
        ),
        (
            f"limits: [{{type: Pod, max: {{cpu: {10**30}}}}}]",
            "limits[0].max[cpu]: is too large",
        ),
        (
            "limits: [{type: Pod, max: {cpu: .inf}}]",
            'limits[0].max[cpu]: "inf" is not a valid quantity; write for example 500m, 2 or 1.5Gi',
        ),
        (
            "limits: [{type: Pod, max: {5: 1}}]",
            'limits[0].max: a key is 5, must be a string; write it in quotes: "5"',
        ),
        (
            "resourceModels: [{since: 2026-01-01}]",
            "resourceModels[0].since: is unknown",
        ),
        (
            "taints: [{key: a, value: !!binary YQ==, effect: NoExecute}]",
            "taints[0].value: is b'a', must be a string; write it in quotes: \"b'a'\"",
        ),
        (
            "resourceModels: [&it {grade: 0, more: *it}]",
            "resourceModels[0].more: is unknown",
        ),
    ],
    ids=["int", "hex", "negative", "amount", "inf", "key", "date", "bytes", "alias"],
)
def test_object_that_no_json_holds_is_refused_with_its_path(
    tmp_path: Path, entry: str, expected: str
) -> None:
    text = f"virtualClusters: [{{name: a, nodeNames: [a], {entry}}}]"
    assert problem(tmp_path, text) == f"virtualClusters[0].{expected}"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"nodeGroups": {"enabled": True, "nameTemplate": "shop"}},
            'nodeGroups.nameTemplate: "shop" must contain {name} once',
        ),
        (
            {"discover": {"nodeLabel": "X_/a"}},
            LABEL_KEY_TOLD,
        ),
        (
            {"discover": {"nodeLabel": "x", "settings": {"name": "y"}}},
            "discover.settings.name: is unknown",
        ),
        (
            {"nodeGroups": {"enabled": True, "settings": {"quota": {"cpu": "-1"}}}},
            "nodeGroups.settings.quota[cpu]: must not be negative",
        ),
        (
            {"nodeGroups": {"enabled": True, "settings": {"serviceNames": "VirtualFirst"}}},
            "nodeGroups.settings.serviceNames: VirtualFirst needs clusterDNS to be set",
        ),
        (
            {"discover": {"nodeLabel": "x", "settings": {"adoptNamespaces": ["shop"]}}},
            ADOPTED_BY_ALL_TOLD,
        ),
        (
            {"discover": {"nodeLabel": "x", "limit": 0}},
            "discover.limit: is 0, must be 1 or more",
        ),
    ],
)
def test_mistake_in_discovery_is_reported(
    tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    assert problem(tmp_path, settings) == told


def test_source_that_is_off_leaves_nothing_to_serve(tmp_path: Path) -> None:
    off: tuple[dict[str, Any], ...] = (
        {"nodeGroups": {"selector": {}}},
        {"discover": {"drain": True}},
    )
    for settings in off:
        assert problem(tmp_path, settings).startswith("virtualClusters: is empty")
    load(tmp_path, {"nodeGroups": {"enabled": True}})
    load(tmp_path, {"discover": {"nodeLabel": "x"}})


def test_general_bounds_are_defaults_of_discovered_ones(tmp_path: Path) -> None:
    text = """
bounds: {works: 7, kinds: 8}
nodeGroups: {enabled: true, settings: {bounds: {kinds: 9}}}
discover: {nodeLabel: x}
"""
    (tmp_path / "agent.yaml").write_text(HEAD + text)
    config = load_config(CONFIG, tmp_path / "agent.yaml", {})
    own = config.of(DiscoveredFields)
    groups, labels = own.node_groups.settings.bounds, own.discover.settings.bounds
    assert (groups.works, groups.kinds) == (7, 9)
    assert (labels.works, labels.kinds) == (7, 8)
