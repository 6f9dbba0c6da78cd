"""Objects that manifests of several Works are about; the last of them that wrote it has it.

Karmada's agent deletes such an object with either Work (contract 5.8). Here it stays for the
others.
"""

from operator import itemgetter

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.model.objects import GroupKind, Object, key_of

_Key = tuple[str, GroupKind, str, str]
"""Virtual cluster, kind, virtual namespace and name."""


class Contested:
    """The Works that wrote an object after one another, as `<execution namespace>/<name>`.

    A Work that is deleted without its finalizer stays here: the caller checks that others exist.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._works: dict[_Key, set[str]] = scopes.keep_by(itemgetter(0))

    def note(self, cluster: str, manifest: Object, *works: str) -> None:
        """Record Works whose manifests are about one object."""
        self._works.setdefault(_key(cluster, manifest), set()).update(works)

    def leave(self, cluster: str, manifest: Object, work: str) -> set[str]:
        """Forget a Work that gives up an object; return the others."""
        key = _key(cluster, manifest)
        others = self._works.get(key, set())
        others.discard(work)
        if not others:
            self._works.pop(key, None)
        return set(others)


def is_about(manifest: Object, other: Object) -> bool:
    """Whether two manifests of one virtual cluster are about the same object."""
    return _key("", manifest) == _key("", other)


def _key(cluster: str, manifest: Object) -> _Key:
    key = key_of(manifest)
    return cluster, key.gvk.group_kind, key.namespace, key.name
