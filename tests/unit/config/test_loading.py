"""AgentConfig: what may be set where, and what every mistake is told as."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from karmada_vc_agent.config.decoding import ConfigError, flags_of
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig, KindPaths
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.quantity import Duration, Size
from karmada_vc_agent.model.virtual_cluster import ApplyAs, Bounds, Requirement

HEAD: dict[str, Any] = {
    "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
    "kind": "AgentConfig",
}
BRANCH_A: dict[str, Any] = {
    "name": "branch-a",
    "nodeSelector": {"matchLabels": {"branch": "a"}},
}


class File:
    """A settings file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "agent.yaml"

    def load(self, overrides: dict[str, Any] | None = None, **settings: Any) -> AgentConfig:
        settings.setdefault("virtualClusters", [BRANCH_A])
        self.path.write_text(yaml.safe_dump({**HEAD, **settings}))
        return load_config(CONFIG, self.path, overrides or {})

    def problem(self, overrides: dict[str, Any] | None = None, **settings: Any) -> str:
        """Load what must be refused; return the message without the file's name."""
        with pytest.raises(ConfigError) as raised:
            self.load(overrides, **settings)
        text = str(raised.value)
        assert text.startswith(f"{self.path}: "), text
        assert "\n" not in text
        return text.removeprefix(f"{self.path}: ")

    def text(self, content: str) -> str:
        """Load a file of this text, which must be refused; return the message."""
        self.path.write_text(content)
        with pytest.raises(ConfigError) as raised:
            load_config(CONFIG, self.path, {})
        return str(raised.value)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def test_minimal_file_gives_the_defaults(file: File) -> None:
    config = file.load()
    assert config.virtual_clusters[0].name == "branch-a"
    assert config.cluster_lease_duration == 40.0
    assert config.agent_name == "karmada-vc-agent"
    assert config.forbidden_namespaces == ("kube-*",)


