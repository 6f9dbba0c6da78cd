"""What `doctor --bundle` writes has no secrets, wherever they are."""

import base64
import tarfile
from pathlib import Path
from typing import Any

import pytest

from karmada_vc_agent.diagnosis import bundle
from karmada_vc_agent.install.join_hub import kubeconfig_text, user_entry
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.authority import Authority

HIDDEN = "s3cr3t-0123456789"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ4In0.c2ln-bmF0dXJl_"


def leaking() -> tuple[dict[str, list[Object]], dict[str, str], list[str]]:
    """Return objects and logs with secrets, and these."""
    chain, key = Authority().pair()
    encoded = base64.b64encode(key).decode()
    kubeconfig = kubeconfig_text({"server": "https://hub"}, "a", user_entry(chain, key))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": HIDDEN},
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"data":"{HIDDEN}"}}'}
    environment = [{"name": "visible-env", "value": HIDDEN}]
    arguments = ["--password", HIDDEN, f"--api-key={HIDDEN}", "--visible-argument", f"-p{HIDDEN}"]
    arguments.append(f"--bearer-token=/{HIDDEN}")
    script = ["sh", "-c", f"mysql -p{HIDDEN} \\\n--x=/", f"--dsn=root@{HIDDEN}"]
    overrides = f'[{{"overriders":{{"plaintext":[{{"path":"/data/x","value":"{HIDDEN}"}}]}}}}]'
    encoded_object = base64.b64encode(f"{'x' * 200}{HIDDEN}".encode()).decode()
    work = {
        "kind": "Work",
        "metadata": {
            "name": "w",
            "annotations": {
                "policy.karmada.io/applied-overrides": overrides,
                "objectset.rio.cattle.io/applied": encoded_object,
            },
        },
        "spec": {"workload": {"manifests": [secret]}},
    }
    settings: Any = {"agent.yaml": f"token: {HIDDEN}\nkind: visible-settings\n", "k": kubeconfig}
    lists: dict[str, list[Object]] = {
        "secrets": [secret, {**secret, "data": HIDDEN}],
        "pods": [{"metadata": {"annotations": applied}, "spec": {"env": environment}}],
        "deployments": [
            {"args": arguments, "command": script, "volumeAttributes": {"accountKey": HIDDEN}}
        ],
        "works": [work],
        "settings": [{"kind": "ConfigMap", "data": settings}],
        "accounts": [{"status": {"token": HIDDEN, "secretName": "visible-name"}}],
    }
    log = (
        f"Authorization: Bearer {HIDDEN}\n{key.decode()}\nvisible-log\n{JWT}\n{encoded}\n"
        f"https://user:{HIDDEN}@hub/x --token abcdef.0123456789abcdef password={HIDDEN}\n"
        f'{{\\"password\\":\\"{HIDDEN}\\"}} --token {HIDDEN} api_key: {HIDDEN}\n'
        f'passwd="a {HIDDEN}"\n'
        f"https://user:p@{HIDDEN}@hub {base64.b64encode(JWT.encode()).decode()}\n"
        f"Authorization: Basic {base64.b64encode(HIDDEN.encode()).decode()} password=h1dd\n"
    )
    bodies = [encoded[40:80], encoded_object[-24:], "ZXlK", "h1dd"]
    return lists, {"agent.log": log}, [HIDDEN, JWT, *bodies, "0123456789abcdef", "PRIVATE KEY"]


def test_no_file_of_a_bundle_has_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "doctor.tar.gz"
    lists, texts, secrets = leaking()
    bundle.write(path, lists, texts)
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as archive:
        files = [archive.extractfile(each) for each in archive.getmembers()]
        content = "\n".join(file.read().decode() for file in files if file is not None)
    secrets.append(base64.b64encode(HIDDEN.encode()).decode())
    assert [each for each in secrets if each in content] == []
    for visible in (
        "visible-env",
        "visible-argument",
        "visible-settings",
        "visible-log",
        "visible-name",
        '"w"',
    ):
        assert visible in content


@pytest.mark.parametrize(
    "obj",
    [
        objects.node("n", {"a/b": "c"}),
        {"affinity": {"matchExpressions": [{"key": "zone", "operator": "In"}]}},
        {"rules": [{"resources": ["secrets"], "resourceNames": ["karmada-kubeconfig"]}]},
        {"volumes": [{"secret": {"secretName": "karmada-kubeconfig"}}], "topologyKey": "host"},
        {"args": ["--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig", "--x=true"]},
    ],
)
def test_what_is_no_secret_stays(obj: Object) -> None:
    assert bundle.without_secrets(obj) == obj
