"""The right to act as another user, by the kind of user."""

from karmada_vc_agent.kube.discovery import need_to_impersonate
from karmada_vc_agent.kube.errors import Need


def test_a_service_account_is_impersonated_in_its_namespace() -> None:
    need = need_to_impersonate("system:serviceaccount:agents:agent")
    assert need == Need("impersonate", "", "serviceaccounts", "agents", "agent")


def test_another_user_is_impersonated_by_name() -> None:
    assert need_to_impersonate("jane") == Need("impersonate", "", "users", name="jane")