def test_every_setting_of_a_virtual_cluster_is_read(file: File) -> None:
    entry = {
        "name": "branch-a",
        "nodeSelector": {
            "matchLabels": {"branch": "a"},
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}],
        },
        "nodeNames": ["n1"],
        "clusterLabels": {"tier": "edge"},
        "provider": "acme",
        "region": "south",
        "zones": ["s1"],
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "namespaces": "OnDemand",
        "adoptNamespaces": ["mine"],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "offlineTolerations": True,
        "quota": {"pods": 20, "requests.cpu": "4"},
        "limits": [{"type": "Container", "default": {"cpu": "1"}}],
        "networkPolicy": "isolate",
        "podSecurity": "baseline",
        "allowedKinds": ["apps/*", "ConfigMap"],
        "deniedKinds": ["apps/DaemonSet"],
        "applyAs": {"namespace": "tenants", "name": "branch-a", "clusterRole": "edit"},
        "serviceNames": "SearchDomain",
        "allow": ["HostPath", "argoproj.io/Application"],
    }
    (vc,) = file.load(virtualClusters=[entry]).virtual_clusters
    assert vc.node_selector.match_labels == {"branch": "a"}
    expected = Requirement("zone", "In", frozenset(("x", "y")))
    assert vc.node_selector.match_expressions == (expected,)
    assert (vc.node_names, vc.cluster_labels) == (("n1",), {"tier": "edge"})
    assert (vc.provider, vc.region, vc.zones) == ("acme", "south", ("s1",))
    assert (vc.namespaces, vc.adopt_namespaces) == ("OnDemand", ("mine",))
    assert vc.tolerations == ({"key": "k", "operator": "Exists"},)
    assert vc.offline_tolerations
    assert vc.quota == {"pods": "20", "requests.cpu": "4"}
    assert vc.limits == ({"type": "Container", "default": {"cpu": "1"}},)
    assert (vc.network_policy, vc.pod_security) == ("isolate", "baseline")
    assert vc.allowed_kinds == ("apps/*", "ConfigMap")
    assert vc.denied_kinds == ("apps/DaemonSet",)
    assert vc.apply_as == ApplyAs("tenants", "branch-a", "edit")
    assert vc.apply_as.user == "system:serviceaccount:tenants:branch-a"
    assert vc.service_names == "SearchDomain"
    assert vc.allow == ("HostPath", "argoproj.io/Application")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"quota": {"pods": "many"}}, 'quota[pods]: "many" is not a valid quantity'),
        ({"quota": {"pods": -1}}, "quota[pods]: must not be negative"),
        ({"limits": [{"type": "Node"}]}, 'limits[0].type: is "Node", must be Container, Pod or'),
        ({"limits": [{"type": "Pod", "most": {}}]}, "limits[0].most: is unknown"),
        ({"limits": [{"type": "Pod", "max": "1"}]}, 'limits[0].max: is "1", must be a map'),
        ({"limits": [{"type": "Pod", "max": {"cpu": "x"}}]}, 'limits[0].max[cpu]: "x" is not a'),
        ({"networkPolicy": "yes"}, 'networkPolicy: is "yes", must be none or isolate'),
        ({"podSecurity": "high"}, 'podSecurity: is "high", must be privileged, baseline or'),
        ({"serviceNames": "All"}, 'serviceNames: is "All", must be None, SearchDomain or'),
        ({"serviceNames": "VirtualFirst"}, "serviceNames: VirtualFirst needs clusterDNS to be set"),
        (
            {"deniedKinds": ["apps/"]},
            'deniedKinds[0]: "apps/" is not a valid kind; write group/Kind',
        ),
        (
            {"adoptNamespaces": ["shop", "kube-system"]},
            'adoptNamespaces[1]: "kube-system" belongs to the host itself: no virtual cluster may',
        ),
        ({"adoptNamespaces": ["kubeedge"]}, 'adoptNamespaces[0]: "kubeedge" belongs to the host'),
        ({"adoptNamespaces": ["a.b"]}, 'adoptNamespaces[0]: "a.b" is not a valid namespace'),
        ({"adoptNamespaces": ["a", "a"]}, 'adoptNamespaces[1]: "a" is listed twice'),
        ({"formerNames": ["a.b"]}, 'formerNames[0]: "a.b" is not a valid Cluster name'),
        ({"formerNames": ["a", "a"]}, 'formerNames[1]: "a" is listed twice'),
        (
            {"formerNames": ["shop-7", "branch-a"]},
            'formerNames[1]: "branch-a" is the name it has now; list it first, or not at all',
        ),
        ({"allow": ["Everything"]}, 'allow[0]: is "Everything", must be one of HostPath, '),
        ({"allow": ["argoproj.io/"]}, 'allow[0]: is "argoproj.io/", must be one of HostPath, '),
        ({"deniedKinds": ["/Pod"]}, 'deniedKinds[0]: "/Pod" is not a valid kind'),
        ({"allowedKinds": ["*"]}, 'allowedKinds[0]: "*" is every kind of the core group only'),
        (
            {"applyAs": {"namespace": "A", "name": "b"}},
            'applyAs.namespace: "A" is not a valid DNS name',
        ),
    ],
)
def test_wrong_limit_of_a_tenant_is_refused(
    file: File, entry: dict[str, Any], problem: str
) -> None:
    text = file.problem(virtualClusters=[{**BRANCH_A, **entry}])
    assert text.startswith(f"virtualClusters[0].{problem}"), text


def test_first_name_is_taken_back(file: File) -> None:
    vc = file.load(virtualClusters=[{**BRANCH_A, "formerNames": ["branch-a", "shop-7"]}])
    assert vc.virtual_clusters[0].name_on_host == "branch-a"


def test_what_another_one_has_cannot_be_taken_over(file: File) -> None:
    other = {"name": "branch-b", "nodeSelector": {"matchLabels": {"branch": "b"}}}
    text = file.problem(virtualClusters=[other, {**BRANCH_A, "formerNames": ["branch-b"]}])
    assert text == 'virtualClusters[1].formerNames: "branch-b" is used by virtualClusters[0].name'
    shop = {"adoptNamespaces": ["shop"]}
    text = file.problem(virtualClusters=[other | shop, {**BRANCH_A, **shop}])
    assert text.startswith('virtualClusters[1].adoptNamespaces: "shop" is used by virtual')
    text = file.problem(
        agentNamespace="agents", virtualClusters=[other | {"adoptNamespaces": ["agents"]}]
    )
    assert text.endswith('"agents" is used by agentNamespace')


