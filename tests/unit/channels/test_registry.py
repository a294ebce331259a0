"""A channel is one room: a pretend one, made here of its settings, its `deliver` and a row, is known everywhere at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from sentinel.channels import opening, registry
from sentinel.channels.notice import Notice
from sentinel.channels.opening import check_paging, open_channel, secret_variables
from sentinel.channels.registry import ROWS
from sentinel.channels.row import ChannelRow, ShortForm
from sentinel.channels.secrets import Vault
from sentinel.errors import UsageError
from sentinel.paging import asked
from sentinel.paging.asked import lay_routes
from sentinel.policy.schema import use_route, with_channels
from sentinel.policy.schema_paging import RouteSettings, Secret
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.policy_files.schema_json import policy_json_schema
from tests.unit.channels.notices import notice
from tests.unit.policy.policies_in_words import GOOD, data_with, located, policy_with


class PigeonRoute(RouteSettings):
    """A bird."""

    coop: Secret
    """Where it lives, which is nobody's business."""


class Pigeon:
    def __init__(self, settings: PigeonRoute, vault: Vault) -> None:
        self._coop = vault.read(settings.coop)

    def deliver(self, notice: Notice) -> str:
        return f"{notice.stage} flew from {self._coop}"


ROW: ChannelRow[PigeonRoute] = ChannelRow(
    kind="pigeon",
    settings=PigeonRoute,
    about="Over the sea.",
    closes_first=True,
    build=lambda settings, vault, _run_dir: Pigeon(settings, vault),
    short_form=ShortForm("pigeon", lambda value, environ: {"coop": Secret(env="COOP")}),
)


@pytest.fixture
def pigeon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rows = (*ROWS, ROW)
    route = with_channels(rows, __name__)
    for module in (registry, opening, asked):
        monkeypatch.setattr(module, "CHANNELS", {row.kind: row for row in rows})
    monkeypatch.setattr(asked, "Route", route)
    yield
    use_route(registry.Route)  # the very class: policies that were read before must still be its instances


@pytest.mark.usefixtures("pigeon")
def test_a_row_is_all_that_a_channel_needs() -> None:
    paging = policy_with(paging={"routes": [{"pigeon": {"coop": {"env": "COOP"}}}]}).spec.paging
    (route,) = paging.routes
    assert (route.kind, route.name, route.closes_first) == ("pigeon", "pigeon", True)
    assert secret_variables(paging) == {"COOP"}
    assert open_channel(route, None, {"COOP": "the-long-barn"}).deliver(notice()) == "trigger flew from (hidden)"
    with pytest.raises(UsageError, match="route pigeon: the environment variable COOP is not set"):
        check_paging(paging, {})


@pytest.mark.usefixtures("pigeon")
def test_the_policys_schema_and_its_errors_know_it() -> None:
    definitions = policy_json_schema()["$defs"]
    assert definitions["Route"]["properties"]["pigeon"]["description"] == "Over the sea."
    assert "coop" in definitions["PigeonRoute"]["properties"]
    (problem,) = located(GOOD.replace("spec:\n", "spec:\n  paging: {routes: [{pigeons: {}}]}\n", 1))
    assert problem.message == "pigeons is no channel"
    assert problem.remedy.startswith("did you mean 'pigeon'? write one of terminal, ")


@pytest.mark.usefixtures("pigeon")
def test_the_command_line_knows_it() -> None:
    policy = load_policy(shipped_policy_path("demo"))
    assert [route.kind for route in lay_routes(policy, ["pigeon"], {}).spec.paging.routes] == ["terminal", "pigeon"]
    with pytest.raises(UsageError, match=r"--page pigeo: is none of .*, pigeon; did you mean 'pigeon'\?"):
        lay_routes(policy, ["pigeo"], {})


def test_afterwards_it_is_gone() -> None:
    with pytest.raises(ValueError, match="pigeon is no channel"):
        policy_with(paging={"routes": [{"pigeon": {"coop": {"env": "COOP"}}}]})
    assert data_with()["spec"], "and the language is whole"


def test_each_row_says_what_it_is() -> None:
    assert len({row.kind for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert issubclass(row.settings, RouteSettings)
        assert row.about.endswith(".")
        assert row.short_form is None or row.kind in row.short_form.usage


def test_a_policy_with_routes_goes_to_another_process_and_back() -> None:
    """`sentinel replay` reads several logs in processes of its own."""
    policy = load_policy(shipped_policy_path("default"))
    assert pickle.loads(pickle.dumps(policy)) == policy
