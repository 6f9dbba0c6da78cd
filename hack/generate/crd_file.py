"""The text of the CRD, from what the settings declare."""

from karmada_vc_agent.features.objects.crd import definition
from karmada_vc_agent.install.apply_objects import manifest_text

_HEAD = """\
For the host: VirtualCluster objects, which the agent serves with `objects: {enabled: true}`.
`hack/update-manifests` writes this file from karmada_vc_agent/model/virtual_cluster.py."""


def text() -> str:
    """Return the text of manifests/base/crd.yaml, and of the copy in the chart."""
    return manifest_text([definition()], {}, _HEAD)
