"""The real Prometheus reads what sentinel exports, and its rules tell that sentinel itself is gone, in each of its two ways."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sentinel.client.run_layout import LEASE_NAME
from sentinel.metrics.exposition import exposition
from sentinel.report.following import FollowedRun
from tests.integration.prometheus_kit import Exporter, Prometheus, needs_prometheus
from tests.integration.supervised import DEADLINE_S, wait_for
from tests.unit.told_run import write_run, write_stream


class Loop:
    """Renews the lease as a living supervisor's does; one that has hung did so an hour ago, and nothing else is different."""

    def __init__(self, run_dir: Path) -> None:
        self._lease = run_dir / LEASE_NAME
        self.hangs = False

    def turn(self) -> None:
        now_s = time.time() - 3600.0 * self.hangs
        os.utime(self._lease, (now_s, now_s))


@needs_prometheus
def test_prometheus_hears_the_heartbeat_and_tells_when_it_stops_and_when_nobody_exports(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "big", until=60)
    write_stream(run_dir, 2, [101, 102], loss=float("nan"))
    ended = write_run(tmp_path / "over")
    os.utime(ended / LEASE_NAME, (1e9, 1e9))
    runs = [FollowedRun(run_dir), FollowedRun(ended)]
    loop = Loop(run_dir)

    def scraped() -> bytes:
        loop.turn()
        return exposition([run.refresh() for run in runs])

    exporter = Exporter(scraped)
    prometheus = Prometheus(tmp_path / "prometheus", exporter.port)
    try:
        alive = wait_for("heartbeat", lambda: prometheus.query("sentinel_heartbeat_timestamp_seconds"))
        assert alive.keys() == {"big", "over"}
        assert abs(alive["big"] - time.time()) < DEADLINE_S
        assert prometheus.query("sentinel_loss != sentinel_loss").keys() == {"big"}
        assert prometheus.query('sentinel_run_state{state="finished"} == 1').keys() == {"over"}
        wait_for("a judgement of every rule", lambda: prometheus.judged())
        assert "SentinelGone" not in {alert for alert, _ in prometheus.firing()}
        loop.hangs = True
        wait_for("the dead man's alert", lambda: ("SentinelGone", "big") in prometheus.firing())
        assert ("SentinelGone", "over") not in prometheus.firing(), "a run that is over needs nobody"
        assert "SentinelMetricsDown" not in {alert for alert, _ in prometheus.firing()}
        exporter.close()
        wait_for("word that nobody exports", lambda: "SentinelMetricsDown" in {alert for alert, _ in prometheus.firing()})
        wait_for("word that nothing is known", lambda: "SentinelAbsent" in {alert for alert, _ in prometheus.firing()})
    finally:
        prometheus.close()
