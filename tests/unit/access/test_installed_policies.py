"""What the admission policies of a host do not know yet of the settings."""

import pytest

from karmada_vc_agent.access.admission import (
    PolicyOwner,
    allowances,
    differing_networks,
    gaps_of,
    held_by,
)
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, VirtualCluster
from tests.fakes.objects import virtual_cluster

LOOSE = "let tenants of a write what their Works are refused"
TIGHT = "refuse tenants of a what the settings allow"


def owner(vc: VirtualCluster, tenancy: str) -> PolicyOwner:
    """Return what policies were made for that know nothing but this virtual cluster."""
    return PolicyOwner(
        "agent",
        "agents",
        "user",
        (vc.name,),
        ("branch",),
        held=tuple(held_by(vc, tenancy)),
        allowed=tuple(allowances(vc, tenancy)),
    )


@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
@pytest.mark.parametrize(
    ("policies", "settings", "told"),
    [
        ((), (), []),
        (("ProxySnippets",), ("ProxySnippets",), []),
        (("ExternalAddresses",), ("ExternalAddresses", "HostPath"), []),
        ((), ("ExternalAddresses",), [TIGHT]),
        (("ProxySnippets",), (), [LOOSE]),
        (("ProxySnippets",), ("ExternalAddresses",), [LOOSE, TIGHT]),
    ],
)
def test_policies_that_let_tenants_through_by_other_settings_are_reported(
    tenancy: str, policies: tuple[str, ...], settings: tuple[str, ...], told: list[str]
) -> None:
    known = owner(virtual_cluster("a", allow=policies), tenancy)
    clusters = {"a": virtual_cluster("a", allow=settings)}
    assert list(gaps_of(known, "user", clusters, tenancy)) == told


@pytest.mark.parametrize(
    ("tenancy", "policies", "settings", "is_outdated"),
    [
        (STRICT, ("10.0.0.0/8",), ("10.0.0.0/8",), False),
        (STRICT, ("10.0.0.0/8",), ("10.0.0.0/8", "fd00::/8"), True),
        (STRICT, (), ("10.0.0.0/8",), True),
        (SHARED, (), ("10.0.0.0/8",), False),
        (SHARED, ("10.0.0.0/8",), ("10.0.0.0/8",), True),
    ],
)
def test_policies_with_other_networks_of_pods_are_reported(
    tenancy: str, policies: tuple[str, ...], settings: tuple[str, ...], *, is_outdated: bool
) -> None:
    known = PolicyOwner("agent", "agents", "user", pod_cidrs=policies)
    reported = list(differing_networks(known, tenancy, settings))
    assert reported == ["compare addresses of pods with other podCIDRs"] * is_outdated
