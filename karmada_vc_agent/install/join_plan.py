"""What `join` is asked for."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from karmada_vc_agent.access.agent_nodes import off_groups
from karmada_vc_agent.access.agent_objects import HostInstall
from karmada_vc_agent.access.hub_objects import HubAccess
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.install.bootstrap import BootstrapToken
from karmada_vc_agent.install.host_rights import Approvals
from karmada_vc_agent.model.well_known import NODE_GROUP_LABEL
from karmada_vc_agent.runner.feature import Described

HUB, HOST = "hub", "host"


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How to reach the hub: a kubeconfig, or an endpoint and a token.

    server: URL of the hub as the agent reaches it; empty = the one in the kubeconfig or
    cluster-info.
    """

    kubeconfig: str = ""
    context: str = ""
    server: str = ""
    endpoint: str = ""
    token: BootstrapToken | None = None
    ca_hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """What to do with the manifests: exactly one of applies, prints and directory.

    is_dry: tell what would be applied, and change nothing.
    """

    applies: bool = False
    prints: bool = False
    directory: Path | None = None
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """All input of a `join`.

    sets_image: whether the image was asked for, so that one that somebody else set is replaced.
    unconfined: install on a host without admission policies, too.
    """

    access: HubAccess
    namespace: str
    config: AgentConfig
    approvals: Approvals
    is_elsewhere: bool
    settings: str
    image: str
    sets_image: bool
    hub: HubOptions | None
    kubeconfig: str
    lifetime_s: int
    sides: tuple[str, ...]
    unconfined: bool = False
    output: Output = field(default_factory=Output)

    def install(self, kubeconfig: str, described: Described | None = None) -> HostInstall:
        """Return what to install on the host. kubeconfig: the agent's, for the hub.

        described: what the host describes; without it the agent's Pods keep off fewer nodes.
        """
        objects = described.objects if described else ()
        off = off_groups((*self.config.virtual_clusters, *objects), self._labels_of_groups())
        applies = (vc.apply_as for vc in self.config.virtual_clusters)
        return HostInstall(
            self.access.agent,
            self.namespace,
            self.image,
            self.settings,
            kubeconfig,
            accounts=tuple((each.namespace, each.name) for each in applies if each is not None),
            off_groups=off,
            is_elsewhere=self.is_elsewhere,
        )

    def _labels_of_groups(self) -> list[str]:
        """Return the labels of nodes that are in groups which the settings do not list."""
        labels = [NODE_GROUP_LABEL] if self.config.node_groups.enabled else []
        found_by = self.config.discover.node_label
        return [*labels, found_by] if found_by else labels

    def say(self, text: str) -> None:
        """Print a line: to stderr where the manifests go to stdout."""
        click.echo(text, err=self.output.prints)
