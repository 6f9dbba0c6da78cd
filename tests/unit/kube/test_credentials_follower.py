"""CredentialsFollower: a kubeconfig that changes, and files it names."""

import asyncio
from pathlib import Path

import pytest
import yaml

from karmada_vc_agent.kube.kubeconfig import CredentialsFollower, read_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
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


async def test_file_that_stays_is_not_read_again(followed: Followed) -> None:
    follower = followed.follow()
    await follower.check()
    assert followed.used == []


async def test_changed_file_is_used_once(followed: Followed) -> None:
    follower = followed.follow()
    followed.path.write_bytes(kubeconfig(AUTHORITY.pair(), server="https://other.example:6443"))
    await follower.check()
    await follower.check()
    (used,) = followed.used
    assert used.server == "https://other.example:6443"
    assert used.ssl_context is not None


async def test_changed_certificate_beside_the_file_is_used(
    followed: Followed, tmp_path: Path
) -> None:
    content = yaml.safe_load(followed.path.read_bytes())
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    content["users"][0]["user"] = user
    followed.path.write_text(yaml.safe_dump(content))

    def renew() -> None:
        for name, pem in zip(user.values(), AUTHORITY.pair(), strict=True):
            (tmp_path / name).write_bytes(pem)

    renew()
    follower = followed.follow()
    await follower.check()
    assert followed.used == []
    renew()
    await follower.check()
    assert len(followed.used) == 1


async def test_file_that_cannot_be_used_changes_nothing(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    follower = followed.follow()
    followed.path.write_text("users: [")
    await follower.check()
    await follower.check()
    followed.path.unlink()
    await follower.check()
    assert followed.used == []
    assert [record.getMessage() for record in caplog.records] == [
        "Keeping the old credentials: the kubeconfig gives no others"
    ] * 2
    assert [vars(record)["server"] for record in caplog.records] == ["hub"] * 2
    assert all(vars(record)["reason"] for record in caplog.records)


async def test_file_that_was_half_written_is_read_again_although_it_stays(
    followed: Followed, tmp_path: Path
) -> None:
    """The kubeconfig first, its certificate while it is looked at, its key after that."""
    content = yaml.safe_load(followed.path.read_bytes())
    content["users"][0]["user"] = {"client-certificate": "c.crt", "client-key": "c.key"}
    chain, key = AUTHORITY.pair()
    follower = followed.follow()
    followed.path.write_text(yaml.safe_dump(content))
    (tmp_path / "c.crt").write_bytes(chain)
    await follower.check()
    (tmp_path / "c.key").write_bytes(key[:50])
    await follower.check()
    assert followed.used == []
    (tmp_path / "c.key").write_bytes(key)
    await follower.check()
    assert len(followed.used) == 1


async def test_file_that_could_not_be_read_for_a_moment_is_read_again(followed: Followed) -> None:
    follower = followed.follow()
    content = kubeconfig(AUTHORITY.pair())
    followed.path.unlink()
    followed.path.mkdir()
    await follower.check()
    followed.path.rmdir()
    followed.path.write_bytes(content)
    await follower.check()
    assert len(followed.used) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"current-context: a\ncontexts: 7",
        b"current-context: a\ncontexts: [{name: a, context: [b]}]",
        b"current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\nclusters: {}",
        (
            b"{current-context: a, contexts: [{name: a, context: {user: u}}], users: [{name: u, "
            b"user: {tokenFile: 7}}], clusters: [{name: '', cluster: {server: 'https://h'}}]}"
        ),
        b"\xff\xfe\x00",
        b"[" * 5000,
        b"a: 2026-99-99",
    ],
)
async def test_whatever_is_written_there_is_a_complaint_and_no_end(
    followed: Followed, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    follower = followed.follow()
    followed.path.write_bytes(content)
    await follower.check()
    await follower.check()
    assert followed.used == []
    assert len(caplog.records) == 1


async def test_server_that_does_not_know_us_has_the_files_read_soon(followed: Followed) -> None:
    follower = followed.follow()
    task = asyncio.ensure_future(follower.run())
    await asyncio.sleep(1.0)
    followed.path.write_bytes(kubeconfig(AUTHORITY.pair()))
    follower.suspect()
    while not followed.used:  # noqa: ASYNC110 - read in a thread that the clock does not await
        await asyncio.sleep(0.1)
    task.cancel()


async def test_without_a_file_there_is_nothing_to_follow() -> None:
    used: list[Credentials] = []
    follower = CredentialsFollower("hub", Credentials("https://h", None, "a Pod"), used.append)
    await follower.check()
    assert used == []


async def test_plugin_of_a_changed_file_blocks_no_one(followed: Followed, tmp_path: Path) -> None:
    """The one plugin ends once the other task went on."""
    program, go = tmp_path / "plugin", tmp_path / "go"
    program.write_text(
        f"""#!/bin/sh
for _ in $(seq 30); do [ -e {go} ] && token=late && break; sleep 0.1; done
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", \
"status": {{"token": "'${{token:-alone}}'"}}}}'
"""
    )
    program.chmod(0o700)
    content = yaml.safe_load(followed.path.read_bytes())
    version = "client.authentication.k8s.io/v1"
    content["users"][0]["user"] = {
        "exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}
    }
    follower = followed.follow()
    followed.path.write_text(yaml.safe_dump(content))
    task = asyncio.ensure_future(follower.check())
    await asyncio.sleep(0.0)
    go.touch()
    await task
    assert [used.token() for used in followed.used] == ["late"]
