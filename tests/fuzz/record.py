"""Records lists of a real hub and a real host, for the fuzzer to spoil: see `recorded/`.

hack/demo
.venv/bin/python -m tests.fuzz.record .demo/hub.kubeconfig .demo/host.kubeconfig
"""

import asyncio
import sys
from pathlib import Path

import orjson

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL

RECORDED = Path(__file__).parent / "recorded"
_OURS = {"labelSelector": CLUSTER_LABEL}
_HUB = {
    "works": "/apis/work.karmada.io/v1alpha1/works",
    "clusters": "/apis/cluster.karmada.io/v1alpha1/clusters",
}
_HOST = {
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "pods": "/api/v1/pods",
    "deployments": "/apis/apps/v1/deployments",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
}
_OF_ALL = {"nodes", "namespaces", "pods"}
"""What the agent lists without a selector."""


def recorded(name: str) -> list[Object]:
    """Return the objects of a recorded list as a watch tells them, kind included."""
    listed = orjson.loads((RECORDED / f"{name}.json").read_bytes())
    kind = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
    return [{**kind, **item} for item in listed["items"]]


async def _record(hub: Path, host: Path) -> None:
    RECORDED.mkdir(exist_ok=True)
    for side, kubeconfig, paths in (("hub", hub, _HUB), ("host", host, _HOST)):
        client = ApiClient(side, read_kubeconfig(kubeconfig))
        try:
            for name, path in paths.items():
                query = {} if side == "hub" or name in _OF_ALL else _OURS
                listed = orjson.loads(await client.read_page(path, query))
                content = orjson.dumps(listed, option=orjson.OPT_INDENT_2)
                (RECORDED / f"{name}.json").write_bytes(content + b"\n")
        finally:
            await client.close()


if __name__ == "__main__":
    asyncio.run(_record(Path(sys.argv[1]), Path(sys.argv[2])))
