"""The Leases that are renewed, and when each was last attempted."""

from karmada_vc_agent.cluster.progress import Progress
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.signal import Signal


class Leases:
    """Renewed from the first time a Cluster was Ready; its progress shows whether it is stuck.

    due: a virtual cluster whose Lease is to be renewed from now on.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._renewed: dict[str, None] = scopes.keep()
        self.due: Signal[[str]] = Signal()
        self.progress = Progress()
        scopes.ended.subscribe(self.progress.forget)

    def start(self, name: str) -> None:
        """Renew the Lease of a virtual cluster from now on."""
        if name not in self._renewed:
            self._renewed[name] = None
            self.progress.note(name)
            self.due.emit(name)

    def end(self, name: str) -> None:
        """Renew it no more, until it is started again."""
        self._renewed.pop(name, None)
        self.progress.forget(name)
