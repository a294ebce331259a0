"""Every launcher that Sentinel has, one row each. run.json names one of them; `sentinel run --launcher` chooses it for a new run.

To add one: write its module (a frozen dataclass of settings, a class that fulfils `contract.Launcher`) and add its row here.

    launcher = open_launcher("local", {}, LaunchPlace(run_dir))
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any

from sentinel.errors import UsageError
from sentinel.launcher.agent_reach import AgentReach
from sentinel.launcher.by_agents import LauncherWithAgents
from sentinel.launcher.checks import check_local
from sentinel.launcher.command import CommandLauncher, CommandSettings, check_training_command
from sentinel.launcher.contract import Hold, Launcher, unheld
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.local import LocalLauncher, LocalSettings
from sentinel.launcher.made_ahead import MadeAhead
from sentinel.launcher.node_reach import LocalReach, NodeReach
from sentinel.launcher.ready_keeper import ReadyKeeper
from sentinel.launcher.reserve import Reserve
from sentinel.launcher.reserve_start import StartThread
from sentinel.launcher.slurm.settings import SlurmSettings, check_allocation
from sentinel.run_files.agent_orders import OrderBook


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """Where a launcher works, and for whom. `withheld`: environment variables of Sentinel's own that nothing it starts inherits.
    `supervises`: it works for the supervisor; else for somebody who only looks, and then it must cost nothing outside the run
    directory (no call to a scheduler). `hold`: of that supervisor's lease."""

    run_dir: str | os.PathLike[str]
    withheld: frozenset[str] = frozenset()
    supervises: bool = False
    hold: Hold = unheld


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """One launcher.

    kind: its name in run.json and on the command line. settings: a frozen dataclass whose fields are all `str`; a field without
    a default must be given. check: refuses a training command, run in a directory under these settings, that could never start,
    before there is a run (UsageError). capabilities: of `model.capabilities.MORE`, those that it has for every command.
    signals_all: it reaches ranks on every machine with a signal; else those of its own, if any.
    reach: its way to nodes, for checks of them; or why it has none.
    """

    kind: str
    summary: str
    settings: type
    build: Callable[[LaunchPlace, Any], Launcher]
    check: Callable[[tuple[str, ...], str, Any], None]
    capabilities: tuple[str, ...] = ()
    signals_all: bool = False
    reach: Callable[[LaunchPlace, Any], NodeReach] | str = "this launcher reaches no node"


def _reserve(place: LaunchPlace, settings: LocalSettings) -> Reserve | None:
    """For the supervisor alone: who only looks starts nothing."""
    is_kept = settings.warm == "on" and place.supervises
    return Reserve(Path(os.path.realpath(place.run_dir)), place.withheld) if is_kept else None


# A run on one machine need not import what speaks with a scheduler: 25 ms of each start.
def _slurm(place: LaunchPlace, settings: SlurmSettings) -> Launcher:
    from sentinel.launcher.slurm.steps import SlurmLauncher

    return SlurmLauncher(place.run_dir, settings, place.withheld, place.supervises, hold=place.hold)


def _slurm_reach(place: LaunchPlace, settings: SlurmSettings) -> NodeReach:
    from sentinel.launcher.slurm.reach import SlurmReach

    return SlurmReach(settings, place.withheld)


def _kubernetes(place: LaunchPlace, settings: KubernetesSettings) -> Launcher:
    from sentinel.launcher.kubernetes.jobsets import KubernetesLauncher

    return KubernetesLauncher(place.run_dir, settings, place.withheld, place.supervises, hold=place.hold)


def _check_cluster(command: tuple[str, ...], cwd: str, settings: KubernetesSettings) -> None:
    from sentinel.launcher.kubernetes.cluster_check import check_cluster

    check_cluster(command, cwd, settings)


