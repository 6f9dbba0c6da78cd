"""The input of `join`."""

from dataclasses import dataclass
from pathlib import Path

import click

from karmada_vc_agent.access.agent_nodes import pod_affinity
from karmada_vc_agent.access.agent_objects import HostInstall
from karmada_vc_agent.access.hub_objects import HubAccess
from karmada_vc_agent.access.policy_owner import PolicyOwner
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.install.bootstrap import BootstrapToken
from karmada_vc_agent.install.host_rights import NOT_DESCRIBED, HostRights, host_rights
from karmada_vc_agent.kube.discovery import ServedApis
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """All input of a `join`, which applies the manifests, or writes or prints them.

    schedulers, api_groups: what the administrator approves, see `host_rights`. sets_image: replace
    the image that another writer set. unconfined: install on a host without admission policies,
    too. directory: of the files to write; None = print, unless it applies. is_dry: report what
    would be applied, and change nothing.
    """

    access: HubAccess
    namespace: str
    config: AgentConfig
    schedulers: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    is_elsewhere: bool
    settings: str
    image: str
    sets_image: bool
    hub: HubOptions | None
    kubeconfig: str
    lifetime_s: int
    sides: tuple[str, ...]
    unconfined: bool = False
    applies: bool = False
    directory: Path | None = None
    is_dry: bool = False

    def rights(
        self,
        served: ServedApis | None = None,
        installed: PolicyOwner | None = None,
        described: Described = NOT_DESCRIBED,
    ) -> HostRights:
        """Return what is to exist on the host, without the agent's kubeconfig for the hub.

        Without arguments: what can be said without reading the host; see `host_rights`.
        """
        config = self.config
        # Nodes in groups that the settings do not list have these labels.
        labels = [NODE_GROUP_LABEL] if config.node_groups.enabled else []
        labels += filter(None, (config.discover.node_label,))
        install = HostInstall(
            self.access.agent,
            self.namespace,
            self.image,
            self.settings,
            affinity=pod_affinity((*config.virtual_clusters, *described.objects), labels),
            is_elsewhere=self.is_elsewhere,
        )
        return host_rights(
            install,
            config,
            self.access.clusters,
            served,
            installed,
            described,
            schedulers=self.schedulers,
            api_groups=self.api_groups,
        )

    def say(self, text: str) -> None:
        """Print a line: to stderr where the manifests go to stdout."""
        click.echo(text, err=not self.applies and self.directory is None)
