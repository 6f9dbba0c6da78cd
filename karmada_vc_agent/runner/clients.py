"""The clients of both API servers, and what is changed on all of them at once."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.config.presets import THIN_LINK
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import open_files
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.connections import Timeouts
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.events import EVENTS_QPS
from karmada_vc_agent.kube.outage import Outage
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.kube.watch_slots import WatchSlots

_log = logging.getLogger(__name__)

EVENTS_BURST = 100
"""Events are written in the background: they must not take the API server from the Works."""
REVIEWS_QPS = 5.0
REVIEWS_BURST = 10
"""Each client of /metrics can make the agent review a token: too few to load the host."""
URGENT = Timeouts(request_s=30.0)
"""A small request that is late is given up, and tried again with what is true then."""
THIN = Timeouts(connect_s=30.0, silence_s=120.0, request_s=900.0, list_s=3600.0)
THIN_URGENT = Timeouts(connect_s=30.0, silence_s=60.0, request_s=90.0)
"""Over a thin link what makes progress continues: a page may take minutes, a connection seconds."""
THIN_REQUESTS = 4
"""At once: enough for round trips of seconds, and so few that a Lease waits for kilobytes only."""
OWNERS_QPS = 10.0
OWNERS_BURST = 20
"""For reading the owner of what an event is about: tenants may make events without end."""
LEASE_LANES = 32
"""How many Leases are renewed at once: each is due every 10 s, however slow the hub."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The API servers; `urgent` are the lanes of their own, not fenced by the lead."""

    hub: ApiClient
    hub_urgent: ApiClient
    hub_leases: ApiClient
    hub_events: ApiClient
    host: ApiClient
    host_urgent: ApiClient
    host_reviews: ApiClient
    host_events: ApiClient

    def __post_init__(self) -> None:
        """Let all clients of a server share its history."""
        for lanes in (self.of_hub(), self.of_host()):
            for client in lanes:
                client.history = lanes[0].history

    def of_hub(self) -> tuple[ApiClient, ...]:
        """Return every client of the hub."""
        return (self.hub, self.hub_urgent, self.hub_leases, self.hub_events)

    def of_host(self) -> tuple[ApiClient, ...]:
        """Return every client of the host."""
        return (self.host, self.host_urgent, self.host_reviews, self.host_events)

    def use_for_hub(self, credentials: Credentials) -> None:
        """Use other credentials for the hub, from the next request on."""
        for client in self.of_hub():
            client.credentials = credentials

    def use_for_host(self, credentials: Credentials) -> None:
        """Use other credentials for the host, from the next request on."""
        for client in self.of_host():
            client.credentials = credentials

    def lacking(self) -> Iterator[tuple[str, Need]]:
        """Yield what is missing for longer: hub or host, and what a request needed there."""
        for client in (*self.of_hub(), *self.of_host()):
            for need in client.denials.lasting():
                yield client.name, need

    async def close(self) -> None:
        """Close all connections."""
        for client in (*self.of_hub(), *self.of_host()):
            await client.close()


def warn_of_few_files(clusters: int) -> None:
    """Warn if so many virtual clusters need more open files than the process may have."""
    files, needed = open_files.allow_most(), open_files.needed(clusters, LEASE_LANES)
    if files < needed:
        _log.warning(
            "Few open files: connections and watch slots are shared; raise RLIMIT_NOFILE",
            extra={"limit": files, "needed": needed},
        )


def connection_shares() -> open_files.Shares:
    """Return how many connections of each sort this process has."""
    return open_files.share_out(open_files.allow_most(), LEASE_LANES)


def connect(
    config: AgentConfig,
    hub: Credentials,
    host: Credentials,
    may_write: Callable[[], bool],
    hub_fence: Callable[[], str] = lambda: "",
    is_shared: Callable[[], bool] = lambda: True,
) -> Clients:
    """Return the clients.

    may_write: whether this process leads. hub_fence: why nothing may be written to the hub, by any
    lane; "" where it may. is_shared: whether there are several virtual clusters.
    """
    is_thin = config.link == THIN_LINK
    shares = connection_shares()
    watch_slots = WatchSlots(shares.watches)
    of_hub = partial(
        ApiClient, "hub", credentials=hub, outage=Outage(), fence=hub_fence, is_shared=is_shared
    )
    of_host = partial(ApiClient, "host", credentials=host, outage=Outage(), is_shared=is_shared)
    hub_urgent = partial(of_hub, timeouts=THIN_URGENT if is_thin else URGENT)
    host_urgent = partial(of_host, timeouts=URGENT)
    return Clients(
        hub=of_hub(
            qps=config.kube_api_qps,
            burst=config.kube_api_burst,
            connections=min(THIN_REQUESTS, shares.requests) if is_thin else shares.requests,
            list_connections=1 if is_thin else shares.lists,
            timeouts=THIN if is_thin else Timeouts(),
            watch_slots=watch_slots,
            may_write=may_write,
        ),
        hub_urgent=hub_urgent(connections=shares.urgent),
        hub_leases=hub_urgent(connections=shares.leases),
        hub_events=of_hub(
            qps=EVENTS_QPS,
            burst=EVENTS_BURST,
            connections=shares.events,
            timeouts=THIN if is_thin else Timeouts(),
        ),
        host=of_host(
            qps=config.cluster_api_qps,
            burst=config.cluster_api_burst,
            connections=shares.requests,
            list_connections=shares.lists,
            watch_slots=watch_slots,
            may_write=may_write,
        ),
        host_urgent=host_urgent(connections=shares.urgent),
        host_reviews=host_urgent(qps=REVIEWS_QPS, burst=REVIEWS_BURST, connections=shares.reviews),
        host_events=host_urgent(qps=OWNERS_QPS, burst=OWNERS_BURST, connections=shares.owners),
    )
