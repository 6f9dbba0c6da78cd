"""Writes manifests/base/crd.yaml to standard output, from what the settings declare."""

import sys

from karmada_vc_agent.features.objects.crd import definition
from karmada_vc_agent.install.apply_objects import manifest_text

_HEAD = """\
For the host: VirtualCluster objects, which the agent serves with `objects: {enabled: true}`.
`hack/update-crd` writes this file from karmada_vc_agent/model/virtual_cluster.py."""


def text() -> str:
    """Return the text of manifests/base/crd.yaml."""
    return manifest_text([definition()], {}, _HEAD)


if __name__ == "__main__":
    sys.stdout.write(text())
