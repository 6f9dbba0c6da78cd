"""The results of the manifests of one Work."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.rules.manifest_status import ManifestStatus, Reflection
from karmada_vc_agent.work.window_gate import Waiting


@dataclass(slots=True)
class WorkOutcome:
    """Skipped manifests have no result. unreadable: why a status could not be read, or ""."""

    results: list[tuple[Object, Applied | Failure | Waiting]] = field(default_factory=list)
    entries: list[ManifestStatus] = field(default_factory=list)
    unreadable: str = ""
    unreadable_for: set[Hashable | None] = field(default_factory=set)

    def reflected(self, reflection: Reflection | None) -> None:
        """Add the reflection of one manifest, None if it has none."""
        if reflection is None:
            return
        if reflection.problem:
            self.unreadable = reflection.problem
            self.unreadable_for.add(reflection.dependency)
        if reflection.entry is not None:
            self.entries.append(reflection.entry)

    @property
    def failures(self) -> list[Failure]:
        """What could not be applied, or not kept as it was."""
        done = (_done(result) for _, result in self.results)
        return [result for result in done if isinstance(result, Failure)]

    @property
    def waiting(self) -> list[Waiting]:
        """What waits for a window."""
        return [result for _, result in self.results if isinstance(result, Waiting)]

    @property
    def errors(self) -> list[str]:
        """The messages of the failures."""
        return [failure.text for failure in self.failures]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the refusals."""
        return tuple(str(failure.code) for failure in self.failures if failure.code is not None)

    @property
    def waits_for(self) -> tuple[Hashable, ...]:
        """What ends the failures, where they are refusals."""
        return tuple(each for failure in self.failures for each in failure.waits_for)

    @property
    def is_refused(self) -> bool:
        """Return whether retrying after a delay is useless: all failures are refusals."""
        failures = self.failures
        return bool(failures) and all(failure.is_final for failure in failures)

    def retry(self, text: str) -> RetryError:
        """Return the error with which the Work backs off."""
        failed = [failure.waits_for for failure in self.failures if not failure.is_final]
        unreadable = [(each,) if each is not None else () for each in self.unreadable_for]
        shared = dict.fromkeys(each for waits_for in (*failed, *unreadable) for each in waits_for)
        return RetryError(text, shared, is_own=() in (*failed, *unreadable))

    @property
    def is_as_it_was(self) -> bool:
        """Return whether all was on the host before: nothing was written, failed or waits."""
        return all(
            isinstance(result, Applied) and not result.was_written for _, result in self.results
        )

    @property
    def was_recreated(self) -> bool:
        """Return whether a deleted object was recreated, or an attempt failed."""
        return any(is_recreation(result) for _, result in self.results)


def is_recreation(result: Applied | Failure | Waiting) -> bool:
    """Return whether an object existed before and was deleted on the host."""
    done = _done(result)
    if isinstance(done, Failure):
        return done.is_recreation
    return done is not None and done.was_recreated


def _done(result: Applied | Failure | Waiting) -> Applied | Failure | None:
    return result.kept if isinstance(result, Waiting) else result
