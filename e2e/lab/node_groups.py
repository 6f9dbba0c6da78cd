"""NodeGroups of KubeEdge on a host: their CRDs, and those of one test."""

from typing import Any

from control_planes import kubeedge
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.lab import Lab
from e2e.lab.wait import eventually

GROUPS = "/apis/apps.kubeedge.io/v1alpha1/nodegroups"


def serve_node_groups(host: Api) -> None:
    """Create KubeEdge's own CRDs, where another test did not, and wait until they are served."""
    for crd in kubeedge.crds():
        try:
            host.create(crd)
        except ApiError as error:
            if error.code != 409:
                raise
    eventually(host.get, GROUPS)


class NodeGroups:
    """Makes the NodeGroups of one test: `selector` chooses them and no others."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._label = f"{lab.id}/groups"
        self._names: set[str] = set()

    @property
    def selector(self) -> Object:
        return {"matchExpressions": [{"key": self._label, "operator": "Exists"}]}

    def apply(self, name: str, **spec: Any) -> Object:
        """Create a NodeGroup, or change the spec of one that this test made.

        No namespace keeps the names of tests apart: give one that contains the lab's id.

        Raises:
            ApiError: 409, another test has one of the name.
        """
        host, path = self._lab.host, f"{GROUPS}/{name}"
        if name in self._names and host.find(path) is not None:
            return host.patch(path, {"spec": spec})
        head = {"apiVersion": "apps.kubeedge.io/v1alpha1", "kind": "NodeGroup"}
        metadata = {"name": name, "labels": {self._label: ""}}
        made = host.create({**head, "metadata": metadata, "spec": spec})
        self._names.add(name)
        return made

    def delete(self) -> None:
        """Delete what was made, once no agent of the test is there to follow it."""
        for agent in self._lab.agents:
            agent.kill()
        for name in self._names:
            self._lab.host.delete(f"{GROUPS}/{name}")
