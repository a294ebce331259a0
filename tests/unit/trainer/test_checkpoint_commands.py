"""python -m trainer.checkpoint, in this process: what it prints and with what it leaves."""

import json
import subprocess
import sys

import pytest
import torch

from sentinel.client import Resume
from trainer import checkpoint
from trainer.checkpoint.__main__ import main
from trainer.checkpoint.saving import Saver
from trainer.config import Config
from trainer.config.loading import changed


@pytest.fixture
def run(tmp_path, world):
    """Steps 4 and 8: `one` moved by half its norm, `two` not at all, and the learning rate was changed between."""
    saver = Saver(tmp_path, world, lambda: True)
    for step, config, scale in ((4, Config(), 1.0), (8, changed(Config(), optim={"lr": 1e-4}), 1.5)):
        state = {"model.one": torch.full((3, 4), 2.0 * scale), "model.two": torch.ones(5), "adam.step": torch.tensor(step)}
        metrics = {"loss": 5.0 / scale, "param_norm": 7.0 * scale}
        details = {"config": config.model_dump(mode="json"), "metrics": metrics, "padded_vocab": 256}
        saver.save(step, state, {"time_s": 1.7e9, "attempt": 3, "world_size": 1, **details})
    saver.wait()
    return tmp_path


def damage(run, step):
    path = run / "checkpoints" / checkpoint.name_of(step) / "__0_0.distcp"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_list_tells_every_step_in_a_table_and_to_programs(run, capsys):
    assert main(["list", str(run)]) == 0
    head, four, eight = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "saved", "bytes", "attempt", "parent", "ranks", "loss", "state"]
    assert four.split()[-5:] == ["3", "-", "1", "5.0000", "complete"]
    assert eight.split()[-5:] == ["3", "4", "1", "3.3333", "complete"]
    assert main(["list", str(run / "checkpoints"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["step"], row["parent"], row["world_size"], row["ok"]) for row in rows] == [(4, None, 1, True), (8, 4, 1, True)]


def test_a_flipped_bit_shows_when_every_byte_is_read(run, capsys):
    damage(run, 8)
    assert main(["list", str(run)]) == 0
    assert capsys.readouterr().out.splitlines()[2].endswith("complete"), "sizes alone do not tell"
    assert main(["list", str(run), "--verify"]) == 0
    assert "__0_0.distcp does not match its digest" in capsys.readouterr().out.splitlines()[2]
    assert main(["verify", str(run)]) == 1
    held, broken = capsys.readouterr().out.splitlines()
    assert held == "step 4: every byte holds"
    assert broken.startswith("step 8: DOES NOT HOLD: __0_0.distcp does not match its digest")
    assert main(["verify", str(run), "--step", "4"]) == 0


def test_a_short_file_and_a_missing_manifest_show_without_reading(run, capsys):
    checkpoints = run / "checkpoints"
    (checkpoints / "step-00000004" / "manifest.json").unlink()
    (checkpoints / "step-00000008" / "__0_0.distcp").write_bytes(b"short")
    main(["list", str(run)])
    _, four, eight = capsys.readouterr().out.splitlines()
    assert four.endswith("manifest.json cannot be read (No such file or directory)")
    assert "(5 bytes, " in eight


def test_diff_tells_settings_numbers_and_what_moved_most(run, capsys):
    assert main(["diff", str(run), "4", "8", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["config"] == {"optim.lr": [2e-3, 1e-4]}
    assert output["numbers"]["param_norm"] == [7.0, 10.5]
    assert list(output["moved"].items()) == [("one", pytest.approx(0.5)), ("two", 0.0)]
    assert main(["diff", str(run), "4", "8"]) == 0
    assert "optim.lr: 0.002 → 0.0001" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["list", "nowhere"], 4, "nowhere/checkpoints: there is no such directory"),
        (["diff", "RUN", "4", "5"], 4, "has no checkpoint of step"),
        (["list"], 3, "required: RUN_DIR"),
        (["diff", "RUN", "4", "x"], 3, "invalid int value: 'x'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, capsys, words, code, says):
    assert main([str(run) if word == "RUN" else word for word in words]) == code
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


def test_looking_loads_no_torch(run):
    code = (
        "import sys; from trainer.checkpoint.__main__ import main\n"
        "codes = [main([word, sys.argv[1]]) for word in ('list', 'verify')]\n"
        "assert codes == [0, 0] and 'torch' not in sys.modules, codes"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], check=True, timeout=60, capture_output=True)


def test_the_padding_of_a_run_is_read_from_whatever_manifest_can_be_read(run, tmp_path):
    asked = Resume(8, "checkpoints/step-00000008", "0" * 64)
    assert checkpoint.stored_padding(run, asked) == 256
    (run / "checkpoints" / "step-00000008" / "manifest.json").write_text("{")
    assert checkpoint.stored_padding(run, asked) == 256
    assert checkpoint.stored_padding(run / "elsewhere", None) is None
