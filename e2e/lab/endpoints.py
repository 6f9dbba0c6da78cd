"""What agents answer at their own endpoints, and how a real agent's metrics compare."""

import re
from dataclasses import dataclass

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from control_planes.launch import low_ports

_HTTP = urllib3.PoolManager(retries=False, timeout=5.0)
_ANY_TLS = urllib3.PoolManager(
    retries=False, timeout=10.0, cert_reqs="CERT_NONE", assert_hostname=False
)


@dataclass(frozen=True)
class Endpoints:
    """Where an agent answers."""

    metrics: str
    health: str

    @staticmethod
    def new() -> "Endpoints":
        metrics, health = (f"127.0.0.1:{port}" for port in low_ports(2))
        return Endpoints(metrics, health)

    def flags(self) -> tuple[str, ...]:
        return (
            *("--metrics-bind-address", self.metrics),
            *("--health-probe-bind-address", self.health),
        )

    def ask(self, path: str) -> tuple[int, str]:
        """GET a path of the health endpoint; return status and text."""
        answer = _HTTP.request("GET", f"http://{self.health}{path}")
        return answer.status, answer.data.decode()

    def read_metrics(self, token: str = "") -> tuple[int, str]:
        """GET /metrics of an agent with --metrics-secure; return status and text."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = _ANY_TLS.request("GET", f"https://{self.metrics}/metrics", headers=headers)
        return answer.status, answer.data.decode()

    def scrape(self) -> "Scrape":
        answer = _HTTP.request("GET", f"http://{self.metrics}/metrics")
        assert answer.status == 200, answer.data
        return Scrape(answer.data.decode())


class _Samples(dict[tuple[str, ...], float]):
    """Values by labels; to read one that is not there yet fails an assertion."""

    def __missing__(self, labels: tuple[str, ...]) -> float:
        raise AssertionError(f"no sample with labels {labels} among {list(self)}")


class Scrape:
    """What one look at /metrics showed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def values(self, sample: str) -> dict[tuple[str, ...], float]:
        """Return label values in order of their names -> value, of one sample name."""
        return _Samples(
            (tuple(found.labels[name] for name in sorted(found.labels)), found.value)
            for family in self.families.values()
            for found in family.samples
            if found.name == sample
        )

    def shape(self, family: str) -> tuple[str, frozenset[str]]:
        """Return type and label names of a family that has samples."""
        found = self.families[family]
        labels = {name for sample in found.samples for name in sample.labels}
        return found.type, frozenset(labels - {"le"})

    def bounds(self, family: str) -> list[float]:
        """Return the bounds of the buckets of a histogram, ascending."""
        found = self.families[family].samples
        return sorted({float(sample.labels["le"]) for sample in found if "le" in sample.labels})


def help_defaults(text: str) -> dict[str, str]:
    """Return flag -> default, "" where none is told, of the help of a Go program."""
    found: dict[str, str] = {}
    flag = ""
    for line in text.splitlines():
        named = re.match(r"\s+(?:-\w, )?(--[\w-]+)", line)
        if named:
            flag = named[1]
            found[flag] = ""
        default = re.search(r"\(default (\"?)(.*?)\1\)$", line)
        if default and flag:
            found[flag] = default[2]
    return found
