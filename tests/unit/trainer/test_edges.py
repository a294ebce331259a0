"""What a person gets wrong at the edges of the trainer: each ends in one sentence, before anything is overwritten."""

import os
from dataclasses import replace

import pytest

from trainer.command_line import check_out_dir
from trainer.exits import ConfigError, DataError, NonFiniteError, SaveError, account_of


def test_a_run_does_not_begin_anew_among_the_checkpoints_of_another(launch, tmp_path):
    check_out_dir(launch)
    (tmp_path / "checkpoints" / "step-00000500").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"of an earlier run, the newest of step 500; add --resume"):
        check_out_dir(launch)
    check_out_dir(replace(launch, resume=True))


def test_a_place_that_cannot_be_written_is_refused_before_training(launch, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(ConfigError, match=rf"--out-dir .*{place}: .*file is no directory"):
            check_out_dir(replace(launch, out_dir=tmp_path / place))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"], "nothing is made yet"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written by this user"):
        check_out_dir(launch)


def test_only_what_nobody_foresaw_is_told_with_a_traceback():
    for error in (ConfigError("so"), DataError("so"), NonFiniteError("so"), SaveError("so")):
        assert account_of(error) == "trainer: so"
    lost = RuntimeError("[../gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1\nmore of it")
    assert account_of(lost).startswith("trainer: another rank left")
    assert "Traceback" not in account_of(KeyboardInterrupt())
    for error in (lost, KeyboardInterrupt()):
        assert len(account_of(error).splitlines()) == 1
    assert "ValueError: unforeseen" in account_of(ValueError("unforeseen"))
    assert "peer" not in account_of(RuntimeError("NCCL error: unhandled system error"))