LAUNCHERS = (
    LauncherRow(
        kind="local",
        summary="processes of this machine, kept by a small program that outlives sentinel",
        settings=LocalSettings,
        build=lambda place, settings: LocalLauncher(
            place.run_dir,
            withheld=place.withheld,
            reserve=_reserve(place, settings),
            direct=settings.direct == "on",
            ready=ReadyKeeper(place.withheld) if place.supervises else None,
        ),
        check=lambda command, cwd, settings: check_local(command, cwd, direct=settings.direct == "on"),
        reach=lambda place, _: LocalReach(place.withheld),
    ),
    LauncherRow(
        kind="command",
        summary="any scheduler, driven by three commands: start, status, stop",
        settings=CommandSettings,
        build=lambda place, settings: CommandLauncher(place.run_dir, settings, place.withheld, place.supervises, place.hold),
        check=lambda command, cwd, _: check_training_command(command, cwd),
        reach="the launcher 'command' knows no nodes: its checks need an agent on each node, or belong into the start command "
        "(docs/node-checks.md)",
    ),
    LauncherRow(
        kind="slurm",
        summary="steps of the Slurm job that sentinel runs in, found by their names",
        settings=SlurmSettings,
        build=_slurm,
        check=check_allocation,
        capabilities=("exclude",),
        signals_all=True,
        reach=_slurm_reach,
    ),
    LauncherRow(
        kind="kubernetes",
        summary="JobSets of a Kubernetes cluster, found by their names",
        settings=KubernetesSettings,
        build=_kubernetes,
        check=_check_cluster,
        capabilities=("exclude",),
        reach="the launcher 'kubernetes' runs no command on a node: its checks need an agent there, or belong into an init "
        "container (docs/node-checks.md)",
    ),
)
DEFAULT = "local"
SWITCHES = tuple(field.name for field in fields(LocalSettings))  # with a name of their own on the command line


def open_launcher(kind: str, options: Mapping[str, str], place: LaunchPlace) -> Launcher:
    """The launcher of a run. Raises UsageError for an unknown kind or option."""
    row = find_row(kind)
    return row.build(place, settings_of(row, options))


def with_agents(launcher: Launcher, kind: str, run_dir: Path, orders: OrderBook, hold: Hold = unheld) -> Launcher:
    """The same launcher, reaching on to nodes where there are agents."""
    return LauncherWithAgents(launcher, run_dir, orders, signals_all=find_row(kind).signals_all, hold=hold)


def open_reach(
    kind: str, options: Mapping[str, str], place: LaunchPlace, orders: OrderBook | None = None
) -> NodeReach | str:
    """The launcher's way to nodes, or why it has none. `orders`: through the agents there as well. Raises UsageError as
    `open_launcher`."""
    row = find_row(kind)
    own = row.reach if isinstance(row.reach, str) else row.reach(place, settings_of(row, options))
    return own if orders is None else AgentReach(own, Path(os.path.realpath(place.run_dir)), orders)


def made_ahead(launcher: Launcher, start_thread: StartThread | None, prepare: Callable[[], None] | None = None) -> MadeAhead:
    """What waits for this launcher's next attempt. `start_thread`, `prepare`: as in `MadeAhead`."""
    if not isinstance(launcher, LocalLauncher):
        return MadeAhead(prepare=prepare)
    return MadeAhead(launcher.ready, launcher.reserve, start_thread, prepare)


def find_row(kind: str) -> LauncherRow:
    """Raises UsageError that names the nearest launcher."""
    for row in LAUNCHERS:
        if row.kind == kind:
            return row
    raise UsageError(f"--launcher {kind}: no such launcher; {_remedy(kind, [row.kind for row in LAUNCHERS])}")


def settings_of(row: LauncherRow, options: Mapping[str, str]) -> Any:
    """The launcher's settings from NAME → text. Raises UsageError for an unknown or a missing name."""
    known: dict[str, Field[Any]] = {field.name: field for field in fields(row.settings)}
    for name in options:
        if name not in known:
            if name in SWITCHES:
                words = f"--{name} (--launcher-option {name}=…): the launcher {row.kind!r} has no such option"
                raise UsageError(f"{words}; only the launcher 'local' has it: leave it out")
            remedy = _remedy(name, list(known)) if known else "it has none"
            raise UsageError(f"--launcher-option {name}: the launcher {row.kind!r} has no such option; {remedy}")
    for name, field in known.items():
        if name not in options and field.default is MISSING and field.default_factory is MISSING:
            raise UsageError(f"--launcher {row.kind}: needs --launcher-option {name}=…")
    try:
        return row.settings(**options)
    except ValueError as error:
        raise UsageError(f"the launcher {row.kind!r}: {error}") from None


def describe_options(row: LauncherRow) -> str:
    """The launcher's options for people, each with its default: `start, every=5s`."""
    words = (field.name if field.default is MISSING else f"{field.name}={field.default}" for field in fields(row.settings))
    return ", ".join(words)


def parse_options(words: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping. Raises UsageError for a word of another form, or a name that comes twice."""
    options: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--launcher-option {word}: write it NAME=VALUE")
        if name in options:
            raise UsageError(f"--launcher-option {name}: is given twice; give it once")
        options[name] = value
    return options


def _remedy(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    listed = f"use one of {', '.join(known)}"
    return f"did you mean {near[0]}? ({listed})" if near else listed
