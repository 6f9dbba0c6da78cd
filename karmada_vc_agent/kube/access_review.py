"""Reviews whether we, or a user we may impersonate, may do something."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import UnreadableError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.objects import Object, dig

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def self_review(attributes: Object) -> Object:
    """Return the review of whether our own user may do something."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def verdict(review: Object) -> Object:
    """Return the status of an answered review. Raises UnreadableError for a page in its place."""
    status = dig(review, "status")
    if not isinstance(status, dict):
        raise UnreadableError("the response is not a review")
    return status


async def may(client: ApiClient, need: Need, as_user: str = "") -> bool:
    """Return whether our own user, or one we may impersonate, may do something."""
    resource, _, subresource = need.resource.partition("/")
    attributes = {
        "verb": need.verb,
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": need.namespace,
        "name": need.name,
    }
    answer = await client.create(REVIEWS_PATH, self_review(attributes), as_user)
    return bool(verdict(answer).get("allowed"))
