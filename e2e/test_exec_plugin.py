"""An agent whose kubeconfig has an exec plugin: its client certificates are renewed in time."""

import base64
import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.access import Kubeconfigs
from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.lab import FAST, Lab
from e2e.lab.wait import PERIODIC_S, within
from tests.fakes.authority import Authority

PLUGIN = """#!{python}
import datetime, json, os, pathlib, time
folder = pathlib.Path(__file__).parent
with open(folder / "runs", "a") as runs:
    print(os.getpid(), file=runs)
if (folder / "hang").exists():
    time.sleep(600)
ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=20)
status = json.loads((folder / "pair.json").read_text())
status["expirationTimestamp"] = ends.isoformat()
answer = {{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}}
print(json.dumps(answer | {{"status": status}}))
"""
HANGS_FOR_S = 90.0


class Plugin:
    """A program that vouches for the agent by the certificate that `join` got for it."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "plugin"
        program.write_text(PLUGIN.format(python=sys.executable))
        program.chmod(0o700)
        content = yaml.safe_load(kubeconfig.read_text())
        user = content["users"][0]["user"]
        self.good = (
            base64.b64decode(user["client-certificate-data"]),
            base64.b64decode(user["client-key-data"]),
        )
        self.gives(self.good)
        content["users"][0]["user"] = {"exec": self._spec()}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(content))

    def _spec(self) -> Object:
        version = "client.authentication.k8s.io/v1"
        return {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never"}

    def gives(self, pair: tuple[bytes, bytes]) -> None:
        """Have it give another certificate and key from now on."""
        chain, key = (pem.decode() for pem in pair)
        new = self.folder / "pair.new"
        new.write_text(json.dumps({"clientCertificateData": chain, "clientKeyData": key}))
        new.rename(self.folder / "pair.json")

    def hangs(self, *, is_on: bool) -> None:
        mark = self.folder / "hang"
        mark.touch() if is_on else mark.unlink()

    def runs(self) -> list[int]:
        """Return the process of each time that it ran."""
        return [int(line) for line in (self.folder / "runs").read_text().split()]


@pytest.fixture
def plugin(lab: Lab) -> Plugin:
    return Plugin(lab.directory / "plugin", lab.new_agent(lab.group("a"), flags=FAST).join().hub)


def test_certificates_of_a_plugin_are_renewed_and_one_that_hangs_is_ended(
    lab: Lab, plugin: Plugin
) -> None:
    joined = lab.agents[0]
    used = Kubeconfigs(plugin.kubeconfig, joined.host_kubeconfig)
    agent = Agent(lab.directory / "by-plugin", used, joined.settings, *FAST, administrator=None)
    lab.agents.append(agent)
    agent.start()
    lab.wait_serving(agent)
    (name,) = (entry["name"] for entry in agent.settings["virtualClusters"])
    within(90.0, _has_run, plugin, len(plugin.runs()) + 2)
    assert agent.log().count("Using changed credentials") >= 1
    lab.wait_ready(name)

    # What the hub rejects is asked for anew, and nobody has to restart anything.
    plugin.gives(Authority().pair(lifetime=timedelta(days=3650)))
    within(60.0, _is_logged, agent, "Unauthorized")
    plugin.gives(plugin.good)
    settings = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([settings], placement=objects.to_clusters(name))
    within(90.0, lab.wait_fully_applied, settings)

    plugin.hangs(is_on=True)
    within(
        HANGS_FOR_S, _is_logged, agent, "its plugin plugin did not answer within 30 s and was ended"
    )
    plugin.hangs(is_on=False)
    seen = agent.log().count("Using changed credentials")
    within(60.0, _is_used_again, agent, seen)
    lab.wait_ready(name)
    within(PERIODIC_S, _none_is_left, plugin)
    assert "Traceback" not in agent.log()


def _none_is_left(plugin: Plugin) -> None:
    """Assert that at most the last one runs; numbers of processes may be those of others by now."""
    assert not [run for run in plugin.runs()[:-1] if b"/plugin\0" in _command(run)]


def _command(process: int) -> bytes:
    """Return what a process runs, nothing of one that ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _has_run(plugin: Plugin, times: int) -> None:
    assert len(plugin.runs()) >= times


def _is_logged(agent: Agent, text: str) -> None:
    assert text in agent.log()


def _is_used_again(agent: Agent, before: int) -> None:
    assert agent.log().count("Using changed credentials") > before
