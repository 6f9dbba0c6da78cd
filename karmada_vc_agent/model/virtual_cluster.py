"""A virtual cluster: a group of nodes that Karmada sees as a Cluster.

Settings files are decoded straight into these structs (config/file.py); what their types do not
say is checked in virtual_cluster_problems.py.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, NewType

import msgspec

from karmada_vc_agent.model.bounds import Bounds
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import QuantityText
from karmada_vc_agent.model.selectors import LabelSelector
from karmada_vc_agent.model.setting import Help

VirtualNamespace = NewType("VirtualNamespace", str)
"""A namespace as the hub names it: `edge`."""

HostNamespace = NewType("HostNamespace", str)
"""A namespace as the host names it: `edge-v-branch-a`."""

PodSecurity = Literal["", "privileged", "baseline", "restricted"]
"""A level of the Pod Security Standards, or none."""

SERVICE_NAMES_NONE: Final = "None"
SERVICE_NAMES_FIRST: Final = "VirtualFirst"
"""Two of the ways in which pods find Services by the names of virtual namespaces (ADR 15)."""


class ApplyAs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The host ServiceAccount with whose rights the manifests of a virtual cluster are written."""

    is_default: ClassVar[bool] = False
    namespace: Annotated[str, Help("Namespace of the ServiceAccount on the host.")]
    name: Annotated[str, Help("Name of the ServiceAccount.")]
    cluster_role: Annotated[
        str,
        Help(
            "ClusterRole that is bound to it in every namespace of the virtual cluster; "
            "without one the administrator binds it."
        ),
    ] = ""

    @property
    def user(self) -> str:
        """Return the user name that the API server knows the account by."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class DefaultAccount(ApplyAs, frozen=True):
    """An account that `join` made, since the tenants do not trust each other.

    What has no namespace is written by the agent itself, which its policy confines.
    """

    is_default: ClassVar[bool] = True


class VirtualCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One virtual cluster as the settings describe it (rewriting-rules 10)."""

    name: Annotated[str, Help("Name of the Cluster, at most 48 characters.")]
    node_selector: Annotated[
        LabelSelector, Help("Its nodes by their labels; this or `nodeNames`, or both.")
    ] = LabelSelector()
    node_names: Annotated[tuple[str, ...], Help("Its nodes by name.")] = ()
    cluster_labels: Annotated[Mapping[str, str], Help("Labels of the Cluster.")] = {}
    provider: Annotated[str, Help("Provider of the Cluster. Default: `clusterProvider`.")] = ""
    region: Annotated[str, Help("Region of the Cluster. Default: `clusterRegion`.")] = ""
    zones: Annotated[tuple[str, ...], Help("Zones of the Cluster. Default: `clusterZones`.")] = ()
    taints: Annotated[
        tuple[Object, ...],
        Help("Taints of the Cluster, added when the settings change; those of operators stay."),
    ] = ()
    resource_models: Annotated[
        tuple[Object, ...], Help("Grades of nodes, as `spec.resourceModels` of a Cluster has them.")
    ] = ()
    namespaces: Annotated[
        Literal["Always", "OnDemand"],
        Help("When host namespaces are made: always, or once something needs them."),
    ] = "Always"
    adopt_namespaces: Annotated[
        tuple[str, ...],
        Help("Existing host namespaces that it may take over, once `join` has marked them."),
    ] = ()
    tolerations: Annotated[tuple[Object, ...], Help("Tolerations added to all its pods.")] = ()
    offline_tolerations: Annotated[bool, Help("Keep its pods on nodes whose uplink is cut.")] = (
        False
    )
    tolerate_node_taints: Annotated[
        bool, Help("Add a toleration to all its pods for each taint that all its nodes have.")
    ] = True
    quota: Annotated[
        Mapping[str, QuantityText],
        Help("Quota over all its namespaces together ([ADR 14](adr/0014-tenancy.md))."),
    ] = {}
    limits: Annotated[
        tuple[Object, ...], Help("`limits` of the LimitRange in each of its namespaces.")
    ] = ()
    network_policy: Annotated[
        Literal["none", "isolate"],
        Help(
            "`isolate`: by NetworkPolicies, only pods of its own and of `infrastructureNamespaces` "
            "may reach its pods."
        ),
    ] = "none"
    pod_security: Annotated[
        PodSecurity,
        Help("Pod Security Standard of its namespaces; wins over a label of the Work."),
    ] = ""
    allowed_kinds: Annotated[
        tuple[str, ...],
        Help(
            "Patterns of the kinds it may have: `apps/Deployment`, `Secret`, `batch/*`; none = all."
        ),
    ] = ()
    denied_kinds: Annotated[
        tuple[str, ...], Help("Patterns of kinds it may not have; wins over `allowedKinds`.")
    ] = ()
    apply_as: Annotated[
        ApplyAs | None,
        Help(
            "ServiceAccount of the host that its manifests are applied as. "
            "Default: the agent's; with `tenancy: Strict` one that `join` makes."
        ),
    ] = None
    service_names: Annotated[
        Literal["None", "SearchDomain", "VirtualFirst"],
        Help(
            "How its pods find Services by the names of virtual namespaces "
            "([ADR 15](adr/0015-service-names.md))."
        ),
    ] = SERVICE_NAMES_NONE
    allow: Annotated[
        tuple[str, ...],
        Help("Guards that it may pass, or kinds as `group/Kind` ([isolation](isolation.md))."),
    ] = ()
    bounds: Annotated[
        Bounds, Help("Bounds of its own; each that is not set is that of the agent's `bounds`.")
    ] = Bounds()

    @property
    def needs_membership_label(self) -> bool:
        """Whether the agent has to label the nodes, since pods can only select by equality."""
        return bool(self.node_names or self.node_selector.match_expressions)

    @property
    def required_selector(self) -> Mapping[str, str]:
        """Labels that every pod of this virtual cluster must select (rewriting-rules 3.1)."""
        if self.needs_membership_label:
            return {MEMBERSHIP_LABEL: self.name}
        return self.node_selector.match_labels

    def selects(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node belongs here by the settings; overlaps are not looked at."""
        if node_name in self.node_names:
            return True
        return bool(self.node_selector) and self.node_selector.matches(labels)
