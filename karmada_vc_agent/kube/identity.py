"""Our user name at an API server, and the right to impersonate another one."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.objects import dig

_SELF_SUBJECT_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SERVICE_ACCOUNT = "system:serviceaccount:"


async def user_name(client: ApiClient) -> str:
    """Return our user name for policies. Raises KubeError."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.create(_SELF_SUBJECT_REVIEWS, review)
    return str(dig(answer, "status", "userInfo", "username") or "")


def need_to_act_as(user: str) -> Need:
    """Return the right to impersonate a user; a ServiceAccount is one in its namespace."""
    if not user.startswith(SERVICE_ACCOUNT):
        return Need("impersonate", "", "users", name=user)
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return Need("impersonate", "", "serviceaccounts", namespace, name)
