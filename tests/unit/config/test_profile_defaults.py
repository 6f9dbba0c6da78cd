"""What virtual clusters have where tenants do not trust each other, and not elsewhere."""

from msgspec.structs import replace

from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, ApplyAs, DefaultAccount, Tenancy
from tests.fakes.objects import virtual_cluster

OWN = ApplyAs("tenants", "a", "edit")


def accounts(tenancy: Tenancy) -> dict[str, ApplyAs | None]:
    clusters = (virtual_cluster("branch-a", apply_as=OWN), virtual_cluster("agent"))
    config = AgentConfig(agent_name="agent", virtual_clusters=clusters, tenancy=tenancy)
    config = with_profile_defaults(config, "home")
    return {vc.name: vc.apply_as for vc in config.virtual_clusters}


def test_virtual_clusters_of_one_organisation_have_none() -> None:
    assert accounts(SHARED) == {"branch-a": OWN, "agent": None}


def test_tenants_have_one_each_unless_the_settings_name_one() -> None:
    made = DefaultAccount("home", "agent.agent", "vc-agent:agent:account")
    assert accounts(STRICT) == {"branch-a": OWN, "agent": made}
    assert made.user != "system:serviceaccount:home:agent", "the agent's own"


def test_pods_of_tenants_are_confined_unless_the_settings_say_how() -> None:
    clusters = (virtual_cluster("a", pod_security="privileged"), virtual_cluster("b"))
    shared = AgentConfig(agent_name="agent", virtual_clusters=clusters)
    for config, expected in ((shared, ""), (replace(shared, tenancy="Strict"), "baseline")):
        made = with_profile_defaults(config, "home").virtual_clusters
        assert [vc.pod_security for vc in made] == ["privileged", expected]
