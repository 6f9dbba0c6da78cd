"""The cases, by name: a function of a scene each."""

from collections.abc import Callable

from e2e.differential.play import Case
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object

TEMPLATE_UID = "11111111-2222-3333-4444-555555555555"
"""Of templates that are not there; events about them are written all the same."""

CASES: dict[str, Case] = {}
NEEDS = {"recreation-fails": "/apis/resource.k8s.io/v1"}
"""Case -> what not every version of a host serves; on one that does not it is skipped."""
FROM_MINOR = {"job-complete": 31}
"""Case -> the first minor version of a host with which Karmada can play it.

Hubs from 1.32 on refuse a finished Job without the condition SuccessCriteriaMet; 1.30 sets none.
"""

Build = Callable[[Scene], Object]


def case(function: Case) -> Case:
    """Register a case under the name of its function."""
    _register(function.__name__.replace("_", "-"), function)
    return function


def propagated(name: str, build: Build) -> None:
    """Register a case in which one template is propagated and nothing else happens."""

    def run(scene: Scene) -> Play:
        template = build(scene)
        scene.propagate(template)
        yield scene.applied(template)

    _register(name, run)


def reported(name: str, build: Build, **status: object) -> None:
    """Register a case in which the host reports a status for a propagated template."""

    def run(scene: Scene) -> Play:
        template = build(scene)
        scene.propagate(template)
        yield scene.applied(template)
        scene.report_on_host(template, **status)
        yield scene.reported(template, lambda entry: bool(entry.get("status")))

    _register(name, run)


def written(name: str, build: Build) -> None:
    """Register a case in which a Work brings one manifest, whether it is applied or not."""

    def run(scene: Scene) -> Play:
        manifest = build(scene)
        annotations = manifest["metadata"].setdefault("annotations", {})
        annotations["resourcetemplate.karmada.io/uid"] = TEMPLATE_UID
        work = scene.work(manifest)
        scene.compare(manifest)

        def look() -> None:
            found = scene.lane.on_hub.find(work)
            assert found is not None
            assert any(c["type"] == "Applied" for c in found["status"]["conditions"])

        yield look

    _register(name, run)


def _register(name: str, function: Case) -> None:
    if name in CASES:
        raise ValueError(f"there are two cases {name}")
    CASES[name] = function
