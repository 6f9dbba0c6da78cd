"""From a denied request to the RBAC rule that would have allowed it."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from cachetools import TTLCache

from karmada_vc_agent.model.rbac_rule import Rule

LASTS_S = 30.0
"""Shorter denials come from the end of an execution namespace, not from missing rules."""
FORBIDDEN_S = 300.0
"""The longest pause of a list where an administrator has to give a right first."""
REMEMBERED_S = FORBIDDEN_S + LASTS_S
"""A permission counts as missing for this long after it was last refused, unless it was given."""
REMEMBERED = 1024
"""Permissions that are missing at once; a request may name any object, so of more none is kept."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Need:
    """The permission that a request needs; namespace "" = cluster-wide."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> Rule:
        """The rule to add; with the object's name, except where Kubernetes knows no name."""
        names = (self.name,) if self.name else ()
        return Rule((self.group,), (self.resource,), (self.verb,), names)

    def __str__(self) -> str:
        """Return `{apiGroups: [...], ...} in namespace x`."""
        return (
            f"{self.rule} {f'in namespace {self.namespace}' if self.namespace else 'cluster-wide'}"
        )


def need_of(method: str, path: str, *, watches: bool = False) -> Need | None:
    """Return what a request needs; None if its path is not of a resource.

    path: as in a URL, `/apis/<group>/<version>/namespaces/<namespace>/<resource>/<name>/<sub>`.
    Source: Kubernetes request verbs and resources (RequestInfo).
    """
    steps = [unquote(step) for step in urlsplit(path).path.split("/") if step]
    if steps[:1] == ["apis"] and len(steps) > 3:
        group, steps = steps[1], steps[3:]
    elif steps[:1] == ["api"] and len(steps) > 2:
        group, steps = "", steps[2:]
    else:
        return None
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2 and steps[2] not in ("status", "finalize"):
        namespace, steps = steps[1], steps[2:]
    resource, name = steps[0], steps[1] if len(steps) > 1 else ""
    if len(steps) > 2:
        resource = f"{resource}/{steps[2]}"
    verb = _verb(method, name, watches=watches)
    return Need(verb, group, resource, namespace, name)


def _verb(method: str, name: str, *, watches: bool) -> str:
    if method == "GET":
        return "watch" if watches else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS[method]


class Denials:
    """The permissions that were missing recently."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: TTLCache[Need, tuple[float, float]] = TTLCache(
            REMEMBERED, REMEMBERED_S, timer=clock
        )

    def note(self, need: Need) -> None:
        """Record a denial."""
        now = self._clock()
        first, _ = self._seen.get(need, (now, now))
        if need in self._seen or len(self._seen) < REMEMBERED:
            self._seen[need] = (first, now)

    def granted(self, method: str, path: str, *, watches: bool = False) -> None:
        """Take note of a request that was not refused; see need_of()."""
        if self._seen and (need := need_of(method, path, watches=watches)):
            self._seen.pop(need, None)

    def lasting(self) -> list[Need]:
        """Return what was denied repeatedly over time."""
        return [need for need, (first, last) in self._seen.items() if last - first >= LASTS_S]
