"""The options of the launcher `kubernetes`, and what is checked before there is a run."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import dumps
from sentinel.errors import UsageError
from sentinel.launcher.asking import Reply
from sentinel.launcher.checks import check_command, check_durations
from sentinel.launcher.kubernetes.answers import read_refusal
from sentinel.launcher.kubernetes.calls import RealKube
from sentinel.launcher.kubernetes.template import Template, TemplateError, WantedJobSet, build_jobset, read_template
from sentinel.policy.quantities import parse_positive_duration

OWN_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"  # of the pod that this is
# What the API refuses for good. Others (a quota, a webhook that is away) may pass.
FOR_GOOD = frozenset(
    {"Invalid", "BadRequest", "Forbidden", "NotFound", "Unauthorized", "MethodNotAllowed", "UnsupportedMediaType"}
)


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

    def read(self, cwd: str) -> tuple[Template, str]:
        """The template, and the namespace of what is made of it. `cwd`: the run's. Raises TemplateError."""
        path = Path(cwd, self.template)
        try:
            template = read_template(read_regular(path).decode(), str(path), self.container)
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"--launcher-option template={self.template}: cannot be read: {error}") from None
        namespace = self.namespace or template.namespace or _own_namespace()
        if not namespace:
            raise TemplateError(f"{path}: metadata.namespace: is missing; write it there, or --launcher-option namespace=…")
        return template, namespace


def check_cluster(command: tuple[str, ...], cwd: str, settings: KubernetesSettings) -> None:
    """What could never start. An API that does not answer now may do so later. Raises UsageError."""
    if not command:
        check_command(command, cwd)
    if shutil.which("kubectl") is None:
        raise UsageError("--launcher kubernetes: kubectl is not on the PATH; install it where sentinel runs")
    try:
        template, namespace = settings.read(cwd)
        wanted = WantedJobSet("s-sentinel-trial-00000000-0", "trial", 0, "trial", command, {})
        trial = dumps(build_jobset(template, wanted))
    except TemplateError as error:
        raise UsageError(str(error)) from None
    reply = RealKube(settings.timeout_s, settings.words).create(namespace, trial, is_trial=True)
    if read_refusal(reply) in FOR_GOOD:
        raise UsageError(f"{Path(cwd, settings.template)}: {describe(reply)}; mend the file, or see deploy/kubernetes/role.yaml")


def describe(reply: Reply) -> str:
    """For people: why the API did not do it."""
    return f"the API server does not take it: {reply.trouble}"


def _own_namespace() -> str:
    try:
        return read_regular(OWN_NAMESPACE).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
