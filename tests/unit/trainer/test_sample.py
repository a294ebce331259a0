import pytest
import torch

from tests.unit.trainer.in_process import train_here
from trainer import sample
from trainer.checkpoint.verifying import list_steps
from trainer.model.generation import generate
from trainer.model.gpt import Output


class Counting:
    """A model of tokens 0 to 5, padded to 8: it is sure of the number after the last one, and surest of a padding row."""

    longest = 4

    class model:
        vocab_size = 6

    def __call__(self, tokens):
        assert tokens.shape[1] <= self.longest
        logits = torch.zeros(1, tokens.shape[1], 8)
        logits[0, -1, (tokens[0, -1] + 1) % 6] = 20.0
        logits[0, -1, 7] = 99.0
        return Output(logits, torch.zeros(1, 2))


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_likeliest_come_and_never_a_row_of_padding():
    prompt = torch.tensor([2, 3])
    counted = [2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    assert generate(Counting(), prompt, 8, dice(), temperature=0).tolist() == counted
    assert generate(Counting(), prompt, 8, dice(), temperature=1.0, top_k=0).tolist() == counted
    hot = generate(Counting(), prompt, 200, dice(), temperature=50.0, top_k=0)
    assert set(hot.tolist()) == set(range(6))
    assert generate(Counting(), prompt, 50, dice(), temperature=50.0, top_k=1).tolist()[:10] == counted


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    place = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        words = "schedule.steps=30", "data.batch_size=8", "data.seq_len=32", "evaluation.batches=1", "checkpoint.every=20"
        run, _ = train_here(world, patch, place, "--preset", "micro", "--set", *words, "model.dropout=0.5")
    return place, run


def printed(capsys, place, *words):
    code = sample.main([str(place), *words])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_a_seed_writes_its_own_text_twice(trained, capsys):
    place, _ = trained
    capsys.readouterr()
    code, first, _ = printed(capsys, place, "--tokens", "60", "--prompt", "def ")
    assert code == 0
    assert first.startswith("step 30, training loss ")
    assert "\ndef " in first
    assert printed(capsys, place, "--tokens", "60", "--prompt", "def ")[1] == first
    assert printed(capsys, place, "--tokens", "60", "--prompt", "def ", "--seed", "2")[1] != first
    assert printed(capsys, place, "--step", "20", "--tokens", "3")[1].startswith("step 20")


def test_the_model_is_the_one_that_was_trained(trained):
    place, run = trained
    found = sample.newest(place)
    model = sample.model_of(found, sample.settings_of(found), torch.device("cpu"))
    tokens = torch.arange(32)[None]
    run.model.eval()
    for name, shard in run.optimizer.shards.items():
        assert torch.equal(model.get_parameter(name), shard), name
    with torch.no_grad():  # it is read on plain PyTorch, whatever kernels trained it
        torch.testing.assert_close(model(tokens).logits, run.model(tokens).logits, rtol=1e-5, atol=1e-5)
    run.model.train()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--step", "7"], 4, "has no checkpoint of step 7; there are 20, 30"),
        (["--prompt", ""], 3, "--prompt '': one token at least"),
        (["--temperature", "-1"], 3, "'-1' is not a number from 0 to 100"),
        (["--tokens", "0"], 3, "'0' is not a number from 1"),
        (["--nonsense"], 3, "unrecognized arguments: --nonsense"),
        (["--data", "/nowhere"], 4, "/nowhere"),
    ],
)
def test_a_bad_wish_is_one_sentence(trained, capsys, words, code, says):
    place, _ = trained
    capsys.readouterr()
    left, out, err = printed(capsys, place, *words)
    assert (left, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


def test_where_nothing_holds_the_newest_wrong_one_is_named(trained, capsys, tmp_path):
    place, _ = trained
    assert "there is no such directory" in printed(capsys, tmp_path)[2]
    for step in list_steps(place / "checkpoints"):
        broken = tmp_path / "checkpoints" / f"step-{step:08d}"
        broken.mkdir(parents=True)
        (broken / "manifest.json").write_text("{")
    left, _, err = printed(capsys, tmp_path)
    assert left == 4
    assert "holds no checkpoint that can be read; the newest:" in err
