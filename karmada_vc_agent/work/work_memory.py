"""What is remembered of each Work between two syncs, until it is gone.

A Work may be recreated under its name before anybody saw the deletion of the first. So the memory
is bound to the uid, and another Work of that name starts without any.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.grounds import Dependency, Ground
from karmada_vc_agent.work.works import WorkKey, key_of_work

_NOT_DONE = -1
"""No generation: the Work is new still once the rest of it is applied."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How carrying out a Work ended last.

    generation: of the Work then. codes: of the manifests that a rule refused. depends_on:
    what helps, where all that failed was refused by a rule.
    """

    uid: str
    generation: int
    codes: tuple[str, ...]
    depends_on: frozenset[Dependency] = frozenset()


class WorkMemory:
    """The last result of each Work."""

    def __init__(self) -> None:
        self._outcomes: dict[WorkKey, Outcome] = {}
        self._resting: defaultdict[Dependency, dict[WorkKey, None]] = defaultdict(dict)
        self._changed: dict[WorkKey, set[tuple[Ground, str | None]]] = {}

    def begin(self, key: WorkKey) -> None:
        """Start to record changes while a Work is synced."""
        self._changed[key] = set()

    def end(self, key: WorkKey) -> None:
        """Stop recording changes."""
        self._changed.pop(key, None)

    def note(
        self,
        work: Object,
        codes: tuple[str, ...] = (),
        depends_on: Iterable[Dependency] = (),
        *,
        is_done: bool = True,
    ) -> None:
        """Record the result of a sync of a Work; is_done: none of this generation waits."""
        key, generation = key_of_work(work), work["metadata"].get("generation") or 0
        if not is_done:
            generation = _NOT_DONE
        self.forget(key)
        found = Outcome(uid_of(work), generation, codes, frozenset(depends_on))
        self._outcomes[key] = found
        for rest in found.depends_on:
            self._resting[rest][key] = None

    def is_outdated(self, key: WorkKey) -> bool:
        """Whether something that the result of a sync depends on changed during the sync."""
        found, changed = self._outcomes.get(key), self._changed.get(key, set())
        rests = found.depends_on if found is not None else ()
        return any(rest in changed or (rest.ground, None) in changed for rest in rests)

    def knows(self, key: WorkKey) -> bool:
        """Whether this process synced a Work of this name."""
        return key in self._outcomes

    def is_new(self, work: Object) -> bool:
        """Whether a Work changed since its last sync, or never was synced."""
        known = self._outcomes.get(key_of_work(work))
        seen = (uid_of(work), work["metadata"].get("generation") or 0)
        return known is None or (known.uid, known.generation) != seen

    def forget_predecessor(self, work: Object) -> None:
        """Forget another Work of this name that is gone."""
        known = self._outcomes.get(key_of_work(work))
        if known is not None and known.uid != uid_of(work):
            self.forget(key_of_work(work))

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is gone or being deleted."""
        known = self._outcomes.pop(key, None)
        for rest in known.depends_on if known is not None else ():
            self._resting[rest].pop(key, None)
            if not self._resting[rest]:
                del self._resting[rest]

    def forget_cluster(self, cluster: str) -> None:
        """Forget the Works of a Cluster that is gone."""
        for key in [key for key in self._outcomes if key[0] == cluster]:
            self.forget(key)

    def ground_changed(self, ground: Ground, about: str | None) -> None:
        """Note for the Works that are being synced what changed; about: None = any of them."""
        for changed in self._changed.values():
            changed.add((ground, about))

    def depending_on(self, ground: Ground, about: str | None) -> list[WorkKey]:
        """Return the refused Works that depend on something.

        about: None = on any object of that ground.
        """
        if about is not None:
            return list(self._resting.get(Dependency(ground, about), ()))
        rests = [rest for rest in self._resting if rest.ground is ground]
        return list(dict.fromkeys(key for rest in rests for key in self._resting[rest]))

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Return (virtual cluster, code) of each refused manifest."""
        for (cluster, _), outcome in self._outcomes.items():
            for code in outcome.codes:
                yield cluster, code
