"""While a plan that ends in a launch is carried out, what that launch would wait for is made ready: a keeper that is up, and the
record of what the attempt runs. Nothing of it starts an attempt or changes one. A plan that is dropped leaves a keeper that
waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sentinel.actions.runner import ACTS, Found, Handler, StartThread, lane_of, start_daemon
from sentinel.client import masking
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.journal import codec
from sentinel.launcher.environment import LaunchQuestion, read_for_launch
from sentinel.launcher.made_ahead import MadeAhead
from sentinel.launcher.read_ahead import ReadAhead
from sentinel.model.actions import Action
from sentinel.model.environment import Environment
from sentinel.model.state import RunState
from sentinel.supervisor.ruled import Ruled


def prepare() -> None:
    """What the supervisor itself builds when it is first used, and a first recovery would wait for."""
    codec.prepare()
    masking.prepare()


class BeforeLaunch:
    """Of one run. `state`: the engine's, now. `withheld`: variables that nothing inherits. `start_thread`: as in `Reserve`.

    The words of a trainer under a profile are made for each launch, and what it runs is read there."""

    def __init__(
        self,
        made: MadeAhead,
        ruled: Ruled,
        state: Callable[[], RunState],
        withheld: frozenset[str],
        start_thread: StartThread | None,
    ) -> None:
        run = ruled.run_file
        question = LaunchQuestion(run.command, run.cwd, run.code, (ruled.run_dir / CHECKPOINTS,), withheld)
        self._ahead = None if ruled.profile is not None else ReadAhead(question, start_thread or start_daemon)
        self._made = made
        self._state = state

    def read(self, question: LaunchQuestion) -> Environment:
        """What an attempt runs, for its launch."""
        return read_for_launch(question) if self._ahead is None else self._ahead.environment(question)

    def around(self, handlers: Mapping[type[Action], Handler]) -> Mapping[type[Action], Handler]:
        """The same acts; each of such a plan begins to make the launch ready before it does its own."""
        return {kind: self._with(handler) for kind, handler in handlers.items()}

    def _with(self, handler: Handler) -> Handler:
        def act(action: Action) -> Found:
            if lane_of(action) == ACTS and leads_to_launch(self._state()):
                self._made.begin()
                if self._ahead is not None:
                    self._ahead.begin()
            return handler(action)

        return act


def leads_to_launch(state: RunState) -> bool:
    """Whether what is being carried out ends in a launch."""
    return state.plan is not None and not state.plan.is_live