def test_addresses_are_checked(file: File) -> None:
    config = file.load(podCIDRs=["10.244.0.0/16"], clusterDNS=["10.96.0.10"])
    assert (config.pod_cidrs, config.cluster_dns) == (("10.244.0.0/16",), ("10.96.0.10",))
    assert file.problem(podCIDRs=["10.244.0.1/16"]).startswith(
        'podCIDRs[0]: "10.244.0.1/16" has bits set beyond its prefix; write '
    )
    assert file.problem(clusterDNS=["dns"]) == (
        'clusterDNS[0]: "dns" is not a valid IP address; write for example 10.96.0.10'
    )
    assert file.problem(podCIDRs=["10.244"]) == (
        'podCIDRs[0]: "10.244" is not a valid CIDR; write for example 10.244.0.0/16'
    )


@pytest.mark.parametrize("setting", flags_of(CONFIG), ids=lambda setting: str(setting.name))
def test_every_flag_is_a_setting_of_the_file_in_camel_case(file: File, setting: Any) -> None:
    samples: dict[Any, Any] = {bool: not setting.default, int: 7, float: 0.5}
    value = samples.get(setting.kind, setting.choices[-1] if setting.choices else "x")
    expected = value
    if setting.kind is Duration:
        value, expected = ("500ms", 0.5) if "lease" not in setting.name else ("90s", 90.0)
    if setting.name == "leader_elect_renew_deadline":
        value, expected = "3s", 3.0
    if setting.name == "controllers":
        value = expected = "*,certRotation"
    if setting.name == "feature_gates":
        value = expected = "MultiClusterService=true"
    if setting.name == "namespace_template":
        value = expected = "{cluster}-x-{namespace}"
    if setting.name.endswith("_bind_address"):
        value = expected = ":1234"
    if setting.name == "shard":
        value = expected = "0/1"
    assert getattr(file.load(**{setting.key: value}), setting.name) == expected


