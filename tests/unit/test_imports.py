"""What an agent loads: a count, for memory and the time until it serves depend on it."""

import subprocess
import sys
from pathlib import Path

from tests.fakes.authority import Authority, kubeconfig

ROOT = Path(__file__).resolve().parents[2]
OURS, THEIRS = 145, 185
"""The most modules that `run` loads of the agent, and of libraries."""
HEAVY = (
    "cryptography",
    "h11",
    "jinja2",
    "karmada_vc_agent.diagnosis",
    "karmada_vc_agent.features.gateway.command",
    "karmada_vc_agent.features.gateway.server.gateway",
    "karmada_vc_agent.features.objects.operator",
    "karmada_vc_agent.install.join",
    "karmada_vc_agent.install.leave",
    "karmada_vc_agent.kube.new_keys",
    "kopf",
    "kubernetes",
    "lupa",
)
_LOADED = """
import sys
from pathlib import Path
import karmada_vc_agent.__main__ as program
sys.argv[1:] = ["run", "--help"]
try:
    program.main()
except SystemExit:
    pass
from prometheus_client import generate_latest
from karmada_vc_agent.agent import Agent
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.kube.kubeconfig import parse_kubeconfig
hub = parse_kubeconfig(sys.stdin.buffer.read(), Path("hub"))
assert b"hub_certificate_expiration" in generate_latest(Agent(CONFIG(), hub, hub).metrics.registry)
print("loaded", *sys.modules)
"""


def loaded() -> set[str]:
    """Return the modules of `run`, once it has a client certificate for the hub."""
    command = [sys.executable, "-c", _LOADED]
    text = kubeconfig(Authority().pair())
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, check=True)  # noqa: S603
    return set(done.stdout.decode().rpartition("loaded ")[2].split())


def test_agent_loads_little() -> None:
    modules = loaded()
    assert not modules & set(HEAVY)
    of_agent = {each for each in modules if each.partition(".")[0] == "karmada_vc_agent"}
    top = {each: each.partition(".")[0] for each in modules - of_agent}
    of_python = {*sys.stdlib_module_names, *sys.builtin_module_names, "__main__"}
    libraries = {each for each, name in top.items() if name not in of_python}
    assert len(of_agent) <= OURS, sorted(of_agent)
    assert len(libraries) <= THEIRS, sorted(libraries)
