"""Whether patterns over logs have names of their own, say something, and ask for nothing that the command cannot do."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sentinel.errors import Problem
from sentinel.policy.schema import PolicySpec


def check_logs(spec: PolicySpec, capabilities: Collection[str] | None) -> Iterator[Problem]:
    if spec.run.log_files and not spec.logs:
        message = "nothing is looked for in these files: there are no patterns"
        yield Problem("spec.run.log_files", message, "write patterns under spec.logs, or remove the line", "warning")
    alerts = {rule.alert for rule in spec.rules}
    first: dict[str, int] = {}
    for index, rule in enumerate(spec.logs):
        path = f"spec.logs[{index}]"
        if rule.name in first or rule.name in alerts:
            other = f"spec.logs[{first[rule.name]}]" if rule.name in first else "an alert"
            yield Problem(f"{path}.name", f"'{rule.name}' is also {other}", "give it a name of its own")
        first.setdefault(rule.name, index)
        if rule.node is not None and capabilities is not None and "exclude" not in capabilities:
            message = "the command is not declared to be able to leave a node out: the node would stay"
            yield Problem(f"{path}.node", message, "start it with --with exclude where it can", "warning")
