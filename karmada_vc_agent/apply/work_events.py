"""Events of the agent in Karmada's own words, on the Work and on its template (contract 5.7)."""

from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, namespaced_name
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Code

EXECUTION = "execution-controller"
WORK_STATUS = "work-status-controller"
ESCAPES = "escape-detector"
POLICIES = "placement-guard"
"""Not Karmada's: events of ours that have no counterpart there."""

NORMAL = "Normal"
WARNING = "Warning"


class WorkEvents:
    """Writes the events of one Work; texts and names are those of the hub."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def dispatching(self, work: Object, message: str) -> None:
        """Say that the condition Dispatching changed."""
        self._recorder.record(EXECUTION, work, NORMAL, "WorkDispatching", message)

    def synced(self, work: Object, cluster: str) -> None:
        """Say that all manifests of a Work are applied."""
        text = f"Sync work({_name(work)}) to cluster({cluster}) successful."
        self._recorder.record(EXECUTION, work, NORMAL, "SyncSucceed", text)

    def sync_failed(self, work: Object, cluster: str, error: str) -> None:
        """Say that a Work could not be applied."""
        text = f"Failed to sync work({_name(work)}) to cluster({cluster}), err: {error}"
        self._recorder.record(EXECUTION, work, WARNING, "SyncFailed", text)

    def refused(self, work: Object, code: str, text: str) -> None:
        """Say that a manifest is refused by a rule (rewriting-rules 7)."""
        self._recorder.record(EXECUTION, work, WARNING, code, text)

    def bound_met(self, cluster: Object, text: str) -> None:
        """Say on a Cluster that it has more than it may have; the Works say which are out."""
        text = f"{text}; the agent does not apply what exceeds it"
        self._recorder.record(EXECUTION, cluster, WARNING, Code.BOUND_EXCEEDED, text)

    def noticed(self, work: Object, notice: Notice) -> None:
        """Say what a user should know of a manifest that is applied all the same."""
        self._recorder.record(EXECUTION, work, WARNING, notice.code, notice.detail)

    def escaped(self, involved: Object, text: str) -> None:
        """Say that a pod runs where it must not; involved: its Work, else its Cluster."""
        self._recorder.record(ESCAPES, involved, WARNING, "PodEscaped", text)

    def policy_wrong(self, cluster: Object, reason: str, text: str) -> None:
        """Say on a Cluster which admission policy is missing, or weaker than it was made."""
        self._recorder.record(POLICIES, cluster, WARNING, reason, text)

    def applied(self, manifest: Object, cluster: str) -> None:
        """Tell the template that its object is on the host."""
        text = f"Successfully applied resource({_slashed(manifest)}) to cluster {cluster}"
        self._on_template(manifest, cluster, NORMAL, "SyncSucceed", text)

    def not_applied(self, manifest: Object, cluster: str, error: str) -> None:
        """Tell the template that its object could not be written."""
        name = _name(manifest)
        text = f"Failed to create or update resource({name}) in member cluster({cluster}): {error}"
        self._on_template(manifest, cluster, WARNING, "SyncFailed", text)

    def recreated(self, manifest: Object, cluster: str, error: str | None) -> None:
        """Tell the template how it went when its object, deleted on the host, was made again."""
        name = _slashed(manifest)
        kind, reason = (NORMAL, "SyncSucceed") if error is None else (WARNING, "SyncFailed")
        text = f"Successfully applied resource({name}) to cluster {cluster}"
        if error is not None:
            subject = f"resource({name}) in member cluster({cluster})"
            text = f"Failed to create or update {subject}: {error}"
        self._on_template(manifest, cluster, kind, reason, text, source=WORK_STATUS)

    def reflected(self, work: Object, manifest: Object, error: str | None) -> None:
        """Say how reflecting the status of an object ended."""
        text = f"Reflect status for object({manifest['kind']}/{_slashed(manifest)})"
        if error is None:
            self._status(work, NORMAL, "ReflectStatusSucceed", f"{text} succeed.")
        else:
            self._status(work, WARNING, "ReflectStatusFailed", f"{text} failed, err: {error}.")

    def interpreted(self, work: Object, manifest: Object, health: str, error: str | None) -> None:
        """Say what the health of an object is; health is Healthy or Unhealthy."""
        text = f"Interpret health of object({manifest['kind']}/{_slashed(manifest)})"
        if error is None:
            text = f"{text} as {health.lower()}."
            self._status(work, NORMAL, "InterpretHealthSucceed", text)
        else:
            text = f"{text} failed, err: {error}."
            self._status(work, WARNING, "InterpretHealthFailed", text)

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
    ) -> None:
        uid = annotations_of(manifest).get(karmada.TEMPLATE_UID_ANNOTATION)
        key = key_of(manifest)
        if not isinstance(uid, str) or not uid or not key.name or not all(key.gvk[1:]):
            return  # a manifest that is refused for its shape may name no template
        template: Object = {
            "apiVersion": key.gvk.api_version,
            "kind": key.gvk.kind,
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
        }
        turn = karmada.execution_namespace(cluster)  # as of what is said of its Works
        self._recorder.record(source, template, kind, reason, text, turn)


def _metadata(obj: Object) -> Object:
    """Return the metadata; of a manifest that is refused for having none it is empty."""
    metadata = dig(obj, "metadata")
    return metadata if isinstance(metadata, dict) else {}


def _slashed(obj: Object) -> str:
    """Return `namespace/name`, with the slash also where there is no namespace."""
    metadata = _metadata(obj)
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


def _name(obj: Object) -> str:
    metadata = _metadata(obj)
    return namespaced_name(metadata.get("namespace") or "", metadata.get("name") or "")
