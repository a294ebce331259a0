"""A sample shown to a person: its text, whether a fault replaced it, and a sentence for everything that is not there."""

import json

import pytest

from trainer.show import main


@pytest.fixture
def run_dir(tmp_path):
    argv = ["python", "-m", "trainer", "--preset", "micro", "--fault", "bad_data@sample=10-20", "--fault", "kill@step=3"]
    folder = tmp_path / "attempts" / "0001"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"v": 1, "attempt": 1, "argv": argv}))
    return tmp_path


def test_a_poisoned_sample_is_shown_as_it_was_trained_on(run_dir, capsys):
    assert main([str(run_dir), "--sample", "10"]) == 0
    assert "; poisoned by a --fault" in capsys.readouterr().out
    assert main([str(run_dir), "--sample", "9"]) == 0
    assert "poisoned" not in capsys.readouterr().out


def test_what_is_not_there_is_a_sentence(run_dir, tmp_path, capsys):
    for words in (
        [str(run_dir), "--sample", "-1"],
        [str(tmp_path / "no"), "--sample", "1"],
        [str(run_dir), "--sample", "1", "--attempt", "9"],
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("trainer.show: ")
