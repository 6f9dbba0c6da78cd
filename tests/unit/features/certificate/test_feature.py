"""CertificateController: when a hub credential is renewed, where it goes, who uses it."""

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from karmada_vc_agent.cluster.lease import AgentCondition
from karmada_vc_agent.features.certificate.feature import (
    POLL,
    POLLS,
    CertificateController,
    FileStore,
    SecretStore,
)
from karmada_vc_agent.kube.certificates import SIGNING_REQUESTS_PATH
from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.kube.errors import ForbiddenError, PageError
from karmada_vc_agent.kube.kubeconfig import client_certificate, read_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from tests.fakes.authority import START, SUBJECT, Authority, kubeconfig
from tests.fakes.world import World

SECRET = "/api/v1/namespaces/agent/secrets/karmada-kubeconfig"
CHECK = Requeue(300.0)
DUE = START + timedelta(days=81)


class ReadOnlyFile(FileStore):
    """A mounted Secret; tests run as root, who may write everything."""

    def is_writable(self) -> bool:
        return False


class Setting:
    """A kubeconfig with a certificate of 100 days, and a controller at a given time."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.authority = Authority()
        self.old = self.authority.pair()
        self.path = folder / "hub.kubeconfig"
        self.path.write_bytes(kubeconfig(self.old))
        self.path.chmod(0o640)
        self.used: list[Credentials] = []
        self.now = START + timedelta(days=1)
        self.renewed = AgentCondition()
        self.controller = self.new(FileStore(self.path))

    def new(self, file: FileStore) -> CertificateController:
        return CertificateController(
            self.world.hub_client,
            read_kubeconfig(self.path),
            (file, SecretStore(self.world.host_client, "agent")),
            300.0,
            0.2,
            self.used.append,
            lambda: self.now,
            self.renewed,
        )

    def seed_secret(self, content: bytes) -> None:
        encoded = base64.b64encode(content).decode()
        metadata = {"name": "karmada-kubeconfig", "namespace": "agent"}
        data = {"karmada-kubeconfig": encoded, "other": "eA=="}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        self.world.host.seed(secret)

    def in_secret(self) -> bytes:
        return base64.b64decode(self.world.host.live(SECRET)["data"]["karmada-kubeconfig"])

    async def step(self) -> Requeue:
        return await self.controller.reconcile("hub")

    def requests(self) -> list[Object]:
        return self.world.hub.listed(SIGNING_REQUESTS_PATH)

    def sign(self) -> bytes:
        """Sign the one request, as the hub's controllers do."""
        (request,) = self.requests()
        wanted = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        lifetime = timedelta(seconds=request["spec"]["expirationSeconds"])
        chain = self.authority.sign(wanted.public_key(), wanted.subject, self.now, lifetime)
        self.answer(certificate=base64.b64encode(chain).decode())
        return chain

    def answer(self, **status: Any) -> None:
        (request,) = self.requests()
        path = f"{SIGNING_REQUESTS_PATH}/{request['metadata']['name']}"
        self.world.hub.change(f"{path}/status", status=status)

    async def renew(self) -> bytes:
        """Take all steps; return the new certificate."""
        self.now = DUE
        assert await self.step() == POLL
        chain = self.sign()
        assert await self.step() == CHECK
        return chain


def certificate_in(content: bytes) -> bytes:
    found = client_certificate(content, Path("x"))
    assert found is not None
    return found[1]


@pytest.fixture
def setting(world: World, tmp_path: Path) -> Setting:
    return Setting(world, tmp_path)


@pytest.mark.parametrize(("days", "is_due"), [(1, False), (79, False), (80, True), (120, True)])
async def test_certificate_is_renewed_when_a_fifth_of_its_life_is_left(
    setting: Setting, days: int, is_due: bool
) -> None:
    setting.now = START + timedelta(days=days)
    assert await setting.step() == (POLL if is_due else CHECK)
    assert len(setting.requests()) == is_due