@pytest.mark.parametrize("setting", ["cluster_api_qps", "clusterApiQps", "ClusterAPIQPS"])
def test_setting_written_otherwise_is_unknown(file: File, setting: str) -> None:
    unknown: dict[str, Any] = {setting: 5}
    assert file.problem(**unknown).startswith(f"{setting}: is unknown")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"clusterLeaseDuraton": "40s"}, "clusterLeaseDuraton: is unknown; did you mean"),
        ({"kind": "Other"}, 'kind: is "Other", must be "AgentConfig"'),
        ({"apiVersion": "v1"}, 'apiVersion: is "v1", must be "config.virtualcluster.kubeedge.io'),
        ({"virtualClusters": []}, "virtualClusters: is empty"),
        ({"virtualClusters": "x"}, 'virtualClusters: is "x", must be a list'),
        ({"virtualClusters": [{}]}, "virtualClusters[0].name: is not set"),
        ({"apiVersion": ""}, 'apiVersion: is not set, must be "config.virtualcluster.kubeedge.io'),
        ({"agentName": "No Label"}, 'agentName: "No Label" is not a valid DNS label'),
        ({"agentNamespace": "-x"}, 'agentNamespace: "-x" is not a valid DNS label'),
        ({"agentName": ["x"]}, "agentName: is a list, must be a string"),
        ({"agentName": 5}, "agentName: is 5, must be a string"),
        ({"clusterLeaseDuration": "soon"}, 'clusterLeaseDuration: "soon" is not a valid duration'),
        ({"clusterLeaseDuration": "40"}, 'clusterLeaseDuration: "40" is not a valid duration'),
        ({"concurrentWorkSyncs": "5"}, 'concurrentWorkSyncs: is "5", must be an integer'),
        ({"concurrentWorkSyncs": True}, "concurrentWorkSyncs: is true, must be an integer"),
        ({"concurrentWorkSyncs": 0}, "concurrentWorkSyncs: is 0, must be 1 or more"),
        ({"leaderElect": "yes"}, 'leaderElect: is "yes", must be true or false'),
        ({"logLevel": "loud"}, 'logLevel: is "loud", must be debug, info, warning or error'),
        ({"tenancy": "strict"}, 'tenancy: is "strict", must be Shared or Strict'),
        ({"logFormat": "xml"}, 'logFormat: is "xml", must be text or json'),
        (
            {"clusterLeaseRenewIntervalFraction": 1},
            "clusterLeaseRenewIntervalFraction: is 1, must be between 0 and 1",
        ),
        (
            {"leaderElectRenewDeadline": "15s"},
            "leaderElectRenewDeadline: is 15s, must be less than",
        ),
        ({"leaderElectRetryPeriod": "0s"}, "leaderElectRetryPeriod: is 0s, must be more than 0s"),
        ({"clusterLeaseDuration": "0s"}, "clusterLeaseDuration: is 0s, must be 1s or more"),
        ({"clusterLeaseDuration": -1}, "clusterLeaseDuration: is -1s, must be 1s or more"),
        (
            {"clusterStatusUpdateFrequency": 0},
            "clusterStatusUpdateFrequency: is 0s, must be more than 0s",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_mistake_is_reported_with_its_path(
    file: File, settings: dict[str, Any], expected: str
) -> None:
    assert file.problem(**settings).startswith((expected, f"{expected} - at")) or (
        expected in file.problem(**settings)
    )


def cluster(**fields: Any) -> dict[str, Any]:
    return {**BRANCH_A, **fields}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            cluster(nodeSelectr={}),
            "virtualClusters[1].nodeSelectr: is unknown; did you mean",
        ),
        (cluster(name="Branch"), 'virtualClusters[1].name: "Branch" is not a valid Cluster name'),
        (cluster(name="a.b"), 'virtualClusters[1].name: "a.b" is not a valid Cluster name'),
        (cluster(name="x" * 49), "virtualClusters[1].name: "),
        (cluster(name=""), 'virtualClusters[1].name: "" is not a valid Cluster name'),
        (cluster(name="-a"), 'virtualClusters[1].name: "-a" is not a valid Cluster name'),
        (
            cluster(name=7),
            'virtualClusters[1].name: is 7, must be a string; write it in quotes: "7"',
        ),
        ({"name": "b"}, "virtualClusters[1].nodeSelector: selects no nodes"),
        ({"name": "b", "nodeSelector": {}}, "virtualClusters[1].nodeSelector: selects no nodes"),
        (
            {"name": "b", "nodeSelector": {"matchLabels": {}}},
            "virtualClusters[1].nodeSelector: selects no nodes",
        ),
        (
            {"name": "b", "nodeSelector": {"matchLabels": {"a b": "c"}}},
            'virtualClusters[1].nodeSelector.matchLabels: "a b" is not a valid label key',
        ),
        (
            {"name": "b", "nodeSelector": {"matchLabels": {"a": "b c"}}},
            'virtualClusters[1].nodeSelector.matchLabels[a]: "b c" is not a valid label value',
        ),
        (
            {"name": "b", "nodeSelector": {"matchLabels": {"a": True}}},
            "virtualClusters[1].nodeSelector.matchLabels[a]: is true, must be a string; ",
        ),
        (
            cluster(name="b", namespaces="Sometimes"),
            'virtualClusters[1].namespaces: is "Sometimes"',
        ),
        (
            cluster(name="b", region="a b"),
            'virtualClusters[1].region: "a b" is not a valid label value',
        ),
        (
            cluster(name="b", zones=["a b"]),
            'virtualClusters[1].zones: "a b" is not a valid label value',
        ),
        (cluster(name="b", clusterLabels={"/": "x"}), "virtualClusters[1].clusterLabels: "),
    ],
    ids=lambda value: str(value)[:40],
)
def test_mistake_in_a_virtual_cluster_is_reported_with_its_path(
    file: File, entry: dict[str, Any], expected: str
) -> None:
    other = {"name": "other", "nodeSelector": {"matchLabels": {"branch": "other"}}}
    assert file.problem(virtualClusters=[other, entry]).startswith(expected)


