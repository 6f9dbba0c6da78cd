"""Makes the faults that `doctor` names: one function each, named as its row of faults.yaml."""

import base64
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import yaml

from control_planes.pki import Authority
from e2e.lab.agent import Agent
from e2e.lab.api import Api, Object, collection
from e2e.lab.cleanup import LEASES
from e2e.lab.joining import Joining
from e2e.lab.lab import Group
from e2e.lab.proxy import Proxy
from e2e.lab.tls_front import TlsFront, lead
from e2e.seeded.chain import LONG_AGO, ended_certificate

DOMAIN = "virtualcluster.kubeedge.io"
RBAC = "rbac.authorization.k8s.io/v1"
AHEAD_S = 3600


@dataclass
class Site:
    """An agent that joined and serves, of which nothing is wrong; hub: what `doctor` is given."""

    joining: Joining
    agent: Agent
    group: Group
    hub: Path
    values: dict[str, str] = field(default_factory=dict)

    def join(self) -> None:
        """Join for the settings as they are now; the agent runs elsewhere."""
        hub = ("--karmada-kubeconfig", str(self.joining.lab.hub.kubeconfig))
        done = self.joining.run(*hub, "--apply", "--elsewhere")
        assert done.returncode == 0, done.stderr

    def add(self, ends: ExitStack, entry: Object) -> None:
        """Join for one more virtual cluster, which the agent does not serve yet."""
        entries = self.joining.agent.settings["virtualClusters"]
        self.joining.lab.clusters.add(entry["name"])
        self.values["twin"] = entry["name"]
        entries.append(entry)
        ends.callback(self.join)
        ends.callback(entries.remove, entry)
        self.join()


Make = Callable[[Site, ExitStack, Path], None]


def skewed_clock(site: Site, ends: ExitStack, directory: Path) -> None:
    front = ends.enter_context(Fast(site.hub, directory))
    authority = Authority("front")
    front.use(authority)
    copy = directory / "hub.kubeconfig"
    copy.write_bytes(site.hub.read_bytes())
    lead(copy, front.server, authority)
    site.hub = copy


class Fast(TlsFront):
    """A server whose clock is ahead."""

    def changed(self, chunk: bytes) -> bytes:
        return re.sub(rb"\r\nDate: [^\r]*", _ahead, chunk)


def _ahead(_: "re.Match[bytes]") -> bytes:
    return f"\r\nDate: {formatdate(time.time() + AHEAD_S, usegmt=True)}".encode()


def unreachable_hub(site: Site, ends: ExitStack, directory: Path) -> None:
    wire = ends.enter_context(Proxy(site.hub, directory))
    wire.cut()
    site.hub = wire.kubeconfig


def missing_rule_on_the_hub(site: Site, _: ExitStack, __: Path) -> None:
    _without_rule(site.joining.lab.hub, site, "resourceinterpretercustomizations")


def missing_binding_on_the_hub(site: Site, _: ExitStack, __: Path) -> None:
    name = f"vc-agent:{site.agent.name}"
    site.joining.lab.hub.delete(f"{collection(RBAC, 'ClusterRoleBinding')}/{name}")


def missing_rule_on_the_host(site: Site, _: ExitStack, __: Path) -> None:
    _without_rule(site.joining.lab.host, site, "nodes")


def _without_rule(api: Api, site: Site, resource: str) -> None:
    path = f"{collection(RBAC, 'ClusterRole')}/vc-agent:{site.agent.name}"
    role = api.get(path)
    role["rules"] = [each for each in role["rules"] if resource not in each.get("resources", ())]
    api.replace(path, role)


def missing_admission_policy(site: Site, _: ExitStack, __: Path) -> None:
    policies = collection("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    site.joining.lab.host.delete(f"{policies}/pod-placement.{site.agent.name}.{DOMAIN}")


def expired_certificate_of_the_agent(site: Site, _: ExitStack, __: Path) -> None:
    content = yaml.safe_load(site.joining.kubeconfig().read_text())
    content["users"][0]["user"].update(ended_certificate())
    text = base64.b64encode(yaml.safe_dump(content).encode()).decode()
    path = f"{collection('v1', 'Secret', site.agent.namespace)}/karmada-kubeconfig"
    site.joining.lab.host.patch(path, {"data": {"karmada-kubeconfig": text}})


def stale_lease(site: Site, ends: ExitStack, _: Path) -> None:
    site.agent.kill()
    ends.callback(site.agent.start)
    path, hub = f"{LEASES}/{site.group.name}", site.joining.lab.hub
    lease = hub.get(path)
    lease["spec"]["renewTime"] = LONG_AGO
    hub.replace(path, lease)


def groups_that_overlap(site: Site, ends: ExitStack, _: Path) -> None:
    selector = {"matchLabels": site.group.selector}
    site.add(ends, {"name": f"{site.agent.name}-twin", "nodeSelector": selector})


def misspelt_node(site: Site, ends: ExitStack, _: Path) -> None:
    site.add(ends, {"name": f"{site.agent.name}-typo", "nodeNames": ["no-such-node"]})
