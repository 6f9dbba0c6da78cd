"""From a refused request to the RBAC rule that would have allowed it."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from karmada_vc_agent.model.rbac_rule import Rule

LASTS_S = 30.0
"""A refusal that ends sooner is the end of an execution namespace, not a lack of rights."""
REMEMBERED_S = 60.0
"""A permission counts as missing for this long after it was last refused."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Need:
    """What a request needs; namespace empty = cluster-wide."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> Rule:
        """The rule to add; it names the object, save where Kubernetes knows no name."""
        names = (self.name,) if self.name else ()
        return Rule((self.group,), (self.resource,), (self.verb,), names)

    def __str__(self) -> str:
        """Return `{apiGroups: [...], ...} in namespace x`."""
        return (
            f"{self.rule} {f'in namespace {self.namespace}' if self.namespace else 'cluster-wide'}"
        )


def need_of(method: str, path: str, *, watches: bool = False) -> Need | None:
    """Return what a request to a resource needs; None where it is to no resource.

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
    """Remembers which permissions are missing lately."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[Need, tuple[float, float]] = {}

    def note(self, need: Need) -> None:
        """Take note of a refusal."""
        now = self._clock()
        first, _ = self._seen.get(need, (now, now))
        self._seen[need] = (first, now)

    def lasting(self) -> list[Need]:
        """Return what was refused again and again."""
        now = self._clock()
        self._seen = {
            need: times for need, times in self._seen.items() if now - times[1] <= REMEMBERED_S
        }
        return [need for need, (first, last) in self._seen.items() if last - first >= LASTS_S]
