"""What becomes of a Namespace that a user created through the gateway (ADR 52)."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.lab.api import Object
from e2e.lab.checkpoint import is_kept
from e2e.lab.cleanup import NAMESPACES
from e2e.lab.conformance import JSON, TABLE
from e2e.lab.kubectl import kubectl
from e2e.lab.lab import Group, Lab
from e2e.lab.leave import leave
from e2e.lab.operated_site import OperatedSite, kubeconfig_of
from e2e.lab.proxy import Proxy
from e2e.lab.wait import STARTED_S, wait_until_deleted, within

D = "virtualcluster.kubeedge.io"
WATCH_S = 300
CONTENT = ("configmap", "kept", "-n", "team")


@pytest.fixture
def site(lab: Lab, hub_wire: Proxy) -> Iterator[OperatedSite]:
    """Return a site with a created namespace that has something in it."""
    with OperatedSite(lab, hub=hub_wire.kubeconfig) as made:
        kubectl(made.file, "create", "namespace", "team")
        within(STARTED_S, kubectl, made.file, "create", *CONTENT, "--from-literal=a=b")
        yield made


def test_it_outlives_a_restart_without_the_hub(site: OperatedSite, hub_wire: Proxy) -> None:
    lab = site.lab
    uid = site.on_host("team")["metadata"]["uid"]
    within(STARTED_S, is_kept, lab, site.agent, site.a)
    hub_wire.cut()
    site.agent.kill()
    quota = f"{NAMESPACES}/{site.a.host_namespace('team')}/resourcequotas/vc-quota"
    lab.host.delete(quota)
    site.agent.start(keeps_rights=True)
    within(STARTED_S, lab.host.get, quota)
    within(STARTED_S, kubectl, site.file, "create", "namespace", "later")
    later = ("configmap", "x", "-n", "later", "--from-literal=a=b")
    within(STARTED_S, kubectl, site.file, "create", *later)
    hub_wire.restore()
    lab.wait_ready(site.a.name)
    marker = lab.namespace()  # what the hub says now is done
    within(STARTED_S, lab.host.get, f"{NAMESPACES}/{site.a.host_namespace(marker)}")
    assert site.on_host("team")["metadata"]["uid"] == uid
    kubectl(site.file, "get", *CONTENT)
    kubectl(site.file, "delete", "namespace", "later", "team", "--timeout=180s")


def test_it_moves_to_the_new_name_of_the_virtual_cluster(site: OperatedSite) -> None:
    lab, old = site.lab, site.a
    uid = site.on_host("team")["metadata"]["uid"]
    new = Group(f"{lab.id}-new", old.selector, old.nodes)
    others = [
        entry for entry in site.agent.settings["virtualClusters"] if entry["name"] != old.name
    ]
    renamed = {**old.settings(), "name": new.name, "formerNames": [old.name]}
    site.agent.settings["virtualClusters"] = [renamed, *others]
    lab.clusters.add(new.name)
    site.gateway.stop()
    site.agent.kill()
    site.agent.start()
    site.gateway.start(site.agent)
    lab.wait_ready(new.name)
    file = within(STARTED_S, kubeconfig_of, lab, site.agent, new, "alice")
    within(STARTED_S, kubectl, file, "get", *CONTENT)
    metadata = site.on_host("team")["metadata"]
    assert (metadata["uid"], metadata["labels"][f"{D}/cluster"]) == (uid, new.name)
    kubectl(file, "create", "namespace", "after")
    kubectl(file, "delete", "namespace", "after", "team", "--timeout=180s")
    assert lab.host.find(f"{NAMESPACES}/{old.host_namespace('team')}") is None


def test_namespace_is_removed_with_its_virtual_cluster(site: OperatedSite) -> None:
    done = leave(site.lab, site.a.name, "--yes")
    assert done.returncode == 0, done.stderr
    wait_until_deleted(site.lab.host, f"{NAMESPACES}/{site.a.host_namespace('team')}")
    assert "team" not in kubectl(site.other, "get", "namespaces")


@pytest.mark.parametrize("accept", [JSON, TABLE])
def test_its_life_is_seen_by_a_watch(site: OperatedSite, accept: str) -> None:
    code, listed, _ = site.ask("GET", NAMESPACES, None)
    assert code == 200
    since = listed["metadata"]["resourceVersion"]
    path = f"{NAMESPACES}?watch=true&resourceVersion={since}&timeoutSeconds={WATCH_S}"
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(_events_of, site.watch(path, accept), "seen")
        kubectl(site.file, "create", "namespace", "seen")
        kubectl(site.file, "label", "namespace", "seen", "a=b")
        kubectl(site.file, "delete", "namespace", "seen", "--timeout=180s")
        of_it = watching.result()
    types = [event["type"] for event in of_it]
    assert (types[0], types[-1]) == ("ADDED", "DELETED"), types
    assert "MODIFIED" in types
    assert any(_metadata(event)["labels"].get("a") == "b" for event in of_it)
    for event in of_it:
        _metadata(event).pop("managedFields", None)  # names of keys, no values
        event_of_template = json.dumps(event)
        assert D not in event_of_template
        assert site.a.host_namespace("seen") not in event_of_template


def _events_of(watch: Iterator[Object], name: str) -> list[Object]:
    """Return what a watch tells of a namespace, until it is deleted."""
    found = []
    for event in watch:
        if _metadata(event)["name"] == name:
            found.append(event)
            if event["type"] == "DELETED":
                break
    return found


def _metadata(event: Object) -> Object:
    obj = event["object"]
    found: Object = (obj["rows"][0]["object"] if obj["kind"] == "Table" else obj)["metadata"]
    return found
