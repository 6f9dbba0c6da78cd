"""Settings that virtual clusters are made from, which change while the agent runs."""

from msgspec.structs import replace

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.signal import Signal


class LiveSettings:
    """The settings in use, without virtual clusters: those are in the registry.

    changed: emitted after they changed.
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = replace(config, virtual_clusters=())
        self.changed: Signal[[]] = Signal()

    def use(self, config: AgentConfig) -> None:
        """Use these from now on."""
        config = replace(config, virtual_clusters=())
        if config != self.config:
            self.config = config
            self.changed.emit()
