"""An OverridePolicy of one namespace of the hub writes into no other one, in Strict."""

import pytest

from e2e.lab import objects
from e2e.lab.lab import Lab
from e2e.lab.wait import eventually
from e2e.lab.works import works_path


@pytest.mark.strict
def test_an_override_moves_nothing_to_another_namespace(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, tenancy="Strict")
    mine, theirs = lab.namespace(), lab.namespace("-theirs")
    kept = objects.config_map(theirs, "kept", key="1")
    lab.propagate([kept], group)
    lab.wait_fully_applied(kept)
    moved = objects.config_map(mine, "moved", key="1")
    value = {"path": "/metadata/namespace", "operator": "replace", "value": theirs}
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "moved", "namespace": mine},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "moved"}],
            "overrideRules": [{"overriders": {"plaintext": [value]}}],
        },
    }
    lab.hub.create(policy)
    lab.propagate([moved], group)

    def look() -> None:
        works = lab.hub.list(works_path(group.name))
        texts = [str(work.get("status")) for work in works]  # those of other stories have none yet
        assert any("NamespaceForbidden" in text for text in texts), texts

    eventually(look)
    elsewhere = objects.config_map(theirs, "moved")
    assert lab.host.find(lab.host_path(elsewhere, group)) is None
    assert lab.host.find(lab.host_path(kept, group)) is not None
    assert agent.is_running()
