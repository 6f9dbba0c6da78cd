"""What operators of the site have: kubeconfigs that the command makes, and a gateway to go to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml

from e2e.lab.agent import ROOT, Agent, clean_environment
from e2e.lab.api import Object
from e2e.lab.gateway import Gateway, Way
from e2e.lab.kubectl import kubectl
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import STARTED_S, within


def kubeconfig_of(lab: Lab, agent: Agent, group: Group, account: str) -> Path:
    """Return what `karmada-vc-agent kubeconfig` writes for an account of a virtual cluster."""
    file = lab.directory / f"{group.name}-{account}.kubeconfig"
    command = [
        *(sys.executable, "-m", "karmada_vc_agent", "kubeconfig", group.name),
        *("--config", str(agent.config), "--account", account, "--output", str(file)),
        *("--kubeconfig", str(lab.host.kubeconfig)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=clean_environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    return file


class OperatedSite:
    """Two virtual clusters, one with a quota and a Pod Security level; an operator of each.

    Its gateway ends with `with`.
    """

    def __init__(self, lab: Lab, hub: Path | None = None) -> None:
        """hub: by which way the agent reaches it."""
        self.lab = lab
        self.a, self.b = lab.group("a"), lab.group("b")
        self.gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
        bounded = self.a.settings(quota={"pods": "200"}, podSecurity="baseline")
        settings = self.gateway.settings
        self.agent = lab.new_agent(bounded, self.b, hub=hub, gateway=settings).start()
        lab.wait_serving(self.agent)
        self.gateway.start(self.agent)
        self.file, self.other = (
            within(STARTED_S, kubeconfig_of, lab, self.agent, group, "alice")
            for group in (self.a, self.b)
        )
        for file in (self.file, self.other):
            within(STARTED_S, kubectl, file, "get", "namespace", "default")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.stop()

    def on_host(self, virtual: str) -> Object:
        return self.lab.host.get(f"/api/v1/namespaces/{self.a.host_namespace(virtual)}")

    def ask(self, method: str, path: str, body: Any, form: str = "application/json") -> Any:
        """Send a request as the operator of the first one; return code, object and headers."""
        headers = {"Content-Type": form}
        answer = self.answer(method, path, json.dumps(body).encode(), headers)
        return answer.status, answer.json(), answer.headers

    def watch(self, path: str, accept: str) -> Iterator[Object]:
        """Yield the events of a watch as the operator of the first one, as long as one reads."""
        answer = self.answer("GET", path, b"", {"Accept": accept}, preload_content=False)
        try:
            for line in answer:
                yield json.loads(line)
        finally:
            answer.close()

    def answer(
        self, method: str, path: str, body: bytes, headers: dict[str, str], **how: Any
    ) -> urllib3.BaseHTTPResponse:
        """Send a request as the operator of the first one, as it is. how: for urllib3."""
        user = yaml.safe_load(self.file.read_text())["users"][0]["user"]
        headers = {"Authorization": f"Bearer {user['token']}", **headers}
        url = self.gateway.endpoint(self.a.name).rstrip("/") + path
        authority = str(self.lab.directory / "gateway" / "ca.crt")
        with urllib3.PoolManager(ca_certs=authority, retries=False) as pool:
            return pool.request(method, url, headers=headers, body=body or None, **how)