async def test_request_asks_for_the_same_name_and_life_with_a_new_key(setting: Setting) -> None:
    setting.now = DUE
    await setting.step()
    (request,) = setting.requests()
    assert request["metadata"]["name"].startswith("vc-")
    spec = dict(request["spec"])
    wanted = x509.load_pem_x509_csr(base64.b64decode(spec.pop("request")))
    assert spec == {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "expirationSeconds": 100 * 24 * 3600,
        "usages": ["digital signature", "key encipherment", "client auth"],
    }
    assert wanted.subject == SUBJECT
    assert isinstance(wanted.public_key(), ec.EllipticCurvePublicKey)
    old = x509.load_pem_x509_certificate(setting.old[0])
    assert wanted.public_key() != old.public_key()


async def test_new_certificate_is_written_to_the_file_and_used(setting: Setting) -> None:
    chain = await setting.renew()
    content = setting.path.read_bytes()
    assert certificate_in(content) == chain
    assert yaml.safe_load(content)["clusters"][0]["cluster"]["server"] == "https://hub.example:6443"
    assert setting.path.stat().st_mode & 0o777 == 0o600, "it was 0640, with a key in it"
    assert [path.name for path in setting.path.parent.iterdir()] == ["hub.kubeconfig"]
    (used,) = setting.used
    assert used.ssl_context is not None
    assert used.kubeconfig == setting.path
    assert await setting.step() == CHECK
    assert len(setting.requests()) == 1


async def test_new_certificate_is_stored_in_the_mounted_secret(setting: Setting) -> None:
    setting.seed_secret(setting.path.read_bytes())
    setting.controller = setting.new(ReadOnlyFile(setting.path))
    chain = await setting.renew()
    assert certificate_in(setting.in_secret()) == chain
    assert setting.world.host.live(SECRET)["data"]["other"] == "eA=="
    assert certificate_in(setting.path.read_bytes()) == setting.old[0]
    assert len(setting.used) == 1
    # The mount is late: the old file is no reason to renew again.
    assert await setting.step() == CHECK
    assert len(setting.requests()) == 1
    assert len(setting.used) == 1


async def test_secret_of_another_owner_is_left_alone(setting: Setting) -> None:
    stranger = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stranger")])
    foreign = kubeconfig(setting.authority.pair(subject=stranger))
    setting.seed_secret(foreign)
    await setting.renew()
    assert setting.in_secret() == foreign


async def test_secret_renewed_by_another_writer_is_used_before_it_is_mounted(
    setting: Setting,
) -> None:
    setting.now = DUE
    setting.seed_secret(kubeconfig(setting.authority.pair(start=DUE)))
    assert await setting.step() == CHECK
    assert setting.requests() == []
    assert len(setting.used) == 1
    await setting.step()
    assert len(setting.used) == 1


