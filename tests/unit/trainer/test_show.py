"""A sample shown to a person: its text, whether a fault replaced it, and a sentence for everything that is not there."""

import json

import pytest

from trainer.data.__main__ import main as prepare
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


def test_a_sample_of_prepared_data_is_shown_as_text_with_its_place(run_dir, tmp_path, capsys):
    (tmp_path / "book.txt").write_text("".join(f"line {number} of a book\n" for number in range(2000)))
    data = tmp_path / "data"
    assert prepare(["prepare", str(tmp_path / "book.txt"), "--out", str(data), "--tokenizer", "train:300"]) == 0
    spec = run_dir / "attempts" / "0001" / "spec.json"
    settings = ["--set", f"data.path={data}", "model.vocab_size=300", "data.seq_len=64"]
    spec.write_text(json.dumps({"v": 1, "attempt": 1, "argv": ["python", "-m", "trainer", "--preset", "micro", *settings]}))
    capsys.readouterr()
    assert main([str(run_dir), "--sample", "3"]) == 0
    header, text = capsys.readouterr().out.split("\n", 1)
    assert header.startswith("sample 3: 65 tokens from book.txt, token ")
    assert " of a book\nline " in text


def test_what_is_not_there_is_a_sentence(run_dir, tmp_path, capsys):
    for words in (
        [str(run_dir), "--sample", "-1"],
        [str(tmp_path / "no"), "--sample", "1"],
        [str(run_dir), "--sample", "1", "--attempt", "9"],
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("trainer.show: ")
