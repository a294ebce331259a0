"""From a route of the policy to the channel that serves it, and whether it could serve it at all, asked before anything is
started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sentinel.channels.contract import AGAIN_S, Channel
from sentinel.channels.notice import Notice
from sentinel.channels.registry import CHANNELS
from sentinel.channels.secrets import Vault
from sentinel.errors import GiveUp, PerhapsDelivered, RetryLater, SentinelError, UsageError
from sentinel.policy import schema_paging as p


class Guarded:
    """A channel whose every word is free of the secrets it has read, whatever goes wrong in it."""

    def __init__(self, channel: Channel, vault: Vault) -> None:
        self.channel = channel
        self.vault = vault

    def deliver(self, notice: Notice) -> str:
        try:
            return self.vault.scrub(self.channel.deliver(notice))
        except RetryLater as later:
            kind = PerhapsDelivered if isinstance(later, PerhapsDelivered) else RetryLater
            found: RetryLater | GiveUp = kind(self.vault.scrub(str(later)), later.retry_in_s)
        except GiveUp as final:
            found = GiveUp(self.vault.scrub(str(final)))
        except OSError as error:
            found = RetryLater(self.vault.scrub(str(error)), AGAIN_S)
        except Exception as bug:  # noqa: BLE001 - its words might hold a secret, and the runner would write them down
            found = GiveUp(self.vault.scrub(f"internal error: {type(bug).__name__}: {bug}"))
        raise found  # outside the handlers: the error that it was, with what its words hold, does not hang on it


def open_channel(route: p.Route, run_dir: Path | None, environ: Mapping[str, str] | None = None) -> Guarded:
    """`run_dir` None: outside any run (a test page)."""
    vault = Vault(environ)
    return Guarded(CHANNELS[route.kind].build(route.settings, vault, run_dir), vault)


def check_paging(paging: p.Paging, environ: Mapping[str, str] | None = None) -> None:
    """Raises UsageError that names every route which could never deliver: a secret that is not there, a program, an address."""
    wrong = [f"route {route.name}: {problem}" for route in paging.routes for problem in problems_of(route, environ)]
    if paging.dead_man is not None:
        wrong += [f"dead_man: {problem}" for problem in _unreadable(paging.dead_man.url, environ)]
    if wrong:
        raise UsageError("nobody could be paged so, and nothing was done\n" + "\n".join(f"  {words}" for words in wrong))


def problems_of(route: p.Route, environ: Mapping[str, str] | None = None) -> list[str]:
    """What keeps the route from delivering anything, from here and now."""
    return [*_unreadable_secrets(route.settings, environ), *CHANNELS[route.kind].problems(route.settings)]


def secret_values_of(paging: p.Paging, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What these routes hold as secrets, as far as it can be read now: whoever writes words down masks them."""
    values = []
    for secret in _secrets_of(paging):
        with suppress(SentinelError):
            values.append(Vault(environ).read(secret))
    return tuple(values)


def secret_variables(paging: p.Paging) -> frozenset[str]:
    """The variables in which secrets of these routes lie: sentinel's own, and nothing it starts need know them."""
    return frozenset(secret.env for secret in _secrets_of(paging) if secret.env is not None)


def _secrets_of(paging: p.Paging) -> list[p.Secret]:
    found = [getattr(route.settings, name) for route in paging.routes for name in type(route.settings).model_fields]
    found += [paging.dead_man.url] if paging.dead_man is not None else []
    return [one for one in found if isinstance(one, p.Secret)]


def _unreadable_secrets(settings: p.RouteSettings, environ: Mapping[str, str] | None) -> Iterator[str]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, p.Secret):
            yield from _unreadable(value, environ)


def _unreadable(secret: p.Secret, environ: Mapping[str, str] | None) -> Iterator[str]:
    try:
        Vault(environ).read(secret)
    except RetryLater:
        return  # a file that cannot be read now may be by the time it is needed
    except GiveUp as error:
        yield str(error)
