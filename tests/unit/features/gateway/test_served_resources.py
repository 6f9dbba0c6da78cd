"""ServedResources: what the host serves, as threads that translate and the loop see it."""

from collections.abc import Iterator

from karmada_vc_agent.features.gateway.host_state import ServedResources
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.objects import Object

PODS = {"name": "pods", "kind": "Pod", "namespaced": True}


class Interrupted(list[Object]):
    """Lists of kinds, in the midst of which somebody else asks."""

    def __init__(self, resources: ServedResources) -> None:
        super().__init__([{"groupVersion": "v1", "resources": [PODS]}])
        self.resources = resources
        self.seen: list[int] = []
        self.served = ServedApis(self, is_complete=True)

    def __iter__(self) -> Iterator[Object]:
        if not self.seen:
            self.seen.append(-1)
            self.seen.append(len(self.resources.of_group(self.served, "")))
        return super().__iter__()


def test_who_asks_while_another_one_looks_sees_all() -> None:
    """A large body of one virtual cluster is translated in a thread: its neighbour asks then."""
    resources = ServedResources()
    lists = Interrupted(resources)
    assert len(resources.of_group(lists.served, "")) == 1
    assert lists.seen == [-1, 1]
    assert [each.plural for each in resources.of_group(lists.served, "").values()] == ["pods"]
