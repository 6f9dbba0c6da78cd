"""The clients of both API servers, and what is changed on all of them at once."""

from dataclasses import dataclass

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Clients:
    """The API servers; `urgent` are the lanes of their own, not fenced by the lead."""

    hub: ApiClient
    hub_urgent: ApiClient
    hub_leases: ApiClient
    hub_events: ApiClient
    host: ApiClient
    host_urgent: ApiClient

    def __post_init__(self) -> None:
        """Let all clients of a server share what is known of its time."""
        for lanes in (self.of_hub(), self.of_host()):
            for client in lanes:
                client.history = lanes[0].history

    def of_hub(self) -> tuple[ApiClient, ...]:
        """Return every client of the hub."""
        return (self.hub, self.hub_urgent, self.hub_leases, self.hub_events)

    def of_host(self) -> tuple[ApiClient, ...]:
        """Return every client of the host."""
        return (self.host, self.host_urgent)

    def use_for_hub(self, credentials: Credentials) -> None:
        """Be known to the hub by other credentials, from the next request on."""
        for client in self.of_hub():
            client.credentials = credentials

    def use_for_host(self, credentials: Credentials) -> None:
        """Be known to the host by other credentials, from the next request on."""
        for client in self.of_host():
            client.credentials = credentials

    def missing_rights(self) -> str | None:
        """Say which right is missing for longer, or None."""
        for client in (*self.of_hub(), *self.of_host()):
            for need in client.denials.lasting():
                return f"{client.name}: the agent needs rule {need}; see karmada-vc-agent join"
        return None

    async def close(self) -> None:
        """Close all connections."""
        for client in (*self.of_hub(), *self.of_host()):
            await client.close()