MODEL = {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}
TAINT = {"key": "edge", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"taints": [{"effect": "NoSchedule"}]}, "taints[0].key: "),
        ({"taints": [{"key": "k", "effect": "Prefer"}]}, 'taints[0].effect: is "Prefer", must be'),
        ({"taints": [TAINT, {**TAINT, "value": "x"}]}, "taints[1]: key and effect are used twice"),
        (
            {"resourceModels": [{**MODEL, "grade": "0"}]},
            'resourceModels[0].grade: is "0", must be an integer',
        ),
        (
            {"resourceModels": [MODEL, {"grade": 1, "ranges": [{"name": "cpu", "min": "a lot"}]}]},
            'resourceModels[1].ranges[0].min: "a lot" is not a valid quantity',
        ),
        (
            {"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu"}]}, MODEL]},
            "resourceModels[0].ranges[0].max: is not set",
        ),
        ({"resourceModels": [{"grade": 0}]}, "resourceModels[0].ranges: is not set"),
        (
            {"resourceModels": [{"grade": 0, "ranges": []}]},
            "resourceModels[0].ranges: is empty; give name",
        ),
        (
            {"resourceModels": [{"grade": 0, "ranges": [{"min": "0", "max": "1"}]}]},
            "resourceModels[0].ranges[0].name: is not set",
        ),
        (
            {"resourceModels": [{"grade": 0, "ranges": ["x"]}]},
            'resourceModels[0].ranges[0]: is "x", must be a map',
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_mistake_in_taints_and_models_is_reported_with_its_path(
    file: File, fields: dict[str, Any], expected: str
) -> None:
    found = file.problem(virtualClusters=[cluster(**fields)])
    assert found.startswith(f"virtualClusters[0].{expected}")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            {"key": "a", "operator": "Equals"},
            'operator: is "Equals", must be In, NotIn, Exists or DoesNotExist',
        ),
        ({"key": "a", "operator": "In"}, "values: must not be empty with In"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values: must be empty with Exists"),
    ],
)
def test_mistake_in_an_expression_is_reported_with_its_path(
    file: File, expression: dict[str, Any], expected: str
) -> None:
    entry = {"name": "b", "nodeSelector": {"matchExpressions": [expression]}}
    path = "virtualClusters[0].nodeSelector.matchExpressions[0]"
    assert file.problem(virtualClusters=[entry]).startswith(f"{path}.{expected}")


def test_name_of_48_characters_is_allowed(file: File) -> None:
    (vc,) = file.load(virtualClusters=[cluster(name="x" * 48)]).virtual_clusters
    assert vc.name == "x" * 48


def test_two_clusters_of_one_name_are_refused(file: File) -> None:
    second = cluster(nodeSelector={"matchLabels": {"branch": "b"}})
    assert file.problem(virtualClusters=[BRANCH_A, second]) == (
        'virtualClusters[1].name: "branch-a" is used by virtualClusters[0].name'
    )


def test_selectors_that_are_the_same_are_refused(file: File) -> None:
    first = {"matchLabels": {"branch": "a"}}
    second = {"matchExpressions": [{"key": "branch", "operator": "In", "values": ["a"]}]}
    entries = [{"name": "one", "nodeSelector": first}, {"name": "two", "nodeSelector": second}]
    assert file.problem(virtualClusters=entries) == (
        "virtualClusters[1].nodeSelector: selects the same nodes as virtualClusters[0].nodeSelector"
    )


@pytest.mark.parametrize(
    "second",
    [
        {"nodeSelector": {"matchLabels": {"branch": "b"}}},
        {"nodeSelector": {"matchLabels": {"rack": "1"}}},
        {"nodeNames": ["n1"]},
    ],
)
def test_selectors_that_may_be_apart_are_allowed(file: File, second: dict[str, Any]) -> None:
    assert file.load(virtualClusters=[BRANCH_A, {"name": "two", **second}])


def test_node_named_by_two_clusters_is_refused(file: File) -> None:
    entries = [{"name": "one", "nodeNames": ["n1", "n2"]}, {"name": "two", "nodeNames": ["n2"]}]
    assert file.problem(virtualClusters=entries) == (
        'virtualClusters[1].nodeNames: "n2" is used by virtualClusters[0].nodeNames'
    )


