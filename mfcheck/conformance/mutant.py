"""Something broken on purpose, that the suite must find: its controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mfcheck.conformance.report import VIOLATED

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Broken:
    """A mutant: what the suite is handed, the property that it breaks, and those that fall with it, with the reason."""

    brought: Callable[..., Any]
    breaks: str
    also: Mapping[str, str] = field(default_factory=dict)
    needs_gpu: bool = False

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return str(self.brought.__name__)

    @property
    def says(self) -> str:
        """What is wrong, in words."""
        return str(self.brought.__doc__).splitlines()[0]

    @property
    def target(self) -> str:
        """pkg.module:name, as the commands take it."""
        return f"{self.brought.__module__}:{self.name}"

    def faults(self, found: Mapping[str, str]) -> list[str]:
        """What is wrong with statuses by property: its own not violated, or one violated that was not declared."""
        violated = {name for name, status in found.items() if status == VIOLATED}
        wrong = [] if self.breaks in violated else [f"{self.name}: {self.breaks} is {found[self.breaks]}"]
        also = sorted(violated - {self.breaks, *self.also})
        return wrong + [f"{self.name}: {name} is violated, too" for name in also]


def registered_in(broken: list[Broken]) -> Callable[..., Callable[[T], T]]:
    """A decorator breaks(property, {also: why}, needs_gpu=False) that puts what it decorates on the list."""

    def breaks(name: str, also: Mapping[str, str] | None = None, *, needs_gpu: bool = False) -> Callable[[T], T]:
        def register(brought: T) -> T:
            broken.append(Broken(brought, name, also or {}, needs_gpu))
            return brought

        return register

    return breaks
