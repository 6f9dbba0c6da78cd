"""Well-known names of Kubernetes and KubeEdge: API groups, labels, annotations, fields."""

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_API = f"{RBAC_GROUP}/v1"
GATEWAY_GROUP = "gateway.networking.k8s.io"

NAME_FIELD = "metadata.name"
"""Path of an object's name in field selectors and in `matchFields` of node affinity."""
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""On every Namespace, set by the API server: its own name."""
EDGE_LABEL = "node-role.kubernetes.io/edge"
"""On edge nodes of KubeEdge."""
NODE_GROUP_LABEL = "apps.kubeedge.io/belonging-to"
"""On nodes in a NodeGroup of KubeEdge, set by its controller: that group."""
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
"""On a PersistentVolumeClaim: the node of its first Pod, set by the scheduler."""
SLICE_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
"""On an EndpointSlice: the controller that writes it."""
SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
