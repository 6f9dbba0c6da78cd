"""Table: kind -> paths of its pod specs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

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


BY_KIND = _by_kind((*_JOB_TEMPLATES, *_CUSTOM, *_SELECTOR_ONLY))
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


def paths_of(
    gvk: GroupVersionKind, extra: Iterable[PodTemplates] = ()
) -> Iterator[tuple[str, bool]]:
    """Yield each path of pod specs in objects of a kind, and whether it is selector_only."""
    for row in _rows(gvk, extra):
        for path in row.paths:
            yield path, row.selector_only


def are_fixed(gvk: GroupVersionKind) -> bool:
    """Return whether the API server rejects changes of the pod specs of an existing object."""
    return any(row.fixed for row in BY_KIND.get(gvk.group_kind, ()))


def add_missing_specs(obj: Object, gvk: GroupVersionKind) -> None:
    """Add empty pod specs, in place, to kinds whose pods need one even if it is not set."""
    for row in _rows(gvk, ()):
        for path in row.paths if row.create else ():
            _create(obj, path)


def _rows(gvk: GroupVersionKind, extra: Iterable[PodTemplates]) -> Iterator[PodTemplates]:
    yield from _known_rows(gvk)
    yield from (row for row in extra if (row.group, row.kind) == (gvk.group, gvk.kind))


@lru_cache(maxsize=1024)  # tenants name kinds
def _known_rows(gvk: GroupVersionKind) -> tuple[PodTemplates, ...]:
    rows = BY_KIND.get(gvk.group_kind, ())
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
