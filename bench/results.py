"""What one run measures, as it stands in the JSON."""

import statistics
from dataclasses import dataclass, field

from bench.process import Memory


@dataclass(slots=True)
class Singles:
    """Milliseconds since the hub was seen to have a Work, one sample for each Work."""

    on_host_ms: list[float] = field(default_factory=list)
    applied_ms: list[float] = field(default_factory=list)
    healthy_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Burst:
    """Works to one cluster: from the first POST to the last Applied=True.

    posting_s: until the last POST was answered; no agent can be faster.
    """

    works: int
    seconds: float
    posting_s: float
    cpu_s: float

    @property
    def works_a_second(self) -> float:
        """Return the rate."""
        return self.works / self.seconds

    @property
    def cpu_ms_a_work(self) -> float:
        """Return the CPU time of the agent for each Work, in milliseconds."""
        return self.cpu_s / self.works * 1000


@dataclass(slots=True)
class AgentResults:
    """One agent with one cluster."""

    config_map: Singles = field(default_factory=Singles)
    deployment: Singles = field(default_factory=Singles)
    bursts: list[Burst] = field(default_factory=list)
    idle: Memory = field(default_factory=lambda: Memory(0, 0))
    idle_cpu_percent: float = 0.0
    after_burst: Memory = field(default_factory=lambda: Memory(0, 0))
    after_all_bursts: Memory = field(default_factory=lambda: Memory(0, 0))


@dataclass(slots=True)
class FleetResults:
    """Our agent with many virtual clusters, started anew."""

    clusters: int = 0
    all_ready_s: float = 0.0
    idle: Memory = field(default_factory=lambda: Memory(0, 0))
    idle_cpu_percent: float = 0.0
    one_work_each: Memory = field(default_factory=lambda: Memory(0, 0))
    one_work_each_s: float = 0.0


@dataclass(slots=True)
class NeighbourResults:
    """Our agent with two virtual clusters, of which one gives trouble; see bench/neighbours.py.

    *_ms: until single Works of the other were applied.
    """

    quiet_ms: list[float] = field(default_factory=list)
    beside_silent_ms: list[float] = field(default_factory=list)
    beside_slow_host_ms: list[float] = field(default_factory=list)
    beside_unknown_ms: list[float] = field(default_factory=list)
    before_large: Memory = field(default_factory=lambda: Memory(0, 0))
    with_large: Memory = field(default_factory=lambda: Memory(0, 0))
    after_restart: Memory = field(default_factory=lambda: Memory(0, 0))
    restart_peak_kb: int = 0


@dataclass(frozen=True, slots=True)
class ObjectsPhase:
    """One agent with the same Works as the other: milliseconds until single ones were applied."""

    applied_ms: list[float]
    bursts: list[Burst]


@dataclass(frozen=True, slots=True)
class StatusWrites:
    """Statuses of VirtualCluster objects that were written in so many seconds.

    objects: how many had one. shortest_gap_s: between two of one object, None where there were
    none.
    """

    seconds: float = 0.0
    writes: int = 0
    objects: int = 0
    most_of_one: int = 0
    shortest_gap_s: float | None = None


@dataclass(slots=True)
class ObjectsResults:
    """What VirtualCluster objects cost; see bench/objects.py.

    objects, singles, works, idle_s: how much is measured. off: the agent that has objects off.
    none: the other one before there are objects; held: (how many, with them). before, beside: the
    agent without objects, then the one that gets them.
    """

    objects: int
    singles: int
    works: int
    idle_s: float
    machine: dict[str, str] = field(default_factory=dict)
    off: Memory = field(default_factory=lambda: Memory(0, 0))
    none: Memory = field(default_factory=lambda: Memory(0, 0))
    held: list[tuple[int, Memory]] = field(default_factory=list)
    registered_s: float = 0.0
    idle_cpu_percent: float = 0.0
    idle_writes: StatusWrites = field(default_factory=StatusWrites)
    writes_under_change: StatusWrites = field(default_factory=StatusWrites)
    before: list[ObjectsPhase] = field(default_factory=list)
    beside: list[ObjectsPhase] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """A whole run."""

    machine: dict[str, str] = field(default_factory=dict)
    theirs: AgentResults = field(default_factory=AgentResults)
    ours: AgentResults = field(default_factory=AgentResults)
    fleet: FleetResults = field(default_factory=FleetResults)
    neighbour: NeighbourResults = field(default_factory=NeighbourResults)


def median(values: list[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def percentile_90(values: list[float]) -> float:
    """Return the value that nine of ten samples do not exceed."""
    return percentile(values, 90)


def percentile(values: list[float], share: int) -> float:
    """Return the value that so many of a hundred samples do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * share // 100) - 1]
