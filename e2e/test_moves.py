"""Moves between join, Helm and kustomize on a host as docs/install.md has them lose nothing."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from control_planes import tools
from e2e.lab.agent import ROOT
from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.lone_server import lone_api_server
from e2e.test_manifests import AGENT, Named, by_name, helm, kustomize
from karmada_vc_agent.model.objects import annotations_of, labels_of

PAGE = (ROOT / "docs" / "install.md").read_text()
(MOVES,) = re.findall(r"moves a host from `join` to Helm.*?```console\n(.*?)```", PAGE, re.DOTALL)
TO_HELM, TO_JOIN, REMOVE_RELEASE = (line.removeprefix("$ ") for line in MOVES.splitlines())
RENDERED: dict[str, Callable[[], str]] = {
    "helm": helm,
    "kustomize": partial(kustomize, "base"),
}
COMMANDS = {"helm": TO_HELM, "join": TO_JOIN, "kustomize": "kubectl apply -k manifests/base"}
IMAGE = "r.example/agent:1"
RELEASE = "meta.helm.sh/release-name"


def run(command: str, host: Api) -> str:
    """Run a command of the page in the clone, with the host as its only API server."""
    program, *arguments = shlex.split(command)
    paths = {name: [path] for name, path in tools.program_paths().items()}
    words = [*paths.get(program, [sys.executable, "-m", "karmada_vc_agent"]), *arguments]
    environment = os.environ | {"KUBECONFIG": str(host.kubeconfig)}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "ways",
    [("join", "helm", "join"), ("helm", "join", "helm"), ("kustomize", "join", "kustomize")],
    ids="-".join,
)
def test_each_way_follows_another_and_loses_nothing(tmp_path: Path, ways: tuple[str, ...]) -> None:
    with lone_api_server(tmp_path / "host") as host:
        if ways[0] == "helm":
            host.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AGENT}})
        before: Named = {}
        for way in ways:
            run(COMMANDS[way], host)
            now = installed(host)
            for key, obj in before.items():
                assert notes_of_others(obj) <= notes_of_others(now[key]), key
            if way in RENDERED:
                assert now.keys() >= by_name(RENDERED[way]()).keys()
            assert policies(now) == policies(by_name(kustomize("base")))
            repeated = run(COMMANDS[way], host)
            assert way != "join" or repeated == "Nothing to change\n"
            assert versions(installed(host)) == versions(now), f"{way} changes what it made"
            before = now
        if "helm" in ways:
            assert releases(before) == {AGENT}


def test_host_that_moved_back_has_no_release(tmp_path: Path) -> None:
    with lone_api_server(tmp_path / "host") as host:
        run(f"{TO_JOIN} --image {IMAGE}", host)
        run(f"{TO_HELM} --set image={IMAGE}", host)
        there = installed(host)
        assert f"host: image {IMAGE} stays; --image sets another" in run(TO_JOIN, host)
        run(REMOVE_RELEASE, host)
        assert AGENT not in run(f"helm list -n {AGENT} -q", host)
        assert installed(host).keys() == there.keys()
        assert image(host) == IMAGE


def test_image_of_an_earlier_join_stays_until_another_is_given(tmp_path: Path) -> None:
    with lone_api_server(tmp_path / "host") as host:
        run(f"{TO_JOIN} --image {IMAGE}", host)
        assert f"host: image {IMAGE} stays; --image sets another" in run(TO_JOIN, host)
        assert image(host) == IMAGE
        run(f"{TO_JOIN} --image {IMAGE}-2", host)
        assert image(host) == f"{IMAGE}-2"


def installed(host: Api) -> Named:
    """Return the objects of the agent that a host has."""
    every = by_name(kustomize("base")) | by_name(helm())
    found = ((key, host.find(path_of(obj))) for key, obj in every.items())
    return {key: obj for key, obj in found if obj is not None}


def notes_of_others(obj: Object) -> set[str]:
    """Return what Helm and kubectl note of an object; kubectl's copy of it may differ."""
    notes = {**labels_of(obj), **annotations_of(obj)}
    of_helm = {
        f"{key}={value}" for key, value in notes.items() if "helm" in f"{key}{value}".lower()
    }
    return of_helm | {key for key in notes if key.startswith("kubectl.kubernetes.io/")}


def versions(objects: Named) -> dict[tuple[str, str], str]:
    """Return the version of each object, which differs once anything of it was written."""
    return {key: obj["metadata"]["resourceVersion"] for key, obj in objects.items()}


def policies(objects: Named) -> dict[tuple[str, str], list[str]]:
    """Return what the admission policies say; an API server adds defaults to the rest."""
    return {
        key: [each["expression"] for each in obj["spec"]["validations"]]
        for key, obj in objects.items()
        if key[0] == "ValidatingAdmissionPolicy"
    }


def releases(objects: Named) -> set[str]:
    return {annotations_of(obj).get(RELEASE, "") for obj in objects.values()} - {""}


def image(host: Api) -> str:
    path = f"{collection('apps/v1', 'Deployment', AGENT)}/{AGENT}"
    return str(host.get(path)["spec"]["template"]["spec"]["containers"][0]["image"])
