"""The conditions Dispatching and Applied of a Work, in Karmada's words (contract 5.3 to 5.6)."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition

APPLIED = "Applied"
DISPATCHING = "Dispatching"

OUTSIDE_WINDOW = "OutsideWindow"

MESSAGE_MAX_LENGTH = 32768
"""In characters; the Work CRD rejects longer messages."""

_APPLIED_MESSAGE = "Manifest has been successfully applied"


def dispatching(*, suspended: bool) -> Condition:
    """Return the condition Dispatching (contract 5.3)."""
    if suspended:
        return Condition(
            type=DISPATCHING,
            status="False",
            reason="SuspendDispatching",
            message="Work dispatching is in a suspended state.",
        )
    return Condition(
        type=DISPATCHING,
        status="True",
        reason="Dispatching",
        message="Work is being dispatched to member clusters.",
    )


def dispatched(generation: int) -> Condition:
    """Return Dispatching where there are windows: nothing of this generation waits for one."""
    return Condition(**{**dispatching(suspended=False), "observedGeneration": generation})


def waiting(generation: int, until: str) -> Condition:
    """Return Dispatching of a Work of which something waits for a window; until: when it opens."""
    end = f"until {until}" if until else "for its maintenance window, which never opens"
    return Condition(
        type=DISPATCHING,
        status="False",
        reason=OUTSIDE_WINDOW,
        message=f"Generation {generation} waits {end}; what was applied before is kept.",
    )


def applied(total: int, errors: Sequence[str]) -> Condition:
    """Return the condition Applied after all manifests were tried (contract 5.4).

    total: number of manifests. errors: one text for each failed manifest, in order.
    """
    if not errors:
        return _applied("True", "AppliedSuccessful", _APPLIED_MESSAGE)
    count = f"({total - len(errors)}/{total})"
    message = f"Failed to apply all manifests {count}: {aggregate(errors)}"
    return _applied("False", "AppliedFailed", message)


def recreated(error: str | None) -> Condition:
    """Return the condition Applied after a deleted object was recreated (contract 5.6)."""
    if error is None:
        return _applied("True", "ReCreateSuccessful", _APPLIED_MESSAGE)
    return _applied("False", "ReCreateFailed", error)


def aggregate(errors: Sequence[str]) -> str:
    """Join error texts as Kubernetes does: one as it is, several as `[a, b]`, no duplicates."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _applied(status: str, reason: str, message: str) -> Condition:
    return Condition(
        type=APPLIED, status=status, reason=reason, message=message[:MESSAGE_MAX_LENGTH]
    )
