"""What `explain` read of the chain, link by link, and which link is broken."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from karmada_vc_agent.diagnosis.faults import Fault, fault, meaning
from karmada_vc_agent.diagnosis.servers import unseen_text
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.user_text import one_line


def counted(number: int, noun: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{number} {noun}{'s' * (number != 1)}"


@dataclass(slots=True)
class Link:
    """One link: what was read of it, and what is wrong with it; the first fault counts.

    cluster: whose it is, "" of the links on the hub that all have. what: the object.
    """

    name: str
    cluster: str
    what: str
    facts: list[str] = field(default_factory=list)
    fault: Fault | None = None
    is_seen: bool = True

    def broken(self, name: str, **values: object) -> None:
        """Note a fault of the table."""
        self.fault = self.fault or fault(name, **{**self._values, **values})

    def means(self, text: str, otherwise: str, **values: object) -> None:
        """Note the fault that a text of others means; otherwise: that of all other texts."""
        self.fault = self.fault or meaning(text, otherwise, **{**self._values, **values})

    def unseen(self, why: str) -> None:
        self.facts.append(why)
        self.is_seen = False

    @property
    def _values(self) -> dict[str, object]:
        return {"cluster": self.cluster, "what": self.what, "link": self.name}


@dataclass(slots=True)
class Report:
    """All links. unseen: what could not be read, and why."""

    what: str
    links: list[Link] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @contextmanager
    def link(self, name: str, cluster: str = "") -> Iterator[Link]:
        """Add a link; that it cannot be read is noted on it, and ends the block."""
        link = Link(name, cluster, self.what)
        self.links.append(link)
        try:
            yield link
        except KubeError as error:
            if isinstance(error, ForbiddenError) and error.need is not None:
                link.broken("RightMissing", whose=error.server, reason=unseen_text(error))
                link.is_seen = False
            else:
                link.unseen(str(error))

    def add(self, name: str, broken: Fault | None) -> None:
        """Add a link that cannot be read, such as a server that does not answer."""
        self.links.append(Link(name, "", self.what, [], broken, is_seen=False))

    @property
    def broken(self) -> Fault | None:
        """The first broken link; a missing right only where nothing else is broken."""
        faults = [link.fault for link in self.links if link.fault is not None]
        others = (each for each in faults if each.name != "RightMissing")
        return next(others, next(iter(faults), None))

    def json(self) -> Object:
        """Return it as JSON and YAML have it."""
        broken = asdict(self.broken) if self.broken else None
        links = [asdict(link) for link in self.links]
        return {"what": self.what, "broken": broken, "links": links, "unseen": self.unseen}

    def text(self) -> str:
        """Return it for people: what is broken, what to do, then each link."""
        broken = self.broken
        says = broken.says if broken else f"nothing is broken in what was seen of {self.what}"
        partly = f"not seen: {self.unseen[0]}" if self.unseen else "nothing"
        rows = (
            f"{state:<8} {name:<10} {one_line(text)}" if text else one_line(name)
            for state, name, text in self._rows()
        )
        return "\n".join([one_line(says), f"next: {broken.do if broken else partly}", "", *rows])

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        cluster = ""
        for link in self.links:
            if link.cluster != cluster:
                cluster = link.cluster
                yield "", f"--- {cluster}", ""
            state = "BROKEN" if link.fault else "ok" if link.is_seen else "-"
            texts = [*([link.fault.says] if link.fault else ()), *link.facts]
            for index, text in enumerate(texts or ["nothing" if link.is_seen else "not seen"]):
                yield ("", "", text) if index else (state, link.name, text)
        for text in self.unseen:
            yield "-", "not seen", text
