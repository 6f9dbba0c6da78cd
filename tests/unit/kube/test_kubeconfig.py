"""Kubeconfigs: every way to say who we are, and mistakes that name the file."""

import base64
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from karmada_vc_agent.kube import kubeconfig as module
from karmada_vc_agent.kube.kubeconfig import (
    KubeconfigError,
    files_of,
    find_credentials,
    parse_kubeconfig,
    read_kubeconfig,
)
from karmada_vc_agent.kube.transport import Credentials


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    """Return a self-signed certificate and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem


class Kubeconfig:
    """A file with one context, to be changed by a test."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kubeconfig"
        self.cluster: dict[str, Any] = {"server": "https://hub.example:6443/"}
        self.user: dict[str, Any] = {}
        self.content: dict[str, Any] = {
            "current-context": "main",
            "contexts": [
                {"name": "main", "context": {"cluster": "c", "user": "u"}},
                {"name": "other", "context": {"cluster": "d"}},
            ],
            "clusters": [
                {"name": "c", "cluster": self.cluster},
                {"name": "d", "cluster": {"server": "http://d.example"}},
            ],
            "users": [{"name": "u", "user": self.user}],
        }

    def read(self, context: str = "") -> Credentials:
        self.path.write_text(yaml.safe_dump(self.content))
        return read_kubeconfig(self.path, context)

    def problem(self, context: str = "") -> str:
        """Read what must be refused; return the message without the file's name."""
        with pytest.raises(KubeconfigError) as raised:
            self.read(context)
        text = str(raised.value)
        assert text.startswith(f"{self.path}: "), text
        assert "\n" not in text
        return text.removeprefix(f"{self.path}: ")


@pytest.fixture
def config(tmp_path: Path) -> Kubeconfig:
    return Kubeconfig(tmp_path)


