"""What the options name outside Sentinel: the template and its namespace, and whether the cluster takes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import dumps
from sentinel.errors import UsageError
from sentinel.launcher.asking import Reply
from sentinel.launcher.checks import check_command
from sentinel.launcher.kubernetes.answers import read_refusal
from sentinel.launcher.kubernetes.calls import RealKube
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.kubernetes.template import Template, TemplateError, WantedJobSet, build_jobset, read_template

OWN_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"  # of the pod that this is
# What the API refuses for good. Others (a quota, a webhook that is away) may pass.
FOR_GOOD = frozenset(
    {"Invalid", "BadRequest", "Forbidden", "NotFound", "Unauthorized", "MethodNotAllowed", "UnsupportedMediaType"}
)


def read_settings(settings: KubernetesSettings, cwd: str) -> tuple[Template, str]:
    """The template, and the namespace of what is made of it. `cwd`: the run's. Raises TemplateError."""
    path = Path(cwd, settings.template)
    try:
        template = read_template(read_regular(path).decode(), str(path), settings.container)
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"--launcher-option template={settings.template}: cannot be read: {error}") from None
    namespace = settings.namespace or template.namespace or _own_namespace()
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
        template, namespace = read_settings(settings, cwd)
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
