"""The families of metrics, as files of the package declare them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from karmada_vc_agent.model import yaml_text

CLUSTER = "member_cluster"
OF_CORE = "telemetry/families.yaml"
_PACKAGE = Path(__file__).parents[1]


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family of metrics.

    help: sentences, also of docs/metrics.md. sampled: a counter that is computed at each scrape.
    """

    type: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    sampled: bool = False


def declared_families(path: str) -> Mapping[str, Mapping[str, Family]]:
    """Return what a file of the package declares: what they are of -> name -> family."""
    content = yaml_text.load((_PACKAGE / path).read_bytes())
    return msgspec.convert(content, dict[str, dict[str, Family]])
