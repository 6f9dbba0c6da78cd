"""Defaults that one setting changes for others; what is given for these wins."""

from collections.abc import Mapping
from typing import Any

from karmada_vc_agent.model.durations import Duration

THIN_LINK = "thin"
WARNINGS = "Warnings"

OF_LINK: Mapping[str, Mapping[str, Any]] = {
    THIN_LINK: {
        # 24 s of 40 s, after which Karmada takes a Cluster for lost (its grace period).
        "cluster_lease_renew_interval_fraction": 0.6,
        "cluster_status_update_frequency": Duration(30.0),
        "hub_events": WARNINGS,
        "clusters_by_name": True,
    }
}
"""Value of `link` -> the defaults that it changes; docs/thin-links.md has the figures."""


def with_presets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the defaults that go with them."""
    return {**OF_LINK.get(settings.get("link", ""), {}), **settings}
