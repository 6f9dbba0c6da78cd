"""Which events the sync of a Work is worth, as with Karmada's agent (contract 5.7)."""

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.features.windows.windows import Waiting
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.rules import work_conditions
from karmada_vc_agent.work.rules.work_status import applied_of, dispatching_of
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_outcome import WorkOutcome, is_recreation


class OutcomeEvents:
    """Writes the events of the outcomes of one Work after the other."""

    def __init__(self, events: WorkEvents) -> None:
        self._events = events

    def of_dispatching(self, work: Object, condition: Condition) -> None:
        """Write an event if the condition Dispatching changed."""
        before = dispatching_of(work.get("status"))
        if before is None or before["status"] != condition["status"]:
            self._events.dispatching(work, condition["message"])

    def of_sync(self, cluster: str, work: Object, outcome: WorkOutcome, *, is_new: bool) -> None:
        """Write the events of a sync; one that found all as it was is worth none.

        is_new: whether the Work changed since its last sync.
        """
        before = applied_of(work.get("status"))
        if outcome.was_recreated and not is_new:
            self._of_recreation(cluster, outcome)
        elif is_new or outcome.errors or before is None or before["status"] != "True":
            self._of_manifests(cluster, outcome, work)

    def _of_manifests(self, cluster: str, outcome: WorkOutcome, work: Object) -> None:
        """Write the events of the Work and each of its manifests, also of success."""
        for manifest, found in outcome.results:
            result = found.kept if isinstance(found, Waiting) else found
            if result is None:
                continue
            if isinstance(result, Applied):
                for notice in result.notices:
                    self._events.noticed(work, notice)
                self._events.applied(manifest, cluster)
                continue
            if result.code is not None:
                self._events.refused(work, result.code, result.text)
            self._events.not_applied(manifest, cluster, result.text)
        if outcome.waiting and not outcome.errors:
            return
        if outcome.errors:
            error = work_conditions.aggregate(outcome.errors)
            self._events.sync_failed(work, cluster, error)
        else:
            self._events.synced(work, cluster)

    def _of_recreation(self, cluster: str, outcome: WorkOutcome) -> None:
        """Write events on the templates only, as Karmada does: the Work did not change."""
        for manifest, result in outcome.results:
            if is_recreation(result):
                done = result.kept if isinstance(result, Waiting) else result
                error = done.text if isinstance(done, Failure) else None
                self._events.recreated(manifest, cluster, error)
