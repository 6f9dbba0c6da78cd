"""Print install.yaml: one file that installs the agent, for virtual clusters as objects.

Usage: python -m release_files.install_file VERSION IMAGE
"""

import sys
import tempfile
from pathlib import Path

import yaml

from generate import crd_file, manifests
from karmada_vc_agent.install.apply_objects import manifest_text
from karmada_vc_agent.model.objects import Object, copy_object

_OVERLAY = manifests.MANIFESTS / "overlays" / "kubeedge" / "kustomization.yaml"
_HEAD = """\
Agent {version}, with virtual clusters as objects, in namespace karmada-vc-agent:
  kubectl apply --server-side -f install.yaml
Its Pods wait for Secret karmada-kubeconfig, the kubeconfig for the hub. With the settings of the
ConfigMap below in agent.yaml, this makes it (docs/install.md):
  karmada-vc-agent join --config agent.yaml --karmada-kubeconfig admin.kubeconfig --only hub \\
    --output-dir out
  kubectl --kubeconfig admin.kubeconfig apply -f out/hub.yaml
  kubectl -n karmada-vc-agent create secret generic karmada-kubeconfig \\
    --from-file karmada-kubeconfig=out/hub.kubeconfig"""
_SETTINGS = """\
# The agent's settings (docs/settings.md): VirtualCluster objects of this host, of any name.
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
objects: {enabled: true, anyName: true}
"""


def text(version: str, image: str) -> str:
    """Return the file. image: with its tag."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "agent.yaml")
        settings.write_text(_SETTINGS)
        parts, why = manifests.host_parts(manifests.AGENT, image, settings)
    config_map: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": manifests.AGENT, "namespace": manifests.AGENT},
        "data": {"agent.yaml": _SETTINGS},
    }
    parts["namespace.yaml"].append(config_map)
    objects = [_on_kubeedge(obj) for of_file in parts.values() for obj in of_file]
    return manifest_text(objects, why, _HEAD.format(version=version)) + "---\n" + crd_file.text()


def _on_kubeedge(obj: Object) -> Object:
    """Return an object as the overlay for KubeEdge patches it: it fits any other host, too."""
    if obj["kind"] != "Deployment":
        return obj
    (patch,) = yaml.safe_load(_OVERLAY.read_text())["patches"]
    (added,) = yaml.safe_load(patch["patch"])
    made: Object = copy_object(obj)
    made["spec"]["template"]["spec"][added["path"].rpartition("/")[2]] = added["value"]
    return made


if __name__ == "__main__":
    print(text(*sys.argv[1:]), end="")
