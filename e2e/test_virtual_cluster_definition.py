"""The API server takes the CRD of VirtualCluster objects, and refuses mistakes as it is told to."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab.api import Api, ApiError, Object, path_of
from e2e.lab.bad_definitions import BAD, BAD_NAMES, NODES
from e2e.lab.wait import eventually
from e2e.lab.works import condition

FILE = Path(__file__).parents[1] / "manifests" / "base" / "crd.yaml"
RICH: dict[str, Any] = {
    "nodeSelector": {
        "matchLabels": {"kubeedge.io/branch": "south"},
        "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}],
    },
    "nodeNames": ["edge-1.example"],
    "clusterLabels": {"tier": ""},
    "zones": ["a"],
    "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}],
    "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}],
    "resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "max": 2}]}],
    "quota": {"cpu": 2, "requests.memory": "1.5Gi"},
    "limits": [{"type": "Container", "default": {"cpu": "500m"}}],
    "adoptNamespaces": ["edge"],
    "formerNames": ["north"],
    "allowedKinds": ["apps/*", "Secret"],
    "allow": ["HostPath", "cert-manager.io/ClusterIssuer"],
    "applyAs": {"namespace": "a", "name": "b.c"},
    "bounds": {"works": 0, "bytes": "1Mi"},
    "paused": True,
    "deletionPolicy": "Preserve",
}


@pytest.fixture(scope="module")
def server(host: Api) -> Api:
    """Return the host with the CRD served."""
    crd = yaml.safe_load(FILE.read_text())
    try:
        host.create(crd)
    except ApiError as error:
        if error.code != 409:  # made beside this by another worker
            raise

    def look() -> None:
        live = host.get(path_of(crd))
        assert condition(live, "Established")["status"] == "True"
        schema = [c for c in live["status"]["conditions"] if c["type"] == "NonStructuralSchema"]
        assert not schema, schema
        assert not host.refusal(virtual_cluster("south", NODES))

    eventually(look)
    return host


def virtual_cluster(name: str, spec: dict[str, Any]) -> Object:
    return {
        "apiVersion": "virtualcluster.kubeedge.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize(("spec", "told"), BAD.values(), ids=BAD)
def test_mistake_is_refused_with_what_is_wrong(server: Api, spec: Object, told: str) -> None:
    refusal = server.refusal(virtual_cluster("south", spec))
    assert refusal.startswith("422"), refusal
    assert told in refusal


@pytest.mark.parametrize("name", BAD_NAMES)
def test_name_that_no_cluster_can_have_is_refused(server: Api, name: str) -> None:
    assert "the name must be one of a Cluster" in server.refusal(virtual_cluster(name, NODES))


def test_all_that_settings_can_say_is_taken(server: Api) -> None:
    assert not server.refusal(virtual_cluster("south", RICH))
