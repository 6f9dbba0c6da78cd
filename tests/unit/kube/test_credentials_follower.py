"""CredentialsFollower: a kubeconfig that changes, and files it names."""

from pathlib import Path

import pytest
import yaml

from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.credentials_follower import CredentialsFollower
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig
from tests.fakes.authority import Authority, kubeconfig

AUTHORITY = Authority()


class Followed:
    """A kubeconfig, and what its follower was told."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kubeconfig"
        self.path.write_bytes(kubeconfig(AUTHORITY.pair()))
        self.used: list[Credentials] = []

    def follow(self) -> CredentialsFollower:
        return CredentialsFollower("hub", read_kubeconfig(self.path), self.used.append)


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def test_file_that_stays_is_not_read_again(followed: Followed) -> None:
    follower = followed.follow()
    follower.look()
    assert followed.used == []


def test_changed_file_is_used_once(followed: Followed) -> None:
    follower = followed.follow()
    followed.path.write_bytes(kubeconfig(AUTHORITY.pair(), server="https://other.example:6443"))
    follower.look()
    follower.look()
    (used,) = followed.used
    assert used.server == "https://other.example:6443"
    assert used.ssl_context is not None


def test_changed_certificate_beside_the_file_is_used(followed: Followed, tmp_path: Path) -> None:
    content = yaml.safe_load(followed.path.read_bytes())
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    content["users"][0]["user"] = user
    followed.path.write_text(yaml.safe_dump(content))

    def renew() -> None:
        for name, pem in zip(user.values(), AUTHORITY.pair(), strict=True):
            (tmp_path / name).write_bytes(pem)

    renew()
    follower = followed.follow()
    follower.look()
    assert followed.used == []
    renew()
    follower.look()
    assert len(followed.used) == 1


def test_file_that_cannot_be_used_changes_nothing(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    follower = followed.follow()
    followed.path.write_text("users: [")
    follower.look()
    follower.look()
    followed.path.unlink()
    follower.look()
    assert followed.used == []
    assert [record.getMessage() for record in caplog.records] == [
        "Keeping the old credentials: the kubeconfig changed for the worse"
    ] * 2


async def test_without_a_file_there_is_nothing_to_follow() -> None:
    follower = CredentialsFollower("hub", Credentials("https://h", None, "a Pod"), print)
    follower.look()
    await follower.run()
