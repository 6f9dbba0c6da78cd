"""The user of a kubeconfig that a server vouches for: OIDC (`auth-provider`).

OIDC is left to the `kubernetes` package, which is imported only here (17 MB and 0.1 s).
"""

import ssl
from pathlib import Path
from typing import Any

from karmada_vc_agent.kube.credentials import make_ssl_context
from karmada_vc_agent.kube.exec_plugin import PluginError
from karmada_vc_agent.kube.plugin_token import PluginToken

_TOKEN_KEYS = ("BearerToken", "authorization")
"""Keys under which the `kubernetes` package stores a token: recent and earlier versions."""


class PluginUser:
    """The credential of the plugin of a context of a kubeconfig; made by running it.

    Raises PluginError.
    """

    def __init__(self, path: Path, context: str) -> None:
        try:
            from kubernetes import client, config  # noqa: PLC0415 - costs 17 MB, rarely needed
        except ImportError as error:
            problem = "OIDC needs karmada-vc-agent[exec-auth]; install it"
            raise PluginError(problem) from error
        self._load: Any = config.load_kube_config
        self._where = (str(path), context)
        self._settings: Any = client.Configuration()
        try:
            self._run()
        except Exception as error:  # the errors of plugins and of that package are undocumented
            raise PluginError(str(error)) from error
        self.token = PluginToken(self._token(), self._renewed)
        if not self.token() and not self._has_certificate():
            problem = (
                "its plugin returned no credential; check that it is installed and works by hand"
            )
            raise PluginError(problem)

    def ssl_context(self) -> ssl.SSLContext:
        """Return the trust of the context, with the certificate of the plugin if it gave one.

        Raises OSError, ValueError.
        """
        settings = self._settings
        certificate = None
        if self._has_certificate():
            chain, key = (Path(file) for file in (settings.cert_file, settings.key_file))
            certificate = (chain.read_bytes(), key.read_bytes())
        ca = Path(settings.ssl_ca_cert).read_text() if settings.ssl_ca_cert else None
        return make_ssl_context(ca, certificate, verify=bool(settings.verify_ssl))

    def _run(self) -> None:
        path, context = self._where
        self._load(path, context, client_configuration=self._settings)

    def _renewed(self, force: bool) -> str | None:  # noqa: FBT001 - for PluginToken
        if force:
            self._run()
        elif self._settings.refresh_api_key_hook is not None:
            self._settings.refresh_api_key_hook(self._settings)  # runs it if its token ends soon
        return self._token()

    def _token(self) -> str | None:
        headers = (self._settings.api_key.get(name) for name in _TOKEN_KEYS)
        return next((text.removeprefix("Bearer ") for text in headers if text), None)

    def _has_certificate(self) -> bool:
        return bool(self._settings.cert_file and self._settings.key_file)
