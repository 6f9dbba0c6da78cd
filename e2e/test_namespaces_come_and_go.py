"""Host namespaces: made before their Work came, shared by Works, adopted, and given up again."""

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import GONE_S, THROUGH_HUB_S, eventually, wait_until_deleted, within
from e2e.lab.works import condition, execution_namespace

DOMAIN = "virtualcluster.kubeedge.io"
NAMESPACES = "/api/v1/namespaces"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
MANAGED = "karmada.io/managed"


def test_a_manifest_makes_its_namespace_whose_work_takes_it_over_and_waits_for_others(
    lab: Lab,
) -> None:
    group = lab.group("a")
    lab.serve(group)
    name = f"{lab.id}-early"
    settings = objects.config_map(name)
    work = lab.create_work(group, "early", settings)
    lab.wait_applied(work)
    path = f"{NAMESPACES}/{group.host_namespace(name)}"
    before = lab.host.get(path)["metadata"]
    assert before["annotations"][f"{DOMAIN}/created-by-agent"] == "true"
    assert not before["annotations"].get(f"{DOMAIN}/work")
    assert MANAGED not in before["labels"]

    lab.namespace("-early")
    taken = eventually(_is_taken_over, lab, group, path)
    assert taken["uid"] == before["uid"]

    lab.hub.delete(f"{NAMESPACES}/{name}")
    bringing = f"{work.rpartition('/')[0]}/{taken['annotations'][f'{DOMAIN}/work'].split('/')[1]}"
    eventually(lambda: lab.hub.get(bringing)["metadata"]["deletionTimestamp"])
    marker = lab.create_work(group, "marker", objects.config_map(name, "marker"))
    lab.wait_applied(marker)
    assert "deletionTimestamp" not in lab.host.get(path)["metadata"]
    for user in (marker, work):
        lab.hub.delete(user)
    wait_until_deleted(lab.hub, bringing)
    wait_until_deleted(lab.host, path)


def test_adopted_namespaces_lose_the_claim_and_what_we_made_and_nothing_else(lab: Lab) -> None:
    group = lab.group("a")
    named, invited = f"{lab.id}-named", f"{lab.id}-invited"
    homes = {name: group.host_namespace(name) for name in (named, invited)}
    for name, home in homes.items():
        namespace = objects.namespace(home)
        if name == invited:
            namespace["metadata"]["annotations"] = {f"{DOMAIN}/allow-adoption": group.name}
        lab.host.create(namespace)
    try:
        theirs = [lab.host.create(objects.config_map(h, "theirs")) for h in homes.values()]
        lab.serve(group.settings(adoptNamespaces=[homes[named]]), installPolicies=True)
        for suffix in ("-named", "-invited"):
            template = objects.config_map(lab.namespace(suffix))
            lab.propagate([template], group)
            lab.wait_fully_applied(template)
        for name, home in homes.items():
            # The Work of the namespace itself may be made late; without one the claim stays.
            claimed = within(THROUGH_HUB_S, _by_a_work, lab, home)
            assert claimed["labels"][f"{DOMAIN}/cluster"] == group.name
            assert claimed["annotations"][f"{DOMAIN}/adopted"] == "true"
            assert claimed["annotations"][SELECTOR] == f"{lab.label}=a"
            lab.hub.delete(f"{NAMESPACES}/{name}")
        for home in homes.values():
            within(GONE_S, _is_free, lab, home)
            wait_until_deleted(lab.host, path_of(objects.config_map(home)))
        for obj in theirs:
            assert lab.host.get(path_of(obj))["metadata"] == obj["metadata"]
    finally:
        for home in homes.values():
            within(GONE_S, lab.host.delete, f"{NAMESPACES}/{home}")


def test_names_that_would_meet_and_names_that_are_too_long_have_namespaces_of_their_own(
    lab: Lab,
) -> None:
    """`a-v-b` in `c` and `a` in `b-v-c` fill in to the same text (rewriting-rules 1.1)."""
    groups = (lab.group("c"), lab.group(f"b-v-{lab.id}-c"))
    lab.serve(*groups)
    names = (f"{lab.id}-v-{lab.id}-b", lab.id, f"{lab.id}-{'x' * 52}")
    assert groups[0].host_namespace(names[0]) == groups[1].host_namespace(names[1])
    assert len(names[2]) == 63
    works = {
        (group.name, name): lab.create_work(
            group, f"in-{number}", objects.config_map(name, content=f"{name} of {group.name}")
        )
        for group in groups
        for number, name in enumerate(names)
    }
    for (_, name), work in works.items():
        [entry] = lab.wait_applied(work)["status"]["manifestStatuses"]
        assert entry["identifier"]["namespace"] == name
    claimed = {
        (labels[f"{DOMAIN}/cluster"], labels[f"{DOMAIN}/namespace"]): item["metadata"]["name"]
        for item in lab.host.list(NAMESPACES, f"{DOMAIN}/agent={lab.id}")
        if (labels := item["metadata"]["labels"])[f"{DOMAIN}/namespace"] in names
    }
    assert claimed.keys() == works.keys()
    assert len(set(claimed.values())) == len(works)
    for (cluster, name), home in claimed.items():
        live = lab.host.get(path_of(objects.config_map(home)))
        assert live["data"] == {"content": f"{name} of {cluster}"}


def _is_taken_over(lab: Lab, group: Group, path: str) -> Object:
    """Assert that the Work of a Namespace is its own now; return its metadata."""
    metadata: Object = lab.host.get(path)["metadata"]
    space, _, name = metadata["annotations"][f"{DOMAIN}/work"].partition("/")
    assert space == execution_namespace(group.name)
    assert metadata["labels"][MANAGED] == "true"
    [work] = [work for work in lab.works(group) if work["metadata"]["name"] == name]
    assert condition(work, "Applied")["status"] == "True"
    return metadata


def _by_a_work(lab: Lab, home: str) -> Object:
    """Return the metadata of a namespace that a Work of its own claims."""
    metadata: Object = lab.host.get(f"{NAMESPACES}/{home}")["metadata"]
    assert metadata["annotations"].get(f"{DOMAIN}/work"), metadata
    return metadata


def _is_free(lab: Lab, home: str) -> None:
    """Assert that a namespace is there without our claim."""
    metadata = lab.host.get(f"{NAMESPACES}/{home}")["metadata"]
    marks = {*metadata.get("labels", {}), *metadata.get("annotations", {})}
    assert "deletionTimestamp" not in metadata
    assert not [key for key in marks if key.startswith(DOMAIN) or key in (SELECTOR, MANAGED)], marks
