"""A run has clients of the hub and of both hosts."""

import json
from pathlib import Path

from bench.lab import Lab
from bench.run import open_servers


async def test_servers_are_hub_and_both_hosts(tmp_path: Path) -> None:
    for name in ("hub", "host", "host2"):
        content = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://{name}.example"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "x",
        }
        (tmp_path / f"{name}.kubeconfig").write_text(json.dumps(content))
    async with open_servers(Lab(tmp_path, 1)) as servers:
        clients = [servers.hub, servers.host, servers.host2]
        assert [each.name for each in clients] == ["hub", "host", "host2"]
