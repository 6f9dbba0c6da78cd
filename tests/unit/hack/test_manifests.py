"""manifests/ is what `join` makes; e2e/test_manifests.py renders base, overlays and chart."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from generate.manifests import AGENT, CHART, MANIFESTS, ROOT, SETTINGS, files, host_parts
from karmada_vc_agent.cli import main
from karmada_vc_agent.install.apply_objects import manifest_text
from karmada_vc_agent.install.join import IMAGE
from karmada_vc_agent.model.objects import key_of

FILES = files()
BASE = MANIFESTS / "base"
Yaml = dict[str, Any]


def load(path: Path) -> Yaml:
    content: Yaml = yaml.safe_load(path.read_text())
    return content


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == FILES[path], "run hack/update-manifests"


def test_join_makes_what_the_manifests_have() -> None:
    result = CliRunner().invoke(main, ["join", "--config", str(SETTINGS), "-o", "yaml"])
    assert result.exit_code == 0, result.output
    made = list(yaml.safe_load_all(result.output))
    for obj in made:
        if obj["kind"] == "Deployment":  # the digest of the settings
            del obj["spec"]["template"]["metadata"]["annotations"]
    texts = [FILES[MANIFESTS / "hub.yaml"]]
    texts += [FILES[BASE / name] for name in host_parts(AGENT, IMAGE)[0]]
    there = [obj for text in texts for obj in yaml.safe_load_all(text)]
    assert [obj for obj in made if obj["kind"] != "ConfigMap"] == there


def test_base_has_every_file() -> None:
    kustomization = load(BASE / "kustomization.yaml")
    there = {path.name for path in BASE.iterdir()} - {"kustomization.yaml", SETTINGS.name}
    assert set(kustomization["resources"]) == there
    parts, _ = host_parts(AGENT, IMAGE)
    order = [name for name in kustomization["resources"] if name in parts]
    assert order == list(parts), "policies come before the bindings that they confine"


@pytest.mark.parametrize("overlay", ["kubeedge", "dev"])
def test_overlay_keeps_the_order(overlay: str) -> None:
    kustomization = load(MANIFESTS / "overlays" / overlay / "kustomization.yaml")
    assert kustomization["sortOptions"] == {"order": "fifo"}
    assert kustomization["resources"] == ["../../base"]


def test_what_scrapes_verifies_and_sends_a_token_for_metrics_only() -> None:
    objects = list(
        yaml.safe_load_all((MANIFESTS / "components/monitoring/monitoring.yaml").read_text())
    )
    [secret] = [each for each in objects if each["kind"] == "Secret"]
    monitors = [each for each in objects if each["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    for monitor in monitors:
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint.keys() == {"port", "scheme", "tlsConfig", "authorization"}
        assert endpoint["tlsConfig"].keys() == {"ca", "serverName"}
        assert endpoint["authorization"]["credentials"]["name"] == secret["metadata"]["name"]
    [binding] = [each for each in objects if each["kind"] == "ClusterRoleBinding"]
    assert binding["subjects"][0]["name"] == secret["metadata"]["name"]


def test_chart_with_its_own_values_is_the_base() -> None:
    values = load(CHART / "values.yaml")
    resources = yaml.safe_dump(values["resources"], indent=2).splitlines()
    filled = {
        "{{ .Release.Namespace }}": AGENT,
        "{{ .Values.image | quote }}": f'"{values["image"]}"',
        "{{ .Values.replicas }}": str(values["replicas"]),
        "{{ toYaml .Values.resources | indent 10 }}": "\n".join(" " * 10 + r for r in resources),
    }
    for name, objects in host_parts(AGENT, IMAGE)[0].items():
        text = (CHART / "templates" / name).read_text()
        # Without shards.
        text = re.sub(r"(?s)\n\{\{- if [^}]*shards[^}]* \}\}\n.*?\n\{\{- end \}\}", "", text)
        text = re.sub(r"\{\{ if [^}]*shards.*?else \}\}(.*?)\{\{ end \}\}", r"\1", text)
        for expression, value in filled.items():
            text = text.replace(expression, value)
        rendered = list(yaml.safe_load_all(text))
        assert rendered == [obj for obj in objects if obj["kind"] != "Namespace"], name
    assert values["settings"].strip() == SETTINGS.read_text().strip()


def test_version_of_the_chart_is_that_of_the_agent() -> None:
    chart = load(CHART / "Chart.yaml")
    assert chart["appVersion"] == chart["version"] == IMAGE.rpartition(":")[2]


def test_base_with_the_gateway_has_all_of_it(tmp_path: Path) -> None:
    on = yaml.safe_load(SETTINGS.read_text()) | {
        "gateway": {"enabled": True, "host": "gateway.example"}
    }
    settings = tmp_path / "agent.yaml"
    settings.write_text(yaml.safe_dump(on))
    parts, why = host_parts(AGENT, IMAGE, settings)
    found = {str(key_of(obj)) for objects in parts.values() for obj in objects}
    off = {str(key_of(obj)) for objects in host_parts(AGENT, IMAGE)[0].values() for obj in objects}
    name = f"{AGENT}/{AGENT}-gateway"
    kinds = ("Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "Secret")
    assert {f"{kind} {name}" for kind in (*kinds, "ServiceAccount")} <= found - off
    assert "ClusterRole virtual-cluster-reader" in found - off
    assert off < found
    result = CliRunner().invoke(main, ["join", "--config", str(settings), "-o", "yaml"])
    assert result.exit_code == 0, result.output
    joined = {str(key_of(obj)) for obj in yaml.safe_load_all(result.output)}
    assert found <= joined
    for objects in parts.values():
        text = manifest_text(objects, why, "")
        assert list(yaml.safe_load_all(text)) == objects


@pytest.mark.parametrize("tenancy", ["Shared", "Strict"])
def test_manifests_have_nothing_that_depends_on_names_of_join(tmp_path: Path, tenancy: str) -> None:
    on = yaml.safe_load(SETTINGS.read_text()) | {
        "virtualClusters": [],
        "nodeGroups": {"enabled": True},
        "gateway": {"enabled": True, "host": "gateway.example"},
        "tenancy": tenancy,
    }
    settings = tmp_path / "agent.yaml"
    settings.write_text(yaml.safe_dump(on))
    made = files(settings)
    kinds = {
        obj["kind"]
        for path in made
        if path.is_relative_to(BASE) or path == MANIFESTS / "hub.yaml"
        for obj in yaml.safe_load_all(made[path])
        if obj
    }
    assert "Deployment" in kinds
    assert not {kind for kind in kinds if "Policy" in kind and "Admission" in kind}
    assert not {kind for kind in kinds if "Role" in kind}
    join = ["join", "--config", str(settings), "--only", "host", "-o", "yaml", "--name", "a"]
    result = CliRunner().invoke(main, join)
    assert result.exit_code == 0, result.output
    assert "without the names of an earlier join" in result.output


def test_pods_meet_the_standard_that_their_namespace_asks_for() -> None:
    (namespace, _), (*_, deployment) = (
        host_parts(AGENT, IMAGE)[0][name] for name in ("namespace.yaml", "agent-objects.yaml")
    )
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["runAsNonRoot"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    volumes = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
    assert volumes <= {"configMap", "secret", "emptyDir", "projected"}