@pytest.fixture
def no_environment() -> Iterator[pytest.MonkeyPatch]:
    """Take away what a developer's shell may say; environment, not names, is what is set."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST"):
            environment.delenv(name, raising=False)
        yield environment


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_server_loses_its_last_slash_and_the_source_is_named(config: Kubeconfig) -> None:
    found = config.read()
    assert found.server == "https://hub.example:6443"
    assert found.source == f"{config.path} (context main)"


def test_context_can_be_named(config: Kubeconfig) -> None:
    assert config.read("other").server == "http://d.example"


def test_server_without_tls_needs_no_context(config: Kubeconfig) -> None:
    assert config.read("other").ssl_context is None


def test_token_is_used(config: Kubeconfig) -> None:
    config.user["token"] = "secret"
    assert config.read().token() == "secret"


def test_no_user_is_no_token(config: Kubeconfig) -> None:
    assert config.read("other").token() is None


def test_token_file_is_beside_the_kubeconfig(config: Kubeconfig) -> None:
    config.user["tokenFile"] = "token"
    config.path.with_name("token").write_text("from a file\n")
    assert config.read().token() == "from a file"


def test_token_file_beats_the_token(config: Kubeconfig) -> None:
    config.user |= {"tokenFile": "token", "token": "secret"}
    config.path.with_name("token").write_text("from a file")
    assert config.read().token() == "from a file"


def test_proxy_and_server_name_are_used(config: Kubeconfig) -> None:
    config.cluster |= {"proxy-url": "http://proxy:3128", "tls-server-name": "inner"}
    found = config.read()
    assert (found.proxy, found.server_hostname) == ("http://proxy:3128", "inner")


def test_certificates_are_read_from_data(config: Kubeconfig, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    config.cluster["certificate-authority-data"] = encoded(certificate)
    config.user["client-certificate-data"] = encoded(certificate)
    config.user["client-key-data"] = encoded(key)
    context = config.read().ssl_context
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_certificates_are_read_from_files_beside_the_kubeconfig(
    config: Kubeconfig, pair: tuple[bytes, bytes]
) -> None:
    for name, content in (("ca.pem", pair[0]), ("client.pem", pair[0]), ("key.pem", pair[1])):
        config.path.with_name(name).write_bytes(content)
    config.cluster["certificate-authority"] = "ca.pem"
    config.user |= {"client-certificate": "client.pem", "client-key": "key.pem"}
    context = config.read().ssl_context
    assert context is not None
    assert len(context.get_ca_certs()) == 1


def test_verification_can_be_switched_off(config: Kubeconfig) -> None:
    config.cluster["insecure-skip-tls-verify"] = True
    context = config.read().ssl_context
    assert context is not None
    assert context.verify_mode == ssl.CERT_NONE


# --- mistakes ----------------------------------------------------------------------------------


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as raised:
        read_kubeconfig(tmp_path / "absent")
    assert str(raised.value) == f"{tmp_path / 'absent'}: No such file or directory"


@pytest.mark.parametrize("content", ["a: [", "\x00"])
def test_file_that_is_no_yaml_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(KubeconfigError) as raised:
        read_kubeconfig(path)
    assert str(raised.value).startswith(f"{path}: not valid YAML: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["", "text", "[]"])
def test_file_that_is_no_mapping_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match="not a kubeconfig"):
        read_kubeconfig(path)


SETTINGS = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: AgentConfig\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is not a kubeconfig"),
        ("[]", "is not a kubeconfig"),
        ("text", "is not a kubeconfig"),
        (SETTINGS, "is of kind AgentConfig, not a kubeconfig"),
        ("apiVersion: v1\nkind: Secret\ncontexts: [x]", "is of kind Secret, not a kubeconfig"),
        ("kind: [x]", "is of kind ['x'], not a kubeconfig"),
        ("agentName: edge", "has neither clusters nor contexts, so it is not a kubeconfig"),
        ("kind: Config\nclusters: null\ncontexts: []", "has neither clusters nor contexts"),
    ],
)
def test_file_of_another_kind_is_reported_with_kind_and_expectation(
    tmp_path: Path, content: str, told: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(KubeconfigError) as raised:
        read_kubeconfig(path, "main")
    text = str(raised.value)
    assert text.startswith(f"{path}: {told}")
    assert text.endswith("; expected a file of kind Config, with clusters, contexts and users")


def test_kind_of_a_kubeconfig_may_be_written_down(config: Kubeconfig) -> None:
    config.content.update(apiVersion="v1", kind="Config")
    assert config.read().server == "https://hub.example:6443"


def test_key_that_is_set_twice_is_reported_with_its_lines(config: Kubeconfig) -> None:
    config.read()
    text = config.path.read_text() + "current-context: other\n"
    config.path.write_text(text)
    with pytest.raises(KubeconfigError, match=r'line \d+: "current-context" is set twice'):
        read_kubeconfig(config.path)


def test_missing_current_context_is_reported(config: Kubeconfig) -> None:
    del config.content["current-context"]
    assert config.problem() == "current-context is not set; specify a context"


def test_unknown_context_is_reported_with_the_available_ones(config: Kubeconfig) -> None:
    assert config.problem("hub") == 'contexts has no "hub" (there are: main, other)'


def test_unknown_cluster_is_reported(config: Kubeconfig) -> None:
    config.content["clusters"] = []
    assert config.problem() == 'clusters has no "c" (there are: none)'


@pytest.mark.parametrize("clusters", ["c", ["c"], {"c": {}}, [{"name": "x"}, 7]])
def test_section_of_another_shape_is_reported(config: Kubeconfig, clusters: object) -> None:
    config.content["clusters"] = clusters
    assert config.problem().startswith('clusters has no "c" (there are: ')


def test_unknown_user_is_reported(config: Kubeconfig) -> None:
    config.content["users"] = None
    assert config.problem() == 'users has no "u" (there are: none)'


@pytest.mark.parametrize("server", ["", "hub.example:6443", "ftp://hub"])
def test_server_that_is_no_url_is_reported(config: Kubeconfig, server: str) -> None:
    config.cluster["server"] = server
    assert config.problem() == f'server "{server}" is not a valid http(s) URL'


def test_certificate_that_is_no_base64_is_reported(config: Kubeconfig) -> None:
    config.cluster["certificate-authority-data"] = "%%%"
    assert config.problem().startswith("certificate material: certificate-authority-data: ")


def test_certificate_that_is_none_is_reported(config: Kubeconfig) -> None:
    config.cluster["certificate-authority-data"] = encoded(b"no certificate")
    assert config.problem().startswith("certificate material: ")


def test_certificate_file_that_is_missing_is_named(config: Kubeconfig) -> None:
    config.cluster["certificate-authority"] = "absent.pem"
    assert "absent.pem" in config.problem()


@pytest.mark.parametrize("half", ["client-certificate-data", "client-key-data"])
def test_half_a_client_certificate_is_reported(
    config: Kubeconfig, pair: tuple[bytes, bytes], half: str
) -> None:
    config.user[half] = encoded(pair[0])
    expected = "certificate material: client-certificate and client-key go together"
    assert config.problem() == expected


# --- where it is looked for ----------------------------------------------------------------------


def test_given_path_is_used(config: Kubeconfig) -> None:
    config.read()
    assert find_credentials(str(config.path)).server == "https://hub.example:6443"


def test_first_existing_file_of_the_variable_is_used(
    config: Kubeconfig, no_environment: pytest.MonkeyPatch
) -> None:
    config.read()
    no_environment.setenv("KUBECONFIG", f"/absent:{config.path}")
    assert find_credentials("", "other").server == "http://d.example"


def test_file_in_the_home_folder_is_used(
    config: Kubeconfig, tmp_path: Path, no_environment: pytest.MonkeyPatch
) -> None:
    config.path = tmp_path / ".kube" / "config"
    config.path.parent.mkdir()
    config.read()
    no_environment.setenv("HOME", str(tmp_path))
    assert find_credentials("").server == "https://hub.example:6443"


def test_missing_kubeconfig_error_says_where_it_looked(no_environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(KubeconfigError, match="no KUBECONFIG, no HOME"):
        find_credentials("")
    no_environment.setenv("KUBECONFIG", "/absent")
    with pytest.raises(KubeconfigError, match=r"\(/absent\), and not running in a Pod"):
        find_credentials("")


@pytest.mark.parametrize("host", [None, ""])
@pytest.mark.parametrize("in_cluster_first", [True, False])
def test_pod_on_an_edge_gets_an_error_that_its_api_server_is_unknown(
    tmp_path: Path, no_environment: pytest.MonkeyPatch, host: str | None, *, in_cluster_first: bool
) -> None:
    (tmp_path / "token").write_text("t")
    no_environment.setattr(module, "SERVICE_ACCOUNT", tmp_path)
    if host is not None:
        no_environment.setenv("KUBERNETES_SERVICE_HOST", host)
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST is empty in this Pod") as e:
        find_credentials("", in_cluster_first=in_cluster_first)
    assert "run the agent on a node that is no edge" in str(e.value)


def test_pod_on_an_edge_uses_a_kubeconfig_that_it_is_given(
    config: Kubeconfig, tmp_path: Path, no_environment: pytest.MonkeyPatch
) -> None:
    config.read()
    (tmp_path / "token").write_text("t")
    no_environment.setattr(module, "SERVICE_ACCOUNT", tmp_path)
    no_environment.setenv("KUBERNETES_SERVICE_HOST", "")
    no_environment.setenv("KUBECONFIG", str(config.path))
    found = find_credentials("", in_cluster_first=True)
    assert found.server == "https://hub.example:6443"


# --- files of any shape --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server", ["https://hub.example"]),
        ("server", "https://hub.example:no"),
        ("server", "https://"),
        ("server", "https://hub.example\nX: y"),
        ("certificate-authority-data", ["x"]),
        ("certificate-authority-data", False),
        ("certificate-authority", {"a": "b"}),
        ("certificate-authority", "a\0b"),
        ("tls-server-name", 7),
        ("proxy-url", "nowhere"),
        ("proxy-url", []),
    ],
)
def test_odd_field_of_a_cluster_is_reported_on_one_line(
    config: Kubeconfig, field: str, value: Any
) -> None:
    config.cluster[field] = value
    assert config.problem().isprintable()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token", False),
        ("token", "a\nb"),
        ("token", "é"),
        ("tokenFile", ["x"]),
        ("username", {"a": "b"}),
        ("client-certificate-data", ["x"]),
        ("client-key", 7),
    ],
)
def test_odd_field_of_a_user_is_reported_on_one_line(
    config: Kubeconfig, field: str, value: Any
) -> None:
    config.user[field] = value
    assert config.problem().isprintable()


@pytest.mark.parametrize("section", ["clusters", "users", "contexts"])
@pytest.mark.parametrize("value", [7, "x", {"a": "b"}, [7], [{"name": ["x"]}], None])
def test_odd_section_is_reported_and_names_no_files(
    config: Kubeconfig, section: str, value: Any
) -> None:
    config.read()
    content = yaml.safe_load(config.path.read_bytes())
    config.path.write_text(yaml.safe_dump({**content, section: value}))
    with pytest.raises(KubeconfigError, match=f"{section} has no"):
        read_kubeconfig(config.path)
    assert config.path in files_of(config.path)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\xff", b"[" * 5000, b"&a [*a]", b"&a {users: *a, contexts: *a}", b""]
)
def test_kubeconfig_of_any_bytes_is_reported_on_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(KubeconfigError) as raised:
        parse_kubeconfig(content, tmp_path / "config")
    assert str(raised.value).isprintable()


def test_token_file_without_a_token_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"\xff\xfe")
    token = module._TokenFile(path)
    with pytest.raises(OSError, match="contains no token"):
        token()


def plugin(command: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never"}}


def test_plugin_gives_the_token(config: Kubeconfig, tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text(
        '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", '
        '"kind": "ExecCredential", "status": {"token": "of-the-plugin"}}\'\n'
    )
    program.chmod(0o700)
    config.user.update(plugin(str(program)))
    assert config.read().token() == "of-the-plugin"


def test_plugin_leaves_the_proxy_of_its_cluster(config: Kubeconfig, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    config.user.update(plugin(str(slow_plugin(tmp_path))))
    config.cluster["proxy-url"] = "http://proxy.example:3128"
    assert config.read().proxy == "http://proxy.example:3128"


def test_plugin_without_output_makes_no_one_anonymous(config: Kubeconfig) -> None:
    config.user.update(plugin("/nowhere/plugin"))
    told = "the user of context main: its plugin cannot be run: "
    assert config.problem().startswith(told)


def slow_plugin(folder: Path) -> Path:
    """Return a plugin whose first token ends at once, and whose next one waits for a file `go`."""
    program = folder / "plugin"
    program.write_text(
        f"""#!/bin/sh
answer() {{
  echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", \
"status": {{"token": "'$1'", "expirationTimestamp": "'$2'"}}}}'
}}
if mkdir {folder}/asked; then answer first 2020-01-01T00:00:00Z; exit; fi
for _ in $(seq 30); do [ -e {folder}/go ] && break; sleep 0.1; done
answer second 2999-01-01T00:00:00Z
"""
    )
    program.chmod(0o700)
    return program


@pytest.mark.parametrize("field", ["auth-provider", "username"])
def test_user_of_another_sort_is_refused(config: Kubeconfig, field: str) -> None:
    config.user[field] = "odd"
    assert f"{field} is not supported; use exec" in config.problem()
