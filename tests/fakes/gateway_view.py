"""One host with two virtual clusters, as the rules of the gateway see it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    Sealer,
    UnknownNamespacesError,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.plan import plan
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import Forward, Plan
from karmada_vc_agent.features.gateway.tokens import KEY_BYTES
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    HostNamespace,
    LabelSelector,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.context import (
    ANCHOR_NAMESPACE,
    TranslationContext,
    TranslationSettings,
    host_namespace,
)

RBAC, AUTHORIZATION = "rbac.authorization.k8s.io", "authorization.k8s.io"
NAMESPACED = (
    ("", "v1", "pods", "Pod"),
    ("", "v1", "services", "Service"),
    ("", "v1", "configmaps", "ConfigMap"),
    ("", "v1", "secrets", "Secret"),
    ("", "v1", "events", "Event"),
    ("", "v1", "serviceaccounts", "ServiceAccount"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("apps", "v1", "deployments", "Deployment"),
    ("batch", "v1", "jobs", "Job"),
    ("events.k8s.io", "v1", "events", "Event"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    ("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
    (RBAC, "v1", "roles", "Role"),
    (RBAC, "v1", "rolebindings", "RoleBinding"),
    (AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
    ("argoproj.io", "v1alpha1", "applications", "Application"),
    ("work.karmada.io", "v1alpha1", "works", "Work"),
    ("reliablesyncs.kubeedge.io", "v1alpha1", "objectsyncs", "ObjectSync"),
)
CLUSTER_SCOPED = (
    ("", "v1", "namespaces", "Namespace"),
    ("", "v1", "nodes", "Node"),
    ("", "v1", "persistentvolumes", "PersistentVolume"),
    ("", "v1", "componentstatuses", "ComponentStatus"),
    (RBAC, "v1", "clusterroles", "ClusterRole"),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
    ("storage.k8s.io", "v1", "csinodes", "CSINode"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
    ("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics"),
    ("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest"),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"),
    (AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    (AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    (AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
)
SERVED = tuple(
    KindInfo(group, version, plural, kind, namespaced)
    for rows, namespaced in ((NAMESPACED, True), (CLUSTER_SCOPED, False))
    for group, version, plural, kind in rows
)
SEALER = Sealer(bytes(range(KEY_BYTES)))


@dataclass
class FakeHost:
    """The namespaces of the host: name -> labels; more of them than virtual clusters claim."""

    namespaces: dict[str, Object] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def claim(self, cluster: str, virtual: str, host: str = "") -> str:
        """Claim a namespace, by default under the name that the template makes."""
        template = TranslationSettings().namespace_template
        host = host or host_namespace(template, VirtualNamespace(virtual), cluster)
        labels = {
            "kubernetes.io/metadata.name": host,
            vocabulary.CLUSTER_LABEL: cluster,
            vocabulary.NAMESPACE_LABEL: virtual,
            vocabulary.AGENT_LABEL: "karmada-vc-agent",
        }
        annotations = {
            vocabulary.CREATED_BY_AGENT_ANNOTATION: "true",
            vocabulary.WORK_ANNOTATION: f"karmada-es-{cluster}/{virtual}",
            vocabulary.NODE_SELECTOR_ANNOTATION: f"branch={cluster[-1]}",
        }
        self.namespaces[host] = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": host, "labels": labels, "annotations": annotations},
        }
        return host

    def labels(self, host: str) -> dict[str, str]:
        found: dict[str, str] = self.namespaces[host]["metadata"].get("labels", {})
        return found


@dataclass
class FakeView:
    """The View of one virtual cluster on such a host; its nodes have the label `branch`."""

    host: FakeHost
    name: str = "branch-a"
    nodes: tuple[str, ...] = ("node-1",)
    vc_fields: Mapping[str, Any] = field(default_factory=dict)
    settings: TranslationSettings = field(default_factory=TranslationSettings)

    @property
    def anchor(self) -> str:
        return host_namespace(self.settings.namespace_template, ANCHOR_NAMESPACE, self.name)

    @property
    def vc(self) -> VirtualCluster:
        selector = LabelSelector({"branch": self.name[-1]})
        return VirtualCluster(self.name, selector, **self.vc_fields)

    def claims(self) -> dict[VirtualNamespace, HostNamespace]:
        return {
            VirtualNamespace(self.host.labels(name)[vocabulary.NAMESPACE_LABEL]): HostNamespace(
                name
            )
            for name in self.host.namespaces
            if self.host.labels(name).get(vocabulary.CLUSTER_LABEL) == self.name
            and name != self.anchor
            and name not in self.host.unread
        }

    def virtual_namespace(self, host: str) -> str | None:
        if host in self.host.unread:
            raise UnknownNamespacesError({host})
        return next((ns for ns, name in self.claims().items() if name == host), None)

    def is_foreign(self, host: str) -> bool:
        return host in self.host.namespaces and host not in self.claims().values()

    def is_others(self, host: str) -> bool:
        if host not in self.host.namespaces:
            return False
        return self.host.labels(host).get(vocabulary.CLUSTER_LABEL, self.name) != self.name

    def namespace_object(self, host: str) -> Object | None:
        return self.host.namespaces.get(host)

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        wanted = (group, version, plural)
        return next((i for i in SERVED if (i.group, i.version, i.plural) == wanted), None)

    def resources(self, group: str) -> Iterable[KindInfo]:
        return [info for info in SERVED if info.group == group]

    def owns_node(self, name: str) -> bool:
        return name in self.nodes

    def context(self) -> TranslationContext:
        served = [(info.group, info.plural) for info in SERVED if info.namespaced]
        return TranslationContext(
            vc=self.vc,
            settings=self.settings,
            claims=self.claims(),
            owns_node=self.owns_node,
            admin_rules=rbac_rules.admin_rules(served),
        )

    def suffix(self) -> str:
        return "x7k2p"

    def sealer(self) -> Sealer:
        return SEALER


def two_branches() -> tuple[FakeView, FakeView]:
    """Return two virtual clusters of one host with equal names, each with an anchor."""
    host = FakeHost({"default": {"metadata": {"name": "default"}}})
    views = FakeView(host), FakeView(host, "branch-b", ("node-2",))
    for view in views:
        for virtual in ("edge", "shop"):
            host.claim(view.name, virtual)
        host.claim(view.name, "vc-system")
    return views


def asked(
    view: FakeView, method: str, path: str, body: object = None, query: str = "", **fields: Any
) -> Plan:
    """Plan one request of `alice`; body: an object that is sent as JSON, or bytes."""
    fields.setdefault("accept", "application/json")
    content = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    request = VirtualRequest(method, path, query, body=content, **fields)
    return plan(request, view)


def forwarded(
    view: FakeView, method: str, path: str, body: object = None, query: str = "", **fields: Any
) -> Forward:
    """Plan a request that must be forwarded."""
    found = asked(view, method, path, body, query, **fields)
    assert isinstance(found, Forward), found
    return found


def refused(
    view: FakeView, method: str, path: str, body: object = None, query: str = "", **fields: Any
) -> RefusalError:
    """Plan a request that must be refused."""
    found = asked(view, method, path, body, query, **fields)
    assert isinstance(found, RefusalError), found
    return found


def sent(planned: Forward) -> Any:
    """Return the decoded body of a request to the host."""
    return orjson.loads(planned.body)
