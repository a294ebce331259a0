"""The channels there are, one row each. To add one: a module with its settings and its `deliver`, and a row here.

Reading this module completes the policy language: `Route` has a key for each row, and `sentinel.policy.schema.Policy` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.channels import (
    alertmanager,
    apprise,
    command,
    email,
    pagerduty,
    slack,
    slack_bot,
    teams,
    terminal,
    webhook,
)
from sentinel.channels.alertmanager_keeper import AlertmanagerKeeper
from sentinel.channels.row import ChannelRow, ShortForm
from sentinel.policy.schema import with_channels

ROWS: tuple[ChannelRow[Any], ...] = (
    ChannelRow(
        kind="terminal",
        settings=terminal.TerminalRoute,
        about="Print the page.",
        build=lambda _settings, _vault, run_dir: terminal.Terminal(run_dir),
        short_form=ShortForm("terminal", terminal.short_form),
    ),
    ChannelRow(
        kind="pagerduty",
        settings=pagerduty.PagerDutyRoute,
        about="PagerDuty.",
        closes_first=True,
        build=lambda settings, vault, _run_dir: pagerduty.PagerDuty(settings, vault),
        problems=pagerduty.problems,
        short_form=ShortForm("pagerduty[=URL]", pagerduty.short_form, pagerduty.KEY_VARIABLE),
    ),
    ChannelRow(
        kind="alertmanager",
        settings=alertmanager.AlertmanagerRoute,
        about="Prometheus Alertmanager.",
        build=lambda settings, vault, _run_dir: alertmanager.Alertmanager(settings, vault),
        problems=alertmanager.problems,
        short_form=ShortForm("alertmanager=URL", alertmanager.short_form),
        keeper=AlertmanagerKeeper,
    ),
    ChannelRow(
        kind="slack",
        settings=slack.SlackRoute,
        about="Slack.",
        build=slack_bot.open_slack,
        short_form=ShortForm("slack", slack.short_form, slack.WEBHOOK_VARIABLE),
    ),
    ChannelRow(
        kind="teams",
        settings=teams.TeamsRoute,
        about="Microsoft Teams.",
        build=lambda settings, vault, _run_dir: teams.Teams(settings, vault),
        short_form=ShortForm("teams", teams.short_form, teams.WEBHOOK_VARIABLE),
    ),
    ChannelRow(
        kind="webhook",
        settings=webhook.WebhookRoute,
        about="Any HTTP server.",
        build=lambda settings, vault, _run_dir: webhook.Webhook(settings, vault),
        problems=webhook.problems,
        short_form=ShortForm("webhook=URL", webhook.short_form, webhook.SECRET_VARIABLE),
    ),
    ChannelRow(
        kind="email",
        settings=email.EmailRoute,
        about="Mail.",
        build=lambda settings, vault, _run_dir: email.Mail(settings, vault),
    ),
    ChannelRow(
        kind="command",
        settings=command.CommandRoute,
        about="A program.",
        build=lambda settings, _vault, _run_dir: command.Command(settings),
        problems=command.problems,
        short_form=ShortForm("'command=PROGRAM WORDS'", command.short_form),
    ),
    ChannelRow(
        kind="apprise",
        settings=apprise.AppriseRoute,
        about="Apprise.",
        build=lambda settings, vault, _run_dir: apprise.Apprise(settings, vault),
        problems=apprise.problems,
    ),
)
CHANNELS: Mapping[str, ChannelRow[Any]] = {row.kind: row for row in ROWS}
Route = with_channels(ROWS, __name__)