def test_controller_that_does_not_exist_is_refused(file: File) -> None:
    assert file.problem(controllers="*,-lease") == (
        'controllers: "lease" is not a controller, must be clusterStatus, execution, workStatus, '
        "serviceExport, endpointsliceCollect, certRotation or hostEvents"
    )


def test_gate_that_does_not_exist_is_refused(file: File) -> None:
    assert file.problem(featureGates="Failover=true") == (
        'featureGates: "Failover" is not a feature gate, must be MultiClusterService or '
        "CustomizedClusterResourceModeling"
    )


def test_flag_beats_the_file(file: File) -> None:
    config = file.load({"cluster_lease_duration": "2m"}, clusterLeaseDuration="1m")
    assert config.cluster_lease_duration == 120.0


def test_absent_flag_leaves_the_file(file: File) -> None:
    config = file.load({"cluster_lease_duration": None}, clusterLeaseDuration="1m")
    assert config.cluster_lease_duration == 60.0


def test_false_flag_beats_the_file(file: File) -> None:
    assert file.load({"leader_elect": False}, leaderElect=True).leader_elect is False


def test_mistake_in_a_flag_names_the_flag(file: File) -> None:
    with pytest.raises(ConfigError) as raised:
        file.load({"cluster_lease_duration": "soon"})
    assert str(raised.value) == (
        'flags: --cluster-lease-duration: "soon" is not a valid duration; '
        "write for example 40s or 2m"
    )


@pytest.mark.parametrize("value", ["12.5", "12"])
def test_number_from_a_flag_or_the_environment_is_a_text(file: File, value: str) -> None:
    assert file.load({"kube_api_qps": value}).kube_api_qps == float(value)


def test_number_that_is_none_names_the_flag(file: File) -> None:
    with pytest.raises(ConfigError, match=r'^flags: --kube-api-qps: is "many", must be a number$'):
        file.load({"kube_api_qps": "many"})


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    with pytest.raises(ConfigError) as raised:
        load_config(CONFIG, path, {})
    assert str(raised.value) == f"{path}: No such file or directory"


@pytest.mark.parametrize("content", ["", "[]", "text"])
def test_file_that_is_no_mapping_is_refused(file: File, content: str) -> None:
    assert file.text(content) == f"{file.path}: empty, or not a mapping of settings"


@pytest.mark.parametrize("content", ["a: [", "\ta: 1", "a: b: c", "\x00"])
def test_file_that_is_no_yaml_is_refused_in_one_line(file: File, content: str) -> None:
    text = file.text(content)
    assert text.startswith(f"{file.path}: not valid YAML: ")
    assert "\n" not in text


def test_settings_without_a_file_lack_virtual_clusters() -> None:
    with pytest.raises(ConfigError, match=r"^flags: --config: give the file with the settings"):
        load_config(CONFIG, None, {})


@pytest.mark.parametrize(
    "content",
    [
        "a\\nb: 1",
        '"\\x07": 1',
        "virtualClusters: &all [*all]",
        "&all {virtualClusters: *all}",
        "[" * 5000,
        '{"virtualClusters": ' + "[" * 500 + "]" * 500 + "}",
        "? [a, b]\n: 1",
        "1: 2",
        "!!binary aGk=",
        '"\\ud800": 1',
        "kubeAPIQPS: .nan",
        "clusterLeaseDuration: 1e400",
        "concurrentWorkSyncs: 0x7fffffffffffffffffff",
    ],
)
def test_settings_of_any_shape_are_reported_on_one_line(file: File, content: str) -> None:
    text = file.text(content)
    assert text.startswith(f"{file.path}: ")
    assert text.isprintable()


