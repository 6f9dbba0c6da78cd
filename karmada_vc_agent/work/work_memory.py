"""What is remembered of each Work between two syncs, until it is deleted.

A Work may be recreated under its name before the deletion of the first was seen. So the memory
is bound to the uid, and another Work of that name starts without any.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.works import WorkKey, key_of_work

_NOT_DONE = -1
"""No generation: the Work is new still once the rest of it is applied."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How the last sync of a Work ended.

    generation: of the Work then. codes: of the manifests that a rule refused.
    """

    uid: str
    generation: int
    codes: tuple[str, ...]


class WorkMemory:
    """The last result of each Work."""

    def __init__(self, scopes: Scopes) -> None:
        scopes.ended.subscribe(self._end)
        self._outcomes: dict[WorkKey, _Outcome] = {}

    def note(self, work: Object, codes: tuple[str, ...] = (), *, is_done: bool = True) -> None:
        """Record the result of a sync of a Work; is_done: none of this generation waits."""
        generation = work["metadata"].get("generation") or 0 if is_done else _NOT_DONE
        self._outcomes[key_of_work(work)] = _Outcome(uid_of(work), generation, codes)

    def knows(self, key: WorkKey) -> bool:
        """Return whether this process synced a Work of this name."""
        return key in self._outcomes

    def is_new(self, work: Object) -> bool:
        """Return whether a Work changed since its last sync, or never was synced."""
        previous = self._outcomes.get(key_of_work(work))
        seen = (uid_of(work), work["metadata"].get("generation") or 0)
        return previous is None or (previous.uid, previous.generation) != seen

    def forget_predecessor(self, work: Object) -> None:
        """Forget another Work of this name, which is deleted."""
        previous = self._outcomes.get(key_of_work(work))
        if previous is not None and previous.uid != uid_of(work):
            self.forget(key_of_work(work))

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is deleted or being deleted."""
        self._outcomes.pop(key, None)

    def _end(self, cluster: str) -> None:
        for key in [key for key in self._outcomes if key[0] == cluster]:
            self.forget(key)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Return (virtual cluster, code) of each refused manifest."""
        for (cluster, _), outcome in self._outcomes.items():
            for code in outcome.codes:
                yield cluster, code