async def test_nothing_is_requested_that_could_not_be_kept(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.controller = setting.new(ReadOnlyFile(setting.path))
    setting.now = DUE
    assert await setting.step() == CHECK
    assert await setting.step() == CHECK
    assert setting.requests() == []
    (record,) = caplog.records
    assert "no Secret holds it; see --karmada-kubeconfig-namespace" in record.message


async def test_credential_without_a_certificate_is_left_alone(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    content = yaml.safe_load(setting.path.read_bytes())
    content["users"][0]["user"] = {"token": "t"}
    setting.path.write_text(yaml.safe_dump(content))
    assert await setting.step() == CHECK
    assert "it is not a client certificate" in caplog.text


async def test_request_that_waits_is_not_followed_by_another(setting: Setting) -> None:
    setting.now = DUE
    pauses = [await setting.step() for _ in range(POLLS + 3)]
    assert pauses == [POLL] * POLLS + [CHECK] * 3
    assert len(setting.requests()) == 1
    setting.sign()
    await setting.step()
    assert len(setting.used) == 1


async def test_request_that_waits_is_reported_within_an_hour_until_it_is_signed(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.now = DUE
    waited_s = 0.0
    while not setting.renewed.problem:
        waited_s += (await setting.step()).after_s
    assert waited_s < 3600.0
    (request,) = setting.requests()
    name = request["metadata"]["name"]
    assert setting.renewed.reason == "RequestPending"
    assert setting.renewed.problem.startswith(
        f"CertificateSigningRequest {name} waits for approval on the hub"
    )
    assert "2026-04-11T00:00+00:00 on; run karmada-vc-agent join" in setting.renewed.problem
    await setting.step()
    assert [r.levelname for r in caplog.records if "Waiting for" in r.message] == ["WARNING"]
    setting.sign()
    await setting.step()
    assert setting.renewed.problem == ""


async def test_renewal_that_is_denied_or_cannot_be_stored_is_reported(setting: Setting) -> None:
    setting.now = DUE
    await setting.step()
    setting.answer(conditions=[{"type": "Denied", "status": "True", "message": "not you"}])
    await setting.step()
    assert setting.renewed.reason == "RequestRefused"
    setting.controller = setting.new(ReadOnlyFile(setting.path))
    await setting.step()
    assert setting.renewed.reason == "ReadOnly"


async def test_request_that_was_denied_is_followed_by_another_at_the_next_check(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.now = DUE
    pauses = []
    for _ in range(5):
        await setting.step()
        denied = {"type": "Denied", "status": "True", "message": "not you"}
        setting.answer(conditions=[denied])
        pauses.append((await setting.step()).after_s)
        (request,) = setting.requests()
        setting.world.hub.remove(f"{SIGNING_REQUESTS_PATH}/{request['metadata']['name']}")
    assert pauses == [CHECK.after_s] * 5
    assert "Denied: not you" in str([vars(record) for record in caplog.records])


async def test_deleted_request_is_created_again(setting: Setting) -> None:
    setting.now = DUE
    await setting.step()
    (request,) = setting.requests()
    setting.world.hub.remove(f"{SIGNING_REQUESTS_PATH}/{request['metadata']['name']}")
    assert await setting.step() == CHECK
    assert await setting.step() == POLL
    assert len(setting.requests()) == 1


async def test_request_that_a_page_answered_may_have_arrived(setting: Setting) -> None:
    """A proxy that lost the server sends a page for what the server has done."""
    setting.now = DUE
    setting.world.hub.answer(b"<html>bad gateway</html>", 502, path=SIGNING_REQUESTS_PATH)
    with pytest.raises(PageError):
        await setting.step()
    assert await setting.step() == CHECK, "it is looked for, and there is none"
    assert len(setting.world.hub.asked("POST", SIGNING_REQUESTS_PATH)) == 1
    assert await setting.step() == POLL
    assert len(setting.requests()) == 1


async def test_missing_permission_is_raised_and_tried_again(setting: Setting) -> None:
    setting.now = DUE
    setting.world.hub.fail(403, "Forbidden")
    with pytest.raises(ForbiddenError):
        await setting.step()
    assert await setting.step() == POLL


async def test_certificate_that_could_not_be_kept_is_kept_later(setting: Setting) -> None:
    setting.seed_secret(setting.path.read_bytes())
    setting.controller = setting.new(ReadOnlyFile(setting.path))
    setting.now = DUE
    await setting.step()
    chain = setting.sign()
    setting.world.host.fail(403, "Forbidden", method="PATCH")
    with pytest.raises(RetryError, match="Secret agent/karmada-kubeconfig"):
        await setting.step()
    assert setting.used == []
    assert await setting.step() == CHECK
    assert certificate_in(setting.in_secret()) == chain
    assert len(setting.requests()) == 1


async def test_name_that_no_object_may_have_is_not_used_for_the_request(setting: Setting) -> None:
    setting.path.write_bytes(kubeconfig(setting.old, user="Admin@hub/x"))
    setting.now = DUE
    await setting.step()
    assert setting.requests()[0]["metadata"]["name"].startswith("karmada-vc-agent-")
