"""Our user name at an API server, and the right to impersonate another one."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.service_accounts import account_of

SELF_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def user_name(client: ApiClient) -> str:
    """Return our user name for policies. Raises KubeError."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.create(SELF_REVIEWS_PATH, review)
    return str(dig(answer, "status", "userInfo", "username") or "")


def need_to_act_as(user: str) -> Need:
    """Return the right to impersonate a user; a ServiceAccount is one in its namespace."""
    account = account_of(user)
    if account is None:
        return Need("impersonate", "", "users", name=user)
    return Need("impersonate", "", "serviceaccounts", *account)
