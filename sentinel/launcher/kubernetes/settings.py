"""The options of the launcher `kubernetes`. Light: whoever asks which launchers there are imports it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from sentinel.launcher.checks import check_durations
from sentinel.policy.quantities import parse_positive_duration


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """`template`: a file with a JobSet. `container`: which of its containers trains. `namespace`: where; empty: the file's, else
    that of the pod in which Sentinel runs. `kubectl`: further words for it. `every`: how often the API is asked; `timeout`: how
    long one call may take.

    Raises:
        ValueError: one of them makes no sense.
    """

    template: str
    container: str = ""
    namespace: str = ""
    kubectl: str = ""
    every: str = "5s"
    timeout: str = "20s"

    def __post_init__(self) -> None:
        if not self.template.strip():
            raise ValueError("--launcher-option template: is empty; name a file with a JobSet")
        check_durations({name: getattr(self, name) for name in ("every", "timeout")})
        try:
            shlex.split(self.kubectl)
        except ValueError as error:
            raise ValueError(f"--launcher-option kubectl={self.kubectl}: {error}; write it as for a shell") from None

    @property
    def every_s(self) -> float:
        return parse_positive_duration(self.every)

    @property
    def timeout_s(self) -> float:
        return parse_positive_duration(self.timeout)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.kubectl))
