"""The events of the sync of a Work, as Karmada's agent writes them (contract 5.7).

A Work of the checkpoint has none: what the hub has is open, and its list has every Work
synced again.
"""

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.rules import work_conditions
from karmada_vc_agent.work.rules.work_status import applied_of, dispatching_of
from karmada_vc_agent.work.window_gate import Waiting
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_outcome import WorkOutcome, is_recreation
from karmada_vc_agent.work.works import is_listed


def report_dispatching(events: WorkEvents, work: Object, condition: Condition) -> None:
    """Write an event if the condition Dispatching changed."""
    before = dispatching_of(work.get("status"))
    if is_listed(work) and (before is None or before["status"] != condition["status"]):
        events.dispatching(work, condition["message"])


def report_sync(
    events: WorkEvents, cluster: str, work: Object, outcome: WorkOutcome, *, is_new: bool
) -> None:
    """Write the events of a sync; one that changed nothing is worth none.

    is_new: the Work changed since its last sync.
    """
    before = applied_of(work.get("status"))
    if not is_listed(work):
        return
    if outcome.was_recreated and not is_new:
        _report_recreation(events, cluster, outcome)
    elif is_new or outcome.errors or before is None or before["status"] != "True":
        _report_manifests(events, cluster, outcome, work)


def _report_manifests(events: WorkEvents, cluster: str, outcome: WorkOutcome, work: Object) -> None:
    """Write the events of the Work and each of its manifests, also of success."""
    for manifest, outcome_of_one in outcome.results:
        result = outcome_of_one.kept if isinstance(outcome_of_one, Waiting) else outcome_of_one
        if result is None:
            continue
        if isinstance(result, Applied):
            for notice in result.notices:
                events.noticed(work, notice)
            events.applied(manifest, cluster)
            continue
        if result.code is not None:
            events.refused(work, result.code, result.text)
        events.not_applied(manifest, cluster, result.text)
    if outcome.waiting and not outcome.errors:
        return
    if outcome.errors:
        error = work_conditions.aggregate(outcome.errors)
        events.sync_failed(work, cluster, error)
    else:
        events.synced(work, cluster)


def _report_recreation(events: WorkEvents, cluster: str, outcome: WorkOutcome) -> None:
    """Write events on the templates only, as Karmada does: the Work did not change."""
    for manifest, result in outcome.results:
        if is_recreation(result):
            done = result.kept if isinstance(result, Waiting) else result
            error = done.text if isinstance(done, Failure) else None
            events.recreated(manifest, cluster, error)
