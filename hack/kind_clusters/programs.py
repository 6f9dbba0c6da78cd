"""The programs that kind clusters need beside those of the control planes."""

from control_planes.tools import KUBERNETES_COMMANDS, MODULES, ToolModule

KIND = ToolModule("kind", {"kind": "sigs.k8s.io/kind"})
NODE = ToolModule(
    "node",
    {program: KUBERNETES_COMMANDS + program for program in ("kubeadm", "kubelet", "kube-proxy")},
    version_of="k8s.io/kubernetes",
    version_packages=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)
"""Kubernetes programs of a node, of the version that hack/tools/kubernetes has."""
PAUSE = ToolModule("pause", {"pause": "karmada-vc-agent/hack/tools/pause"})
"""What holds the namespaces of a pod."""
PULLING = (*MODULES, KIND)
"""What is built where node images are pulled."""
BUILDING = (*PULLING, NODE, PAUSE)
"""What is built where the node image is built, too."""
KARMADA_COMPONENTS = (
    "karmada-aggregated-apiserver",
    "karmada-controller-manager",
    "karmada-scheduler",
    "karmada-webhook",
)
"""What runs on the hub in an image of its own."""
PROBE = "kubectl"
"""A static program; an engine that runs it in a container works."""
