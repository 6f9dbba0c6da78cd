"""Tables: kind -> paths of its pod specs, and of what it refers to.

Source: rewriting-rules 3.2, 4.1. references.py implements the treatments.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import GATEWAY_GROUP
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, values_at


@dataclass(frozen=True, slots=True)
class PodTemplates:
    """Paths of pod specs in objects of one kind; also a row of the setting `podTemplates`.

    selector_only: only nodeSelector and tolerations are supported there.
    create: add_missing_specs() creates missing maps along the paths. fixed: the API server rejects
    changes of the pod spec in an existing object. version: "" for all.
    """

    group: str
    kind: str
    paths: tuple[str, ...]
    selector_only: bool = False
    create: bool = False
    fixed: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class LocatedPodSpec:
    """One pod spec inside an object, not a copy: changing `spec` changes the object."""

    path: str
    spec: Object
    selector_only: bool


def _selector_only(
    group: str, kind: str, *paths: str, create: bool = False, version: str = ""
) -> PodTemplates:
    return PodTemplates(group, kind, paths, selector_only=True, create=create, version=version)


def _ray(kind: str, cluster_spec: str) -> PodTemplates:
    paths = ("headGroupSpec.template.spec", "workerGroupSpecs[].template.spec")
    return PodTemplates("ray.io", kind, tuple(f"{cluster_spec}.{path}" for path in paths))


def _templates(group: str, *kinds: str) -> tuple[PodTemplates, ...]:
    return tuple(PodTemplates(group, kind, _TEMPLATE) for kind in kinds)


_TEMPLATE = ("spec.template.spec",)
_JOB_TEMPLATES = (
    PodTemplates("", "Pod", ("spec",), fixed=True),
    PodTemplates("", "PodTemplate", ("template.spec",)),
    PodTemplates("", "ReplicationController", _TEMPLATE),
    *_templates("apps", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    PodTemplates("batch", "Job", _TEMPLATE, fixed=True),
    PodTemplates("batch", "CronJob", ("spec.jobTemplate.spec.template.spec",)),
)
_CUSTOM = (
    *_templates("apps.kruise.io", "CloneSet", "StatefulSet", "DaemonSet"),
    *_templates("argoproj.io", "Rollout"),
    *_templates("apps.openshift.io", "DeploymentConfig"),
    *_templates("serving.knative.dev", "Service", "Configuration"),
    PodTemplates("batch.volcano.sh", "Job", ("spec.tasks[].template.spec",)),
    PodTemplates(
        "jobset.x-k8s.io", "JobSet", ("spec.replicatedJobs[].template.spec.template.spec",)
    ),
    PodTemplates(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        (
            "spec.leaderWorkerTemplate.leaderTemplate.spec",
            "spec.leaderWorkerTemplate.workerTemplate.spec",
        ),
    ),
    *(
        PodTemplates(
            "kubeflow.org", f"{name}Job", (f"spec.{name.lower()}ReplicaSpecs{{}}.template.spec",)
        )
        for name in ("PyTorch", "TF", "MPI", "XGBoost", "Paddle", "JAX")
    ),
    _ray("RayCluster", "spec"),
    _ray("RayJob", "spec.rayClusterSpec"),
    _ray("RayService", "spec.rayClusterConfig"),
    PodTemplates("keda.sh", "ScaledJob", ("spec.jobTargetRef.template.spec",)),
)
_SELECTOR_ONLY = (
    _selector_only("argoproj.io", "Workflow", "spec", "spec.templates[]"),
    _selector_only("argoproj.io", "WorkflowTemplate", "spec", "spec.templates[]"),
    _selector_only(
        "argoproj.io", "CronWorkflow", "spec.workflowSpec", "spec.workflowSpec.templates[]"
    ),
    _selector_only("monitoring.coreos.com", "Prometheus", "spec"),
    _selector_only("monitoring.coreos.com", "PrometheusAgent", "spec"),
    _selector_only("monitoring.coreos.com", "Alertmanager", "spec"),
    _selector_only("monitoring.coreos.com", "ThanosRuler", "spec"),
    # Tekton moved the field between versions, and pods need it even if it is not set.
    _selector_only("tekton.dev", "TaskRun", "spec.podTemplate", create=True),
    _selector_only(
        *("tekton.dev", "PipelineRun", "spec.taskRunTemplate.podTemplate"),
        create=True,
        version="v1",
    ),
    _selector_only("tekton.dev", "PipelineRun", "spec.podTemplate", create=True, version="v1beta1"),
    _selector_only("kubevirt.io", "VirtualMachine", "spec.template.spec"),
    _selector_only("kubevirt.io", "VirtualMachineInstance", "spec"),
    _selector_only(
        "cert-manager.io", "Issuer", "spec.acme.solvers[].http01.ingress.podTemplate.spec"
    ),
)


def _by_kind(rows: Iterable[PodTemplates]) -> Mapping[GroupKind, tuple[PodTemplates, ...]]:
    table: dict[GroupKind, tuple[PodTemplates, ...]] = {}
    for row in rows:
        key = GroupKind(row.group, row.kind)
        table[key] = (*table.get(key, ()), row)
    return table


POD_TEMPLATES = _by_kind((*_JOB_TEMPLATES, *_CUSTOM, *_SELECTOR_ONLY))
"""Kind -> its rows; source: rewriting-rules 3.2."""


def pod_specs(
    obj: Object, gvk: GroupVersionKind, extra: Iterable[PodTemplates] = ()
) -> Iterator[LocatedPodSpec]:
    """Yield every pod spec of an object, also those at configured paths.

    extra: the setting `podTemplates`; it extends the table.
    An unknown kind yields nothing: admission on the host covers its pods (rewriting-rules 3.5).
    """
    seen: set[str] = set()  # a name that is mapped twice would be lost
    for row in _rows(gvk, extra):
        for path in row.paths:
            for where, spec in values_at(obj, path):
                if isinstance(spec, dict) and where not in seen:
                    seen.add(where)
                    yield LocatedPodSpec(where, spec, row.selector_only)


def pod_spec_paths(
    gvk: GroupVersionKind, extra: Iterable[PodTemplates] = ()
) -> Iterator[tuple[str, bool]]:
    """Yield each path of pod specs in objects of a kind, and whether it is selector_only."""
    for row in _rows(gvk, extra):
        for path in row.paths:
            yield path, row.selector_only


def have_fixed_pods(gvk: GroupVersionKind) -> bool:
    """Return whether the API server rejects changes of the pod specs of an existing object."""
    return any(row.fixed for row in POD_TEMPLATES.get(gvk.group_kind, ()))


def add_missing_specs(obj: Object, gvk: GroupVersionKind) -> None:
    """Add empty pod specs, in place, to kinds whose pods need one even if it is not set."""
    for row in _rows(gvk, ()):
        for path in row.paths if row.create else ():
            _create(obj, path)


def _rows(gvk: GroupVersionKind, extra: Iterable[PodTemplates]) -> Iterator[PodTemplates]:
    yield from _rows_of_table(gvk)
    yield from (row for row in extra if (row.group, row.kind) == (gvk.group, gvk.kind))


@lru_cache(maxsize=1024)  # tenants name kinds
def _rows_of_table(gvk: GroupVersionKind) -> tuple[PodTemplates, ...]:
    rows = POD_TEMPLATES.get(gvk.group_kind, ())
    return tuple(row for row in rows if row.version in ("", gvk.version))


def _create(obj: Object, path: str) -> None:
    """Create the missing maps along a path of plain keys."""
    for key in path.split("."):
        value = obj.get(key)
        if value is None:
            value = obj[key] = {}
        if not isinstance(value, dict):
            return
        obj = value


class Treatment(Enum):
    """How the value at a path is rewritten."""

    NAMESPACE = "mapped as a namespace"
    SELECTOR = "a selector of namespaces, rewriting-rules 4.2"
    AFFINITY_TERM = "a pod affinity term: names of other namespaces become a selector"
    NAME_LIST_SELECTOR = "a selector with a list of names or `any`, as in monitors"
    ROUTE_NAMESPACES = "which namespaces may attach routes to a listener of a Gateway"
    DESTINATION = "a destination of Argo CD: mapped where it is the local cluster"
    PATTERN = "mapped as a namespace; a glob is refused"
    PARAMETERS = "a map for a driver: namespaces of Secrets in it are mapped"
    SECRET_ANNOTATIONS = "annotations: those with suffix -secret-namespace are mapped"  # noqa: S105 - no secret
    PROXY_ANNOTATIONS = "annotations of an Ingress: Secrets as namespace/name are mapped"
    CLUSTER_SCOPED_NAME = "mapped as the name of a cluster-scoped object"
    NODE = "a node, which must be of the virtual cluster"
    NODE_IF_OWN = "a node, dropped unless it is of the virtual cluster"
    DROPPED = "dropped on the way to the host"
    REFUSED = "refused if set"


@dataclass(frozen=True, slots=True)
class Reference:
    """One place in an object; path as in values_at(); it may also end in `[]`."""

    path: str
    treatment: Treatment = Treatment.NAMESPACE


def _namespaces(*paths: str) -> tuple[Reference, ...]:
    return tuple(Reference(path) for path in paths)


def _selectors(*paths: str) -> tuple[Reference, ...]:
    return tuple(Reference(path, Treatment.SELECTOR) for path in paths)


def _nodes(*paths: str) -> tuple[Reference, ...]:
    return tuple(Reference(path, Treatment.NODE) for path in paths)


_DATA_SOURCE = "spec.dataSourceRef.namespace"

_PROXIED = (Reference("metadata.annotations", Treatment.PROXY_ANNOTATIONS),)
_CORE: Mapping[GroupKind, tuple[Reference, ...]] = {
    kinds.PERSISTENT_VOLUME_CLAIM: (
        Reference(_DATA_SOURCE),
        Reference("spec.volumeName", Treatment.CLUSTER_SCOPED_NAME),
    ),
    kinds.PERSISTENT_VOLUME: (
        *_namespaces(
            "spec.claimRef.namespace",
            *(
                f"spec.csi.{step}SecretRef.namespace"
                for step in (
                    "controllerPublish",
                    "nodeStage",
                    "nodePublish",
                    "controllerExpand",
                    "nodeExpand",
                )
            ),
            *(
                f"spec.{source}.secretRef.namespace"
                for source in ("cephfs", "rbd", "iscsi", "flexVolume", "scaleIO", "storageos")
            ),
            "spec.azureFile.secretNamespace",
            "spec.glusterfs.endpointsNamespace",
        ),
        Reference("spec.csi.volumeAttributes", Treatment.PARAMETERS),
        Reference("spec.flexVolume.options", Treatment.PARAMETERS),
        Reference("metadata.annotations", Treatment.SECRET_ANNOTATIONS),
        Reference("spec.claimRef.uid", Treatment.DROPPED),
        Reference("spec.claimRef.resourceVersion", Treatment.DROPPED),
    ),
    kinds.STATEFUL_SET: (
        Reference(f"spec.volumeClaimTemplates[].{_DATA_SOURCE}"),
        Reference("spec.volumeClaimTemplates[].spec.volumeName", Treatment.CLUSTER_SCOPED_NAME),
    ),
    GroupKind("", "Endpoints"): (
        *_namespaces(
            "subsets[].addresses[].targetRef.namespace",
            "subsets[].notReadyAddresses[].targetRef.namespace",
        ),
        Reference("subsets[].addresses[].nodeName", Treatment.NODE_IF_OWN),
        Reference("subsets[].notReadyAddresses[].nodeName", Treatment.NODE_IF_OWN),
    ),
    kinds.ENDPOINT_SLICE: (
        Reference("endpoints[].targetRef.namespace"),
        Reference("endpoints[].nodeName", Treatment.NODE_IF_OWN),
    ),
    # Read on the way back only: manifests of these kinds are refused.
    GroupKind("", "Event"): _namespaces("involvedObject.namespace", "related.namespace"),
    GroupKind("events.k8s.io", "Event"): _namespaces("regarding.namespace", "related.namespace"),
    GroupKind("networking.k8s.io", "NetworkPolicy"): _selectors(
        "spec.ingress[].from[].namespaceSelector", "spec.egress[].to[].namespaceSelector"
    ),
    GroupKind("networking.k8s.io", "Ingress"): _PROXIED,
    kinds.SERVICE: _PROXIED,
    kinds.SERVICE_ACCOUNT: (Reference("secrets[].namespace", Treatment.DROPPED),),
    GroupKind("networking.k8s.io", "IngressClass"): (
        Reference("spec.parameters.namespace", Treatment.REFUSED),
    ),
    kinds.STORAGE_CLASS: (Reference("parameters", Treatment.PARAMETERS),),
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotClass"): (
        Reference("parameters", Treatment.PARAMETERS),
    ),
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): (
        Reference("spec.volumeSnapshotRef.namespace"),
        Reference("metadata.annotations", Treatment.SECRET_ANNOTATIONS),
        Reference("spec.volumeSnapshotRef.uid", Treatment.DROPPED),
        Reference("spec.volumeSnapshotRef.resourceVersion", Treatment.DROPPED),
    ),
}

_FILTER_BACKENDS = tuple(
    f"spec.rules[].{filters}filters[].{what}.backendRef.namespace"
    for what in ("requestMirror", "externalAuth")
    for filters in ("", "backendRefs[].")
)
_LISTENERS = (
    Reference("spec.listeners[].tls.certificateRefs[].namespace"),
    Reference("spec.listeners[].tls.frontendValidation.caCertificateRefs[].namespace"),
    Reference("spec.listeners[].allowedRoutes.namespaces", Treatment.ROUTE_NAMESPACES),
)
_ROUTE = _namespaces(
    "spec.parentRefs[].namespace", "spec.rules[].backendRefs[].namespace", *_FILTER_BACKENDS
)
_GATEWAY_API: Mapping[GroupKind, tuple[Reference, ...]] = {
    **{
        GroupKind(GATEWAY_GROUP, kind): _ROUTE
        for kind in ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
    },
    GroupKind(GATEWAY_GROUP, "Gateway"): (
        *_LISTENERS,
        Reference("spec.allowedListeners.namespaces", Treatment.ROUTE_NAMESPACES),
        *_namespaces(
            "spec.tls.backend.clientCertificateRef.namespace",
            "spec.tls.frontend.default.validation.caCertificateRefs[].namespace",
            "spec.tls.frontend.perPort[].tls.validation.caCertificateRefs[].namespace",
        ),
    ),
    **dict.fromkeys(
        (GroupKind(GATEWAY_GROUP, "ListenerSet"), kinds.LISTENER_SET_BEFORE),
        (Reference("spec.parentRef.namespace"), *_LISTENERS),
    ),
    GroupKind(GATEWAY_GROUP, "GatewayClass"): (
        Reference("spec.parametersRef.namespace", Treatment.REFUSED),
    ),
    GroupKind(GATEWAY_GROUP, "ReferenceGrant"): _namespaces("spec.from[].namespace"),
    GroupKind("cert-manager.io", "Issuer"): _namespaces(
        "spec.acme.solvers[].http01.gatewayHTTPRoute.parentRefs[].namespace"
    ),
}

_MONITORING: Mapping[GroupKind, tuple[Reference, ...]] = {
    **{
        GroupKind("monitoring.coreos.com", kind): (
            Reference("spec.namespaceSelector", Treatment.NAME_LIST_SELECTOR),
        )
        for kind in ("ServiceMonitor", "PodMonitor")
    },
    GroupKind("monitoring.coreos.com", "Probe"): (
        Reference("spec.targets.ingress.namespaceSelector", Treatment.NAME_LIST_SELECTOR),
    ),
    **{
        GroupKind("monitoring.coreos.com", kind): (
            *_selectors(
                *(
                    f"spec.{what}NamespaceSelector"
                    for what in ("serviceMonitor", "podMonitor", "probe", "rule", "scrapeConfig")
                )
            ),
            Reference("spec.alerting.alertmanagers[].namespace"),
        )
        for kind in ("Prometheus", "PrometheusAgent")
    },
    GroupKind("monitoring.coreos.com", "Alertmanager"): _selectors(
        "spec.alertmanagerConfigNamespaceSelector"
    ),
    GroupKind("monitoring.coreos.com", "ThanosRuler"): _selectors("spec.ruleNamespaceSelector"),
}

_FLUX_RELEASE = _namespaces(
    "spec.targetNamespace",
    "spec.storageNamespace",
    "spec.sourceRef.namespace",
    "spec.chartRef.namespace",
    "spec.chart.spec.sourceRef.namespace",
    "spec.dependsOn[].namespace",
)
_DELIVERY: Mapping[GroupKind, tuple[Reference, ...]] = {
    GroupKind("argoproj.io", "Application"): (
        Reference("spec.destination", Treatment.DESTINATION),
    ),
    GroupKind("argoproj.io", "AppProject"): (
        Reference("spec.destinations[].namespace", Treatment.PATTERN),
        Reference("spec.sourceNamespaces[]", Treatment.PATTERN),
    ),
    GroupKind("helm.toolkit.fluxcd.io", "HelmRelease"): _FLUX_RELEASE,
    GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization"): _FLUX_RELEASE,
}

_CLONED = ("source.pvc.namespace", "source.snapshot.namespace", "sourceRef.namespace")
"""What CDI copies a disk from; it asks whether the agent may, who writes for all."""
_VOLUMES: Mapping[GroupKind, tuple[Reference, ...]] = {
    **{
        GroupKind(group, kind): _namespaces(*(f"{spec}.{each}" for each in _CLONED))
        for group, kind, spec in (
            ("cdi.kubevirt.io", "DataImportCron", "spec.template.spec"),
            ("cdi.kubevirt.io", "DataSource", "spec"),
            ("cdi.kubevirt.io", "DataVolume", "spec"),
            ("kubevirt.io", "VirtualMachine", "spec.dataVolumeTemplates[].spec"),
        )
    },
}

_KUBEEDGE: Mapping[GroupKind, tuple[Reference, ...]] = {
    GroupKind("devices.kubeedge.io", "Device"): _nodes("spec.nodeName"),
    kinds.IMAGE_PRE_PULL_JOB: _nodes("spec.imagePrePullTemplate.nodeNames[]"),
    GroupKind("rules.kubeedge.io", "Rule"): _nodes(
        "spec.sourceResource.node_name", "spec.targetResource.node_name"
    ),
    GroupKind("rules.kubeedge.io", "RuleEndpoint"): _nodes(
        "spec.sourceResource.node_name", "spec.targetResource.node_name"
    ),
}

REFERENCES: Mapping[GroupKind, tuple[Reference, ...]] = {
    **_CORE,
    **_GATEWAY_API,
    **_MONITORING,
    **_DELIVERY,
    **_VOLUMES,
    **_KUBEEDGE,
}

_POD_AFFINITY_TERMS = tuple(
    f"affinity.{affinity}.{terms}"
    for affinity in ("podAffinity", "podAntiAffinity")
    for terms in (
        "requiredDuringSchedulingIgnoredDuringExecution[]",
        "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    )
)
AFFINITY = tuple(Reference(term, Treatment.AFFINITY_TERM) for term in _POD_AFFINITY_TERMS)
"""Paths relative to the pod spec."""
IN_POD_SPECS = (
    *AFFINITY,
    Reference("volumes[].csi.volumeAttributes", Treatment.PARAMETERS),
    Reference(f"volumes[].ephemeral.volumeClaimTemplate.{_DATA_SOURCE}"),
    Reference(
        "volumes[].ephemeral.volumeClaimTemplate.spec.volumeName", Treatment.CLUSTER_SCOPED_NAME
    ),
)


@dataclass(frozen=True, slots=True)
class NamespaceReferences:
    """A row of the setting `namespaceReferences`: paths of namespaces in a kind."""

    group: str
    kind: str
    paths: tuple[str, ...]


@lru_cache(maxsize=1024)  # tenants name kinds
def references_of(kind: GroupKind, extra: tuple[NamespaceReferences, ...]) -> tuple[Reference, ...]:
    """Return the rows of a kind; a path in both settings and table counts once."""
    configured = {
        path: Reference(path)
        for row in extra
        if (row.group, row.kind) == kind
        for path in row.paths
    }
    return tuple((configured | {row.path: row for row in REFERENCES.get(kind, ())}).values())
