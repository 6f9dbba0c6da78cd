"""The clients of both API servers, and the client certificate for the hub."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial

from karmada_vc_agent.config.loading import THIN_LINK
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.certificates import (
    COMMON_NAME,
    ORGANIZATION,
    Certificate,
    read_certificate,
)
from karmada_vc_agent.kube.client import LIST_CONNECTIONS, ApiClient
from karmada_vc_agent.kube.errors import Need
from karmada_vc_agent.kube.events import EVENTS_QPS
from karmada_vc_agent.kube.https import WEBHOOK_CONNECTIONS
from karmada_vc_agent.kube.store import History
from karmada_vc_agent.kube.transport import Credentials, Timeouts
from karmada_vc_agent.model.vocabulary import AGENTS_GROUP, USER_PREFIX

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
THIN_REQUESTS, THIN_LEASES = 4, 32
"""At once: enough for round trips of seconds, and so few that a Lease waits for kilobytes only."""
OWNERS_QPS = 10.0
OWNERS_BURST = 20
"""For reading the owner of what an event is about: tenants may make events without end."""
REQUESTS, URGENT_REQUESTS, EVENTS, REVIEWS, OWNERS = 16, 8, 8, 2, 8
"""Connections, divided among virtual clusters: three that are slow hold 7 of 8."""
LEASE_LANES = 128
"""How many Leases are renewed at once: 1,000 are in time where the hub takes 1.2 s for each."""
POOLED = (
    2 * (REQUESTS + LIST_CONNECTIONS + URGENT_REQUESTS)
    + (LEASE_LANES + EVENTS + REVIEWS + OWNERS + WEBHOOK_CONNECTIONS)
    + flows.ENDPOINTS * flows.ENDPOINT_CONNECTIONS
)
WATCHES, WATCHES_A_CLUSTER, LEAST_WATCHES = 32, 16, 4
"""Watches of any agent, and of each virtual cluster."""


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

    def of_hub(self) -> tuple[ApiClient, ...]:
        return (self.hub, self.hub_urgent, self.hub_leases, self.hub_events)

    def of_host(self) -> tuple[ApiClient, ...]:
        return (self.host, self.host_urgent, self.host_reviews, self.host_events)

    def lacking(self) -> Iterator[tuple[str, Need]]:
        """Yield what is missing for longer: hub or host, and what a request needed there."""
        for client in (*self.of_hub(), *self.of_host()):
            for need in client.denials.lasting():
                yield client.name, need

    async def close(self) -> None:
        for client in (*self.of_hub(), *self.of_host()):
            await client.close()


def use(lanes: Iterable[ApiClient], credentials: Credentials) -> None:
    for client in lanes:
        client.credentials = credentials


def warn_of_few_files(clusters: int) -> None:
    """Warn if so many virtual clusters need more open files than the process may have."""
    needed = flows.RESERVED_FILES + POOLED + WATCHES + WATCHES_A_CLUSTER * clusters
    if (files := flows.raise_file_limit()) < needed:
        extra = {"limit": files, "needed": needed}
        _log.warning("Few open files: watches run in rotation; raise RLIMIT_NOFILE", extra=extra)


def connect(
    config: AgentConfig,
    hub: Credentials,
    host: Credentials,
    may_write: Callable[[], bool],
    hub_fence: Callable[[], str] = lambda: "",
    is_shared: Callable[[], bool] = lambda: True,
) -> Clients:
    """Return the clients. hub_fence: why no lane may write to the hub, "" where each may."""
    is_thin = config.link == THIN_LINK
    free_files = flows.raise_file_limit() - flows.RESERVED_FILES - POOLED
    watch_slots = flows.WatchSlots(max(LEAST_WATCHES, free_files))
    both = partial(ApiClient, is_shared=is_shared)
    of_hub = partial(both, "hub", credentials=hub, history=History("hub"), fence=hub_fence)
    of_host = partial(both, "host", credentials=host, history=History("host"))
    bulk = THIN if is_thin else Timeouts()
    hub_urgent = partial(of_hub, timeouts=THIN_URGENT if is_thin else URGENT)
    host_urgent = partial(of_host, timeouts=URGENT)
    return Clients(
        hub=of_hub(
            qps=config.kube_api_qps,
            burst=config.kube_api_burst,
            connections=THIN_REQUESTS if is_thin else REQUESTS,
            list_connections=1 if is_thin else LIST_CONNECTIONS,
            timeouts=bulk,
            watch_slots=watch_slots,
            may_write=may_write,
        ),
        hub_urgent=hub_urgent(connections=URGENT_REQUESTS),
        hub_leases=hub_urgent(connections=THIN_LEASES if is_thin else LEASE_LANES),
        hub_events=of_hub(qps=EVENTS_QPS, burst=EVENTS_BURST, connections=EVENTS, timeouts=bulk),
        host=of_host(
            qps=config.cluster_api_qps,
            burst=config.cluster_api_burst,
            connections=REQUESTS,
            watch_slots=watch_slots,
            may_write=may_write,
        ),
        host_urgent=host_urgent(connections=URGENT_REQUESTS),
        host_reviews=host_urgent(qps=REVIEWS_QPS, burst=REVIEWS_BURST, connections=REVIEWS),
        host_events=host_urgent(qps=OWNERS_QPS, burst=OWNERS_BURST, connections=OWNERS),
    )


WARN_BELOW = 0.15
"""Fraction of its lifetime: certRotation renews it at 0.2, so something keeps it from that."""
CHECK_S = 3600.0
REPEAT_S = 24 * 3600.0


def is_agents_own(chain: bytes | None, agent: str) -> bool:
    certificate = _read(chain)
    if certificate is None:
        return False
    own = [(COMMON_NAME, USER_PREFIX + agent), (ORGANIZATION, AGENTS_GROUP)]
    return sorted(certificate.subject) == [(oid, name.encode()) for oid, name in own]


@dataclass(eq=False)
class HubCertificate:
    """Reads when the certificate in use for the hub expires, and warns in time."""

    credentials: Callable[[], Credentials]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def expires(self) -> float | None:
        """Return when it expires, in Unix time; None without a certificate."""
        certificate = _read(self.credentials().certificate)
        return certificate.not_after.timestamp() if certificate is not None else None

    async def watch(self) -> None:
        while True:
            certificate = _read(self.credentials().certificate)
            if certificate is None or certificate.remaining(self.now()) > WARN_BELOW:
                await asyncio.sleep(CHECK_S)
                continue
            extra = {"expires": certificate.not_after.isoformat()}
            if certificate.not_after <= self.now():
                text = "The certificate for the hub has expired; run karmada-vc-agent join"
                _log.error(text, extra=extra)
            else:
                text = "The certificate for the hub expires soon; see controller certRotation, or "
                _log.warning(text + "run karmada-vc-agent join", extra=extra)
            await asyncio.sleep(REPEAT_S)


@lru_cache(maxsize=2)
def _read(chain: bytes | None) -> Certificate | None:
    if not chain:
        return None
    try:
        return read_certificate(chain)
    except ValueError:
        return None
