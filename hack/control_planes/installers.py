"""What each installer of Karmada leaves on a hub, besides its CRDs, webhooks and APIService.

`karmadactl init` and the chart make what agents need to register, the operator does not. The chart
is rendered by helm from Karmada's module; its only dependency, a library of text helpers, is not in
there, and a stand-in returns what these would for images, which nothing here reads.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from control_planes import karmada_objects, tools
from control_planes.errors import ControlPlanesError

INIT, CHART, OPERATOR = "karmadactl-init", "chart", "operator"
INSTALLERS = (INIT, CHART, OPERATOR)
NAMESPACE = "karmada-system"
_STATIC = "-static-resources"
_OWN = ("webhook-configuration.yaml", "karmada-aggregated-apiserver-apiservice.yaml")
"""Files of the chart for what a hub of processes has by itself, with addresses of its own."""
_LIBRARY = {
    "Chart.yaml": "apiVersion: v2\nname: common\ntype: library\nversion: 2.99.0\n",
    "templates/_helpers.tpl": (
        '{{- define "common.images.image" -}}image{{- end -}}\n'
        '{{- define "common.images.pullSecrets" -}}{{- end -}}\n'
    ),
}
Object = dict[str, Any]


def left_by(installer: str, module: Path, server: str, ca: Path) -> list[Object]:
    """Return the objects, namespaces first.

    module: where Karmada's source is. server: address of the hub's API server, for an installer
    that publishes one that is reachable. ca: file with its authority.
    """
    if installer == INIT:
        return [
            *karmada_objects.namespaces(),
            *karmada_objects.access_rules(module, server, ca),
        ]
    if installer == OPERATOR:
        namespaces = karmada_objects.namespaces()
        return [each for each in namespaces if each["metadata"]["name"] == NAMESPACE]
    return _of_chart(module, ca)


def _of_chart(module: Path, ca: Path) -> list[Object]:
    rendered = _render(module / "charts" / "karmada")
    (static,) = (
        each
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith(_STATIC)
    )
    files = {name: text for name, text in static["data"].items() if name not in _OWN}
    bundle = karmada_objects.bundle(ca)
    items = [
        item
        for text in files.values()
        for item in yaml.safe_load_all(text.replace("{{ ca_crt }}", bundle))
        if item
    ]
    return sorted(items, key=lambda item: item["kind"] != "Namespace")


def _render(chart: Path) -> str:
    helm = tools.build_missing(tools.MODULES)["helm"]
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "karmada"
        shutil.copytree(chart, copy, copy_function=shutil.copyfile)  # of a module: read-only
        for name, text in _LIBRARY.items():
            path = copy / "charts" / "common" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        result = subprocess.run(
            [helm, "template", "hub", copy, "--namespace", NAMESPACE],
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        raise ControlPlanesError("Karmada's chart cannot be rendered", result.stderr.strip())
    return result.stdout
