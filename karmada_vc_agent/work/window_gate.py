"""Where a manifest may wait for a window, and what is applied in its place until then."""

from dataclasses import dataclass
from typing import Protocol

from karmada_vc_agent.model.windows import Opening
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.target import Target, WorkManifest


@dataclass(frozen=True, slots=True)
class Waiting:
    """A manifest that waits for a window; kept: the result of what was applied before, if known."""

    opening: Opening
    kept: Applied | Failure | None = None


class WindowGate(Protocol):
    """Decides which manifests wait; remembers those that were applied."""

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""

    async def closed_for(self, target: Target, *, is_known: bool) -> Opening | None:
        """Return the window that a manifest waits for; None if it may be applied now."""

    def note(self, item: WorkManifest) -> None:
        """Record that a manifest was applied."""

    def former(self, item: WorkManifest) -> WorkManifest | None:
        """Return the manifest that was applied for the same object, None if it is not recorded."""

    def forget(self, item: WorkManifest) -> None:
        """Drop a manifest whose object is removed."""

    def forget_work(self, work: str) -> None:
        """Drop a deleted Work, as `<execution namespace>/<name>`."""


class AlwaysOpen:
    """The gate of an agent without windows."""

    def marked(self, target: Target) -> Target:
        """Return the target."""
        return target

    async def closed_for(self, _target: Target, *, is_known: bool) -> Opening | None:  # noqa: ARG002
        """Return None: nothing waits."""
        return None

    def note(self, item: WorkManifest) -> None:
        """Record nothing."""

    def former(self, _item: WorkManifest) -> WorkManifest | None:
        """Return None."""
        return None

    def forget(self, item: WorkManifest) -> None:
        """Drop nothing."""

    def forget_work(self, work: str) -> None:
        """Drop nothing."""