def test_bounds_of_all_hold_where_a_virtual_cluster_names_none(file: File) -> None:
    other = {"name": "branch-b", "nodeNames": ["b"], "bounds": {"works": 7, "bytes": 0}}
    bounds = {"works": 10, "bytes": "1.5Mi", "manifestsPerWork": 3}
    found = file.load(bounds=bounds, virtualClusters=[BRANCH_A, other]).virtual_clusters
    assert found[0].bounds == Bounds(10, Size(1572864), 3, 100, 200)
    assert found[1].bounds == Bounds(7, Size(0), 3, 100, 200)
    assert file.load().virtual_clusters[0].bounds == Bounds()


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({"works": -1}, "bounds.works: is -1, must be 0 (no bound) or more"),
        (
            {"bytes": "much"},
            'bounds.bytes: "much" is not a valid quantity; write for example 500m, 2 or 1.5Gi',
        ),
        ({"kinds": 1.5}, "bounds.kinds: is 1.5, must be an integer"),
        ({"pods": 1}, "bounds.pods: is unknown"),
    ],
)
def test_mistakes_in_bounds(file: File, bounds: Any, problem: str) -> None:
    assert file.problem(bounds=bounds) == problem
    entry = {**BRANCH_A, "bounds": bounds}
    assert file.problem(virtualClusters=[entry]).endswith(problem)


def test_null_is_as_if_nothing_were_set(file: File) -> None:
    own = {"works": 7, "kinds": None}
    entry = {"name": "branch-a", "nodeNames": ["n"], "nodeSelector": None, "bounds": own}
    bounds = {"works": None, "kinds": 50}
    config = file.load(virtualClusters=[entry], agentName=None, podCIDRs=None, bounds=bounds)
    assert (config.agent_name, config.pod_cidrs) == ("karmada-vc-agent", ())
    assert config.virtual_clusters[0].bounds == Bounds(works=7, kinds=50)
    assert not config.virtual_clusters[0].node_selector


@pytest.mark.parametrize("name", ["quota", "allowedKinds", "namespaces"])
def test_null_in_a_virtual_cluster_is_refused(file: File, name: str) -> None:
    told = file.problem(virtualClusters=[{**BRANCH_A, name: None}])
    assert told.startswith(f"virtualClusters[0].{name}: is null, must be ")


def test_account_that_join_makes_cannot_be_claimed(file: File) -> None:
    account = {"namespace": "tenants", "name": "a", "isDefault": True}
    assert file.problem(virtualClusters=[{**BRANCH_A, "applyAs": account}]) == (
        "virtualClusters[0].applyAs.isDefault: is unknown"
    )


@pytest.mark.parametrize("kind", ["ClusterIssuer", "a/b/C", "cert-manager.io/"])
def test_kind_without_a_group_is_refused(file: File, kind: str) -> None:
    assert file.problem(clusterScopedKinds={kind: "rename"}) == (
        f'clusterScopedKinds["{kind}"]: is not a valid group/Kind; '
        "write for example cert-manager.io/ClusterIssuer"
    )


def test_kinds_and_their_paths_are_read(file: File) -> None:
    rows = [{"group": "example.com", "kind": "Widget", "paths": ["spec.template"]}]
    config = file.load(podTemplates=rows, clusterScopedKinds={"a.io/B": "share"})
    assert config.pod_templates == (KindPaths("example.com", "Widget", ("spec.template",)),)
    assert config.cluster_scoped_kinds == {"a.io/B": "share"}
    assert file.problem(podTemplates=[{**rows[0], "path": []}]) == (
        'podTemplates[0].path: is unknown; did you mean "paths"?'
    )


def test_long_value_is_cut_and_its_rule_is_reported(file: File) -> None:
    told = file.problem(virtualClusters=[{**BRANCH_A, "name": "b" * 3000}])
    assert told.startswith('virtualClusters[0].name: "bbb')
    assert '..." is not a valid Cluster name: at most 48 characters' in told
    assert len(told) < 300


def test_objects_may_be_all_there_is(file: File) -> None:
    config = file.load(virtualClusters=[], objects={"enabled": True})
    assert config.virtual_clusters == ()
    assert config.objects.enabled


def test_any_name_is_not_for_tenants_that_do_not_trust_each_other(file: File) -> None:
    problem = file.problem(tenancy="Strict", objects={"enabled": True, "anyName": True})
    assert "objects.anyName: is true, must be false with tenancy Strict" in problem


def test_a_device_is_no_settings_file() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(CONFIG, Path("/dev/zero"), {})
    text = "/dev/zero: has more than 16 MiB; no file of its kind has that much"
    assert str(raised.value) == text
