"""The version of this program as a metric."""

import platform
import sysconfig
from collections.abc import Iterator
from importlib import metadata

from karmada_vc_agent.telemetry.metrics import Sample


def build_info() -> Iterator[Sample]:
    """Yield version, Python and platform."""
    version = metadata.version("karmada-vc-agent")
    labels = (version, platform.python_version(), sysconfig.get_platform())
    yield Sample("karmada_vc_agent_build_info", labels, 1)
