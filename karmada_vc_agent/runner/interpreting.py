"""What interprets the objects of Works: scripts, webhooks, and the rules that name them."""

from collections.abc import Awaitable, Callable, Hashable

from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.interpretation.script_runner import ScriptRunner
from karmada_vc_agent.kube.webhook_client import WebhookClient
from karmada_vc_agent.runner.clients import connection_shares
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.work.hook_probes import HookProbes
from karmada_vc_agent.work.interpreter_rules import InterpreterRules


class Interpreting:
    """The interpreter and what it is made of."""

    def __init__(self, common: Common) -> None:
        self._hook_answers = common.signals.hook_answers.emit
        is_shared = common.virtual_clusters.are_several
        self.scripts = ScriptRunner(
            on_taken=common.metrics.interpreter_taken,
            on_given_back=common.metrics.interpreter_given_back,
        )
        self.rules = InterpreterRules(
            common.clients.hub,
            self.scripts.run,
            common.signals.meaning.emit,
            common.supervisor,
            WebhookClient(connection_shares().webhooks, is_shared),
        )
        self.probes = HookProbes(self._answers_again, is_shared)
        self.interpreter = Interpreter(self.rules.levels, common.clock.monotonic, self.probes.probe)

    def _answers_again(self, cluster: str, hook: Hashable) -> None:
        """Have all Works look again that waited for a webhook."""
        self.interpreter.answers_again(cluster, hook)
        self._hook_answers(cluster, hook)

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what keeps it up to date: name -> coroutine."""
        return {"interpreter rules": self.rules.run, "hook probes": self.probes.run}
