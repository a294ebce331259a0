"""A whole run of the trainer in the test's own process, over the world of one rank that the tests share."""

import json
import signal

from trainer import train as training
from trainer.command_line import parse_arguments


def train_here(world, monkeypatch, out_dir, *words, session=None):
    """Train to the end; the Run as it is then, and its step lines. The process' signal handler and the modules are left as
    they were. With a `session` it is the attempt of a supervised run, in the session's run directory."""
    runs = []
    build = training.build_run
    monkeypatch.setattr(training, "join_world", lambda *_: world)
    monkeypatch.setattr(training, "build_run", lambda *given: runs.append(build(*given)) or runs[-1])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert training.train(parse_arguments([*words, "--out-dir", str(out_dir)]), session) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
        monkeypatch.undo()
    stream = out_dir / "metrics.jsonl" if session is None else session.metrics_path
    lines = [json.loads(line) for line in stream.read_text().splitlines()]
    return runs[0], [line for line in lines if line["kind"] == "step"]
