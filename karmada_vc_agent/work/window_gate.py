"""Where a manifest may wait for a window, and what is applied in its place until then."""

from dataclasses import dataclass

from karmada_vc_agent.model.windows import Opening
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.target import Target, WorkManifest


@dataclass(frozen=True, slots=True)
class Waiting:
    """A manifest that waits for a window; kept: the result of its predecessor, if recorded."""

    window: Opening
    kept: Applied | Failure | None = None


class WindowGate:
    """Decides which manifests wait for a window, and remembers those that were applied.

    Without the feature of windows nothing waits, and nothing is remembered.
    """

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""
        return target

    async def closed_for(self, target: Target, *, is_known: bool) -> Opening | None:  # noqa: ARG002
        """Return the window that a manifest waits for; None if it may be applied now.

        is_known: the hub has that all of this generation was applied. Raises KubeError, and what
        the rules raise.
        """
        return None

    def note(self, item: WorkManifest) -> None:
        """Record that a manifest was applied."""

    def former(self, item: WorkManifest) -> WorkManifest | None:  # noqa: ARG002
        """Return the manifest that was applied for the same object, None if it is not recorded."""
        return None

    def forget(self, item: WorkManifest) -> None:
        """Drop a manifest whose object is removed."""

    def forget_work(self, work: str) -> None:
        """Drop a deleted Work, as `<execution namespace>/<name>`."""
