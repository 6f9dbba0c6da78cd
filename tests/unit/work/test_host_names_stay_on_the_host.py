"""Whatever the host says of an object, its names for our things do not reach the hub.

Runs over the corpus of translation cases: a host object gets statuses, messages and errors made
up of host names, and nothing that is written to the hub may have one of them as a whole word.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.features.windows.feature import Windows, WindowStates
from karmada_vc_agent.interpretation.interpreter import BUILT_IN
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import InvalidError
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupVersionKind, Object, annotations_of, copy_object
from karmada_vc_agent.model.virtual_cluster import HostNamespace
from karmada_vc_agent.translation.context import NAMES_ANNOTATION, TranslationContext, is_path
from karmada_vc_agent.translation.translate import HostObject, translate
from karmada_vc_agent.work.host_objects import Applied, HostObjects
from karmada_vc_agent.work.manifests import Manifests, ReportedObjects
from karmada_vc_agent.work.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.reporting import Failure, WorkEvents, WorkManifest, reflect
from karmada_vc_agent.work.shared_objects import SharedNames, SharedObjects
from tests.unit.translation import given as facts
from tests.unit.translation.cases import CASES

WORK: Object = {
    "apiVersion": "work.karmada.io/v1alpha1",
    "kind": "Work",
    "metadata": {"name": "web-1", "namespace": "karmada-es-branch-a", "resourceVersion": "1"},
}
SEPARATORS = [" ", "/", ":", ".", ",", '"', "(", "_", "=", "\n", ". "]
MORE_THAN_ONE_CASE = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class _Recorder(EventRecorder):
    """Keeps the texts of events."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def record(self, *event: Any, **_: Any) -> bool:
        self.texts.append(event[-1])
        return True


class _Refusing(HostObjects):
    """A host that answers each write with an error of this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def live(self, *_: Any) -> None:
        return None

    async def apply(self, *_: Any) -> Applied:
        raise InvalidError(422, "Invalid", self._text)

    async def get(self, *_: Any) -> None:
        return None


class _RefusingShared(SharedObjects):
    """The same for objects that virtual clusters share."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def apply(self, *_: Any) -> Applied:
        raise InvalidError(422, "Invalid", self._text)


class _NoInformers(InformerSet):
    def __init__(self) -> None:
        pass

    def stores(self) -> dict[str, Store[Object]]:
        return {}


class _Kinds(Discovery):
    """Every kind is served at one place."""

    def __init__(self, resource: Resource) -> None:
        self.served = ServedApis([], is_complete=True, by_kind={})
        self._resource = resource

    async def find(self, _: GroupVersionKind) -> Resource | None:
        return self._resource

    def doubt(self, _: GroupVersionKind) -> None:
        pass


async def _holds(_namespace: str) -> bool:
    return True


class _Namespaces(NamespaceWriter):
    """Has every namespace claimed."""

    def __init__(self) -> None:
        pass

    async def claim_with_share(self, *_: Any) -> HostNamespace:
        return HostNamespace("edge-v-branch-a")

    async def apply(self, *_: Any) -> Applied | None:
        raise AssertionError("no case of this test is a Namespace")

    async def release(self, *_: Any, **__: Any) -> None:
        raise AssertionError("nothing is released here")

    async def equip(self, *_: Any) -> bool:
        return True


def _cases() -> Iterator[Any]:
    """Yield the manifests of the corpus that become host objects, each with its context."""
    for case in CASES:
        context = facts.context(**case.given.get("context", {}))
        manifest = case.given["manifest"]
        translated = translate(manifest, case.given.get("namespaced", True), context)
        if isinstance(translated, HostObject):
            yield pytest.param(manifest, translated.obj, context, id=case.name)


CORPUS = list(_cases())


def _host_names(host: Object, context: TranslationContext) -> set[str]:
    """Return names that only the host knows: claimed, noted on the object, and computed."""
    names = context.names()
    claimed = dict(context.claims)
    noted = json.loads(annotations_of(host).get(NAMES_ANNOTATION, "{}"))
    noted = {name: virtual for name, virtual in noted.items() if not is_path(name)}
    computed = {names.host_namespace("later"), names.host_name("reader")}
    virtual = {*claimed, *noted.values()}
    return {*claimed.values(), *noted, *computed} - virtual


def _texts(host_names: set[str]) -> st.SearchStrategy[str]:
    word = st.sampled_from([*sorted(host_names), "pods", "not found", "edge", "reader"])
    part = st.tuples(word, st.sampled_from(SEPARATORS)).map("".join)
    return st.lists(part, min_size=1, max_size=4).map("".join)


def _assert_none_of(host_names: set[str], written: str) -> None:
    for name in host_names:
        alone = rf"(?<![A-Za-z0-9-]){re.escape(name)}(?![A-Za-z0-9-])"
        assert not re.search(alone, written), f"host name {name} is in {written!r}"


def test_the_corpus_has_objects() -> None:
    assert len(CORPUS) >= 30


@pytest.mark.parametrize(("manifest", "host", "context"), CORPUS)
def test_a_status_and_its_events_have_no_host_names(
    manifest: Object, host: Object, context: TranslationContext
) -> None:
    host_names = _host_names(host, context)
    texts = _texts(host_names)

    @MORE_THAN_ONE_CASE
    @given(texts, texts, texts)
    def check(key: str, text: str, generation: str) -> None:
        live = copy_object(host)
        live["status"] = {
            "message": text,
            "conditions": [{"type": key, "message": text, "by": {key: [text]}}],
            key: {key: text},
        }
        live["metadata"].setdefault("annotations", {})
        live["metadata"]["annotations"][vocabulary.TEMPLATE_GENERATION_ANNOTATION] = generation
        recorder = _Recorder()
        item = WorkManifest(context.vc, manifest, context.work)
        reflecting = reflect(BUILT_IN, WorkEvents(recorder), WORK, item, live, context)
        entry, *_ = asyncio.run(reflecting)
        if entry is not None:
            _assert_none_of(host_names, json.dumps(entry, ensure_ascii=False).replace("\\n", " "))
        assert recorder.texts
        for message in recorder.texts:
            _assert_none_of(host_names, message)

    check()


@pytest.mark.parametrize(
    ("manifest", "host", "context"), [c for c in CORPUS if c.values[0]["kind"] != "Namespace"]
)
async def test_response_of_the_host_contains_no_host_names(
    manifest: Object, host: Object, context: TranslationContext
) -> None:
    gvk = GroupVersionKind("", "v1", "Thing")
    resource = Resource(gvk, "things", namespaced="namespace" in host["metadata"])
    host_names = _host_names(host, context)

    for separator in SEPARATORS:
        text = separator.join(["a", *sorted(host_names), "b"])
        kinds = _Kinds(resource)
        manifests = Manifests(
            _Refusing(text),
            _RefusingShared(text),
            _Namespaces(),
            kinds.find,
            kinds,
            lambda *_: context,
            lambda _: None,
            SharedNames(_NoInformers(), kinds, lambda _: None),
            Windows(WindowStates({}, lambda: datetime.now(UTC)), _Refusing(text), _holds, Scopes()),
            ReportedObjects(Scopes()),
            Scopes(),
        )
        failure, _ = await manifests.apply(WorkManifest(context.vc, manifest, context.work))
        assert isinstance(failure, Failure)
        _assert_none_of(host_names, failure.text)
