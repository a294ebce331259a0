"""What `sentinel policy explain` says of pages that wait, for windows or for other incidents, and of patterns over logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentinel.policy.quiet_hours import mute_words
from sentinel.policy.schema import Policy, Rule
from sentinel.policy.schema_logs import LogRule


def waiting(policy: Policy, rule: Rule) -> Iterator[str]:
    """One sentence for each window and inhibition that may concern incidents of this rule."""
    names = {rule.alert, rule.on}
    for mute in policy.spec.paging.mute:
        if (not mute.rules or rule.alert in mute.rules) and (not mute.kinds or rule.on in mute.kinds):
            on = f" on {_listed(mute.routes)}" if mute.routes else ""
            yield f"{_listed(mute.severities)} pages{on} wait in {mute_words(mute)}: what is still open at its end is paged then"
    for one in policy.spec.paging.inhibit:
        shared = f" of the same {_listed(one.equal)}" if one.equal else ""
        if names & set(one.hold):
            causes = _listed(one.while_)
            yield f"its {_listed(one.severities)} pages wait while an incident of {causes}{shared} is open ({one.name})"
        if names & set(one.while_):
            yield f"while it is open, {_listed(one.severities)} pages about {_listed(one.hold)}{shared} wait ({one.name})"


def log_words(rule: LogRule) -> str:
    """An entry over logs: what its match means while training goes on, and of an attempt that died."""
    alive = f"a {rule.page} page" if rule.page else "recorded only"
    dead = [f"the crash is '{rule.found}'"] if rule.judges_deaths else []
    dead += ["its node is left out"] if rule.node else []
    dead += [] if rule.retry else ["a person is called at once"]
    died = f"; of an attempt that died: {', '.join(dead)}" if dead else ""
    return f"{rule.name} (a line of a log that matches {rule.match.text}): {alive}{died}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
