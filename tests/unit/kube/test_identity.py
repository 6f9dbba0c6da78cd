"""The right to act as another user, by the kind of user."""

from karmada_vc_agent.kube.identity import need_to_act_as
from karmada_vc_agent.kube.permissions import Need


def test_a_service_account_is_impersonated_in_its_namespace() -> None:
    need = need_to_act_as("system:serviceaccount:agents:agent")
    assert need == Need("impersonate", "", "serviceaccounts", "agents", "agent")


def test_another_user_is_impersonated_by_name() -> None:
    assert need_to_act_as("jane") == Need("impersonate", "", "users", name="jane")
