"""What one case makes in one lane, what it waits for, and what of it is compared.

A case is a generator: it does something, yields what must have come before it goes on, does
the next thing. The same generator runs once in each lane.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from e2e.differential.lane import Lane, View
from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.works import condition, hand_written

Look = Callable[[], None]
"""Asserts what must have come; an assertion, a missing object or key count as not yet."""
Play = Iterator[Look]

CLUSTER_SCOPED_POLICY = "ClusterPropagationPolicy"


@dataclass
class Scene:
    """One case in one lane; what it makes is called `name`, or begins with it."""

    lane: Lane
    case: str
    templates: list[Object] = field(default_factory=list)
    works: list[str] = field(default_factory=list)
    host_objects: list[Object] = field(default_factory=list)
    cluster_parts: list[str] = field(default_factory=list)
    watches_lease: bool = False

    @property
    def name(self) -> str:
        """For what has a namespace; equal in both lanes."""
        return self.case

    @property
    def wide_name(self) -> str:
        """For what has no namespace."""
        return f"{self.lane.tag}-{self.case}"

    @property
    def namespace(self) -> str:
        return self.lane.tag

    # --- on the hub ---------------------------------------------------------------------

    def propagate(self, *templates: Object, **policy: Any) -> Object:
        """Create templates and a policy that sends them to the lane's Cluster; return the policy.

        They are compared, with what comes of them.
        """
        for template in templates:
            self.lane.hub.create(template)
            self.compare(template)
        return self.send(*templates, **policy)

    def send(self, *templates: Object, **policy: Any) -> Object:
        """Create a policy for templates that are there."""
        placement = policy.pop("placement", objects.to_clusters(self.lane.cluster))
        written = objects.policy(self.namespace, self.name, list(templates), placement, **policy)
        if not templates[0]["metadata"].get("namespace"):
            written["kind"] = CLUSTER_SCOPED_POLICY
            written["metadata"] = {"name": self.wide_name}
        return self.lane.hub.create(written)

    def update(self, obj: Object, patch: Object) -> None:
        """Merge into an object on the hub."""
        self.lane.hub.patch(path_of(obj), patch)

    @staticmethod
    def path(obj: Object) -> str:
        """Return where the hub has an object."""
        return path_of(obj)

    def remove(self, obj: Object) -> None:
        """Delete an object on the hub."""
        self.lane.hub.delete(path_of(obj))

    def work(self, *manifests: Object, name: str = "", **spec: bool) -> Object:
        """Write a Work by hand, and compare it with what its manifests become; return it."""
        work = hand_written(self.lane.cluster, name or self.name, *manifests, **spec)
        return self.create_work(work)

    def create_work(self, work: Object) -> Object:
        """Create a Work that is complete; see `work`."""
        created = self.lane.hub.create(work)
        self.works.append(created["metadata"]["name"])
        for manifest in work["spec"]["workload"]["manifests"]:
            if _is_name(manifest["metadata"].get("name", "")):
                self.host_objects.append(manifest)
        return created

    # --- on the host --------------------------------------------------------------------

    def host_path(self, obj: Object) -> str:
        return path_of(self.lane.host_identity(obj))

    def create_on_host(self, obj: Object) -> None:
        """Create an object on the host that nobody knows of; it goes to the host's namespace."""
        identity = self.lane.host_identity(obj)
        metadata = {**obj["metadata"], **identity["metadata"]}
        self.lane.host.create({**obj, "metadata": metadata})

    def patch_host(self, obj: Object, patch: Object) -> None:
        self.lane.host.patch(self.host_path(obj), patch)

    def report_on_host(self, obj: Object, **status: Any) -> None:
        """Write the status of a host object, as a controller there does."""
        self.lane.host.patch(f"{self.host_path(obj)}/status", {"status": status})

    def delete_on_host(self, obj: Object, *, force: bool = False) -> None:
        self.lane.host.delete(self.host_path(obj), force=force)

    # --- what to wait for ---------------------------------------------------------------

    def applied(self, obj: Object, status: str = "True", reason: str = "") -> Look:
        """Wait for the condition Applied of the one Work that brings an object."""

        def look() -> None:
            (work,) = self.lane.works_of(obj)
            _assert_applied(work, status, reason)

        return look

    def work_applied(self, work: Object, status: str = "True", reason: str = "") -> Look:
        """Wait for the condition Applied of a Work written by hand."""

        def look() -> None:
            _assert_applied(self._work(work), status, reason)

        return look

    def work_has(self, work: Object, kind: str, status: str) -> Look:
        """Wait for a condition of a Work written by hand."""

        def look() -> None:
            found = condition(self._work(work), kind)
            assert found["status"] == status, found

        return look

    def work_has_any(self, work: Object, kind: str) -> Look:
        """Wait until a Work written by hand has a condition, whatever it says."""

        def look() -> None:
            condition(self._work(work), kind)

        return look

    def work_gets(self, work: Object, test: Callable[[Object], bool]) -> Look:
        """Wait until a Work written by hand passes a test."""

        def look() -> None:
            found = self._work(work)
            assert test(found), found

        return look

    def work_reports(self, work: Object, count: int) -> Look:
        """Wait until a Work written by hand has so many entries in its status at least."""
        return self.work_gets(
            work, lambda found: len(found["status"].get("manifestStatuses") or []) >= count
        )

    def is_marked_or_deleted(self, work: Object) -> Look:
        """Wait until a Work is gone, or waits to be finalised."""

        def look() -> None:
            found = self.lane.on_hub.find(work)
            assert found is None or "deletionTimestamp" in found["metadata"]

        return look

    def has_condition(self, obj: Object, kind: str) -> Look:
        """Wait until the Work of an object has a condition, whatever it says."""

        def look() -> None:
            (work,) = self.lane.works_of(obj)
            condition(work, kind)

        return look

    @staticmethod
    def has_definition(view: View, definition: Object) -> Look:
        """Wait until a server serves a custom kind."""

        def look() -> None:
            found = view.find(definition)
            assert found is not None
            assert condition(found, "Established")["status"] == "True"

        return look

    def no_work_of(self, obj: Object) -> Look:
        """Wait until no Work brings an object any more."""

        def look() -> None:
            assert not self.lane.works_of(obj), "there is still a Work"

        return look

    def work_absent(self, work: Object) -> Look:
        def look() -> None:
            found = self.lane.on_hub.find(work)
            assert found is None, f"the Work is there: {found['metadata']}"

        return look

    def on_host(self, obj: Object, test: Callable[[Object], bool] = bool) -> Look:
        """Wait until the host object is there and passes a test."""

        def look() -> None:
            found = self.lane.find_on_host(obj)
            assert found is not None, "not on the host"
            assert test(found), f"on the host: {found}"

        return look

    def not_on_host(self, obj: Object) -> Look:
        def look() -> None:
            assert self.lane.find_on_host(obj) is None, "still on the host"

        return look

    def reported(self, obj: Object, test: Callable[[Object], bool]) -> Look:
        """Wait until the Work of an object reports a status that passes a test."""

        def look() -> None:
            (work,) = self.lane.works_of(obj)
            entries = (work.get("status") or {})["manifestStatuses"]
            assert test(entries[0]), entries

        return look

    def aggregated(self, obj: Object, test: Callable[[Object], bool]) -> Look:
        """Wait until the status of a template passes a test."""

        def look() -> None:
            template = self.lane.on_hub.find(obj)
            assert template is not None, "not on the hub"
            assert test(template.get("status") or {}), template.get("status")

        return look

    def _work(self, work: Object) -> Object:
        found = self.lane.on_hub.find(work)
        assert found is not None, "no such Work"
        return found

    # --- what to compare ----------------------------------------------------------------

    def compare(self, *templates: Object) -> None:
        """Compare objects of the hub with all that comes of them."""
        self.templates.extend(templates)


def _is_name(text: str) -> bool:
    """Whether a server could know an object by this name."""
    return re.fullmatch(r"[a-z0-9.-]+", text) is not None


def _assert_applied(work: Object, status: str, reason: str) -> None:
    applied = condition(work, "Applied")
    assert applied["status"] == status, applied
    assert not reason or applied["reason"] == reason, applied
