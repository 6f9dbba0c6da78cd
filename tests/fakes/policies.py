"""What admission policies of the host deny, as far as a test needs it."""

from karmada_vc_agent.cluster.virtual_clusters import claim_of
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.storage import Place, StatusError


def confine_to_claims(host: FakeApiServer) -> None:
    """Deny patches of namespaces without a claim, as policy `agent-confines` does."""

    def admit(place: Place, body: Object) -> Object:
        is_namespace = place.served.plural == "namespaces" and place.name
        live = host.find(f"/api/v1/namespaces/{place.name}") if is_namespace else None
        if live is not None and claim_of(live) is None:
            raise StatusError(422, "Invalid", "the agent may write only what it claims", place.name)
        return body

    host.admission.append(admit)
