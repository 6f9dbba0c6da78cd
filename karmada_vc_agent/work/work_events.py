"""Events of the agent in Karmada's words, on the Work and on its template (contract 5.7)."""

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.kube.events import EventRecorder, Series
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, namespaced_name
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Code

EXECUTION = "execution-controller"
WORK_STATUS = "work-status-controller"
ESCAPES = "escape-detector"
POLICIES = "policy-status"
EVICTIONS = "evictions"
STATUS = "cluster-status"
HOST_EVENTS = "host-events"
"""Components of the events that Karmada's agent does not have."""

NORMAL = "Normal"
WARNING = "Warning"


class WorkEvents:
    """Writes the events of one Work; texts and names are those of the hub."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def dispatching(self, work: Object, message: str) -> None:
        """Report that the condition Dispatching changed."""
        self._recorder.record(EXECUTION, work, NORMAL, "WorkDispatching", message)

    def synced(self, work: Object, cluster: str) -> None:
        """Report that all manifests of a Work are applied."""
        text = f"Sync work({_name(work)}) to cluster({cluster}) successful."
        self._recorder.record(EXECUTION, work, NORMAL, "SyncSucceed", text)

    def sync_failed(self, work: Object, cluster: str, error: str) -> None:
        """Report that a Work could not be applied."""
        text = f"Failed to sync work({_name(work)}) to cluster({cluster}), err: {error}"
        self._recorder.record(EXECUTION, work, WARNING, "SyncFailed", text)

    def refused(self, work: Object, code: str, text: str) -> None:
        """Report that a manifest is refused by a rule (rewriting-rules 7)."""
        self._recorder.record(EXECUTION, work, WARNING, code, text)

    def bound_met(self, cluster: Object, text: str) -> None:
        """Report on a Cluster that it exceeds a bound; its Works say which of them do."""
        text = f"{text}; the agent does not apply what exceeds the bound"
        self._recorder.record(EXECUTION, cluster, WARNING, Code.BOUND_EXCEEDED, text)

    def kept_less(self, cluster: Object, text: str) -> None:
        """Report on a Cluster that its objects on the host exceed a bound."""
        self._recorder.record(EXECUTION, cluster, WARNING, Code.BOUND_EXCEEDED, text)

    def noticed(self, work: Object, notice: Notice) -> None:
        """Report what a user should know of an applied manifest."""
        self._recorder.record(EXECUTION, work, WARNING, notice.code, notice.detail)

    def escaped(self, involved: Object, manifest: Object | None, cluster: str, text: str) -> None:
        """Report that a pod runs where it must not.

        involved: its Work, otherwise its Cluster. manifest: that of its template, if any.
        """
        self._recorder.record(ESCAPES, involved, WARNING, "PodEscaped", text)
        if manifest is not None:
            self._on_template(manifest, cluster, WARNING, "PodEscaped", text, source=ESCAPES)

    def seen_on_host(
        self, work: Object, manifest: Object, cluster: str, reason: str, text: str, series: Series
    ) -> bool:
        """Report on Work and template what the host says; return whether it will be written."""
        on_work = self._recorder.record(HOST_EVENTS, work, WARNING, reason, text, series=series)
        on_template = self._on_template(
            manifest, cluster, WARNING, reason, text, source=HOST_EVENTS, series=series
        )
        return on_work and on_template

    def evicted(self, cluster: Object, text: str) -> None:
        """Report on a Cluster that a pod is evicted from a node that left."""
        self._recorder.record(EVICTIONS, cluster, NORMAL, "PodEvicted", text)

    def eviction_held(self, cluster: Object, text: str) -> None:
        """Report on a Cluster that a pod is not evicted yet, from a node that left."""
        self._recorder.record(EVICTIONS, cluster, WARNING, "PodEvictionHeld", text)

    def condition_changed(
        self, cluster: Object, type_: ConditionType, condition: Condition
    ) -> None:
        """Report on a Cluster that a condition becomes this one."""
        kind = NORMAL if type_.is_normal(condition) else WARNING
        self._recorder.record(STATUS, cluster, kind, condition["reason"], condition["message"])

    def namespace_held(self, cluster: Object, namespace: str, reason: str | None) -> None:
        """Report on a Cluster that an administrator holds a namespace; None = no more."""
        if reason is None:
            text = f"namespace {namespace} is not held any more"
            self._recorder.record(STATUS, cluster, NORMAL, "NamespaceReleased", text)
        else:
            text = f"the agent writes nothing in namespace {namespace}: {reason}"
            self._recorder.record(STATUS, cluster, WARNING, "NamespaceHeld", text)

    def policy_wrong(self, cluster: Object, reason: str, text: str) -> None:
        """Report on a Cluster which admission policy is missing, changed or not in effect."""
        self._recorder.record(POLICIES, cluster, WARNING, reason, text)

    def applied(self, manifest: Object, cluster: str) -> None:
        """Report on the template that its object is on the host."""
        self._applied(manifest, cluster, _slashed(manifest), EXECUTION)

    def not_applied(self, manifest: Object, cluster: str, error: str) -> None:
        """Report on the template that its object could not be written."""
        self._not_applied(manifest, cluster, _name(manifest), error, EXECUTION)

    def recreated(self, manifest: Object, cluster: str, error: str | None) -> None:
        """Report on the template whether its object, deleted on the host, could be recreated."""
        name = _slashed(manifest)
        if error is None:
            self._applied(manifest, cluster, name, WORK_STATUS)
        else:
            self._not_applied(manifest, cluster, name, error, WORK_STATUS)

    def reflected(self, work: Object, manifest: Object, error: str | None) -> None:
        """Report the result of reflecting the status of an object."""
        text = f"Reflect status for object({manifest['kind']}/{_slashed(manifest)})"
        if error is None:
            self._status(work, NORMAL, "ReflectStatusSucceed", f"{text} succeed.")
        else:
            self._status(work, WARNING, "ReflectStatusFailed", f"{text} failed, err: {error}.")

    def interpreted(self, work: Object, manifest: Object, health: str, error: str | None) -> None:
        """Report the health of an object; health is Healthy or Unhealthy."""
        text = f"Interpret health of object({manifest['kind']}/{_slashed(manifest)})"
        if error is None:
            text = f"{text} as {health.lower()}."
            self._status(work, NORMAL, "InterpretHealthSucceed", text)
        else:
            text = f"{text} failed, err: {error}."
            self._status(work, WARNING, "InterpretHealthFailed", text)

    def _applied(self, manifest: Object, cluster: str, name: str, source: str) -> None:
        text = f"Successfully applied resource({name}) to cluster {cluster}"
        self._on_template(manifest, cluster, NORMAL, "SyncSucceed", text, source)

    def _not_applied(
        self, manifest: Object, cluster: str, name: str, error: str, source: str
    ) -> None:
        text = f"Failed to create or update resource({name}) in member cluster({cluster}): {error}"
        self._on_template(manifest, cluster, WARNING, "SyncFailed", text, source)

    def _status(self, work: Object, kind: str, reason: str, text: str) -> None:
        self._recorder.record(WORK_STATUS, work, kind, reason, text)

    def _on_template(
        self,
        manifest: Object,
        cluster: str,
        kind: str,
        reason: str,
        text: str,
        source: str = EXECUTION,
        series: Series | None = None,
    ) -> bool:
        """Record an event about a template; return whether it will be, or there is none."""
        uid = annotations_of(manifest).get(karmada.TEMPLATE_UID_ANNOTATION)
        key = key_of(manifest)
        if not isinstance(uid, str) or not uid or not key.name or not all(key.gvk[1:]):
            return True  # a manifest that is refused for its shape may not name a template
        template: Object = {
            "apiVersion": key.gvk.api_version,
            "kind": key.gvk.kind,
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
        }
        flow = karmada.execution_namespace(cluster)  # as for the events on its Works
        return self._recorder.record(source, template, kind, reason, text, flow, series)


def _metadata(obj: Object) -> Object:
    """Return the metadata, empty if the manifest is malformed."""
    metadata = dig(obj, "metadata")
    return metadata if isinstance(metadata, dict) else {}


def _slashed(obj: Object) -> str:
    """Return `namespace/name`, with the slash even without a namespace."""
    metadata = _metadata(obj)
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


def _name(obj: Object) -> str:
    metadata = _metadata(obj)
    return namespaced_name(metadata.get("namespace") or "", metadata.get("name") or "")
