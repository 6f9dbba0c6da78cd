"""The Ready condition of a Cluster: the meaning of a probe, and damping of changes."""

from dataclasses import dataclass

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown

READY = ConditionType(
    "Ready",
    "The host can take what is scheduled to the virtual cluster.",
    on_cluster=Shown.ALWAYS,
    on_object=Shown.ALWAYS,
)

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Seconds for which a new state must last before it is reported (contract 4.3)."""

    success_s: float = 30.0
    failure_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of damping for one condition of one Cluster; in memory only.

    status: last observed. flipped_at_s: when it last changed, on the clock of `now_s`.
    """

    status: str
    flipped_at_s: float = _NEVER


def is_online(http_status: int | None) -> bool:
    """Return True if the host answered its health probe with a 2xx.

    http_status: of /readyz (of /healthz if that is 404), None if the request failed.
    """
    return http_status is not None and 200 <= http_status < 300


def observed_ready(http_status: int | None) -> Condition:
    """Return the Ready condition for the result of a probe of the host (contract 4.2)."""
    if not is_online(http_status):
        return READY.false("ClusterNotReachable", "cluster is not reachable")
    if http_status != 200:
        message = "cluster is reachable but health endpoint responded without ok"
        return READY.false("ClusterNotReady", message)
    return READY.true("ClusterReady", "cluster is healthy and ready to accept workloads")


def damp(
    last: Observation | None,
    observed: Condition,
    current: Condition | None,
    now_s: float,
    thresholds: Thresholds,
) -> tuple[Condition, Observation]:
    """Return the condition to write, and the state for the next call.

    last: the state of the previous call, None after a start. current: the last judgement of this
    agent, never the condition on the hub, which sets Unknown when the hub itself is unreachable.
    Only changes between True and not True are damped. Source: contract 4.3.
    """
    if last is None:
        return observed, Observation(observed["status"])
    if current is None:
        return observed, last
    if last.status != observed["status"]:
        last = Observation(observed["status"], now_s)
    is_ready = observed["status"] == "True"
    flips = is_ready != (current.get("status") == "True")
    threshold_s = thresholds.success_s if is_ready else thresholds.failure_s
    if flips and now_s < last.flipped_at_s + threshold_s:
        return current, last
    return observed, last
