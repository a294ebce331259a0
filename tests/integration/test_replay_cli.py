"""`sentinel replay` and `sentinel watch` as a person types them: every kind of file ends in a result or in a sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch
from xml.etree import ElementTree

import pytest

from sentinel.cli import main
from tests.unit.telemetry.event_kit import file_version, scalar

KEYS = {
    "file", "kind", "severity", "onset_step", "detected_step", "resolved_step", "benign", "intervened", "remedy", "reason",
}  # fmt: skip
DEADLINE_S = 60.0
# The command, and the peak of its memory on stderr. What `wait4` knows begins with the memory of the process that forked it.
AND_ITS_PEAK = """
import atexit, sys
from sentinel.cli import main
peak = lambda: next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
atexit.register(lambda: sys.stderr.write(peak()))
main()
"""


def sentinel(*words: object) -> subprocess.CompletedProcess[str]:
    """As the program, without the second that Python needs to load it."""
    out, err = io.StringIO(), io.StringIO()
    command = ["sentinel", *map(str, words)]
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", command), pytest.raises(SystemExit) as left:
        main()
    return subprocess.CompletedProcess(command, int(left.value.code or 0), out.getvalue(), err.getvalue())


def program(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sentinel", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def rows(count: int, spike: int = 0, seed: int = 1) -> list[tuple[int, float]]:
    dice = random.Random(seed)
    return [(n, 2.0 + 3.0 / n + dice.gauss(0.0, 0.02) + 3.0 * (spike <= n < spike + 9)) for n in range(1, count + 1)]


def write_csv(path: Path, count: int = 1200, spike: int = 0) -> Path:
    path.write_text("step,loss\n" + "".join(f"{step},{loss:.5f}\n" for step, loss in rows(count, spike)))
    return path


def write_metrics(path: Path, spike: int) -> Path:
    lines = [{"kind": "start", "v": 1, "resume_step": 0}, *({"step": step, "loss": loss} for step, loss in rows(1200, spike))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_megatron(path: Path, spike: int) -> Path:
    lines = ["using world size: 8\n" * 3000]
    for step, loss in rows(1200, spike):
        fields = f"elapsed time per iteration (ms): 500.0 | lm loss: {loss:.6E} | grad norm: 0.5 |"
        lines.append(f" iteration {step:8d}/  100000 | {fields}\n")
    path.write_text("".join(lines))
    return path


def write_events(folder: Path, spike: int) -> Path:
    folder.mkdir()
    data = b"".join(scalar(step, "lm loss", loss) for step, loss in rows(1200, spike))
    (folder / "events.out.tfevents.1700000000.host").write_bytes(file_version() + data)
    return folder


def write_state(path: Path, spike: int) -> Path:
    history = [{"step": step, "loss": loss, "grad_norm": 0.5, "epoch": 0.1} for step, loss in rows(1200, spike)]
    path.write_text(json.dumps({"global_step": 1200, "log_history": history}, indent=2))
    return path


def findings(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_format_gives_the_same_finding(tmp_path: Path) -> None:
    paths = [
        write_csv(tmp_path / "log.csv", spike=900),
        write_metrics(tmp_path / "metrics.jsonl", 900),
        write_megatron(tmp_path / "stdout.txt", 900),
        write_events(tmp_path / "events", 900),
        write_state(tmp_path / "trainer_state.json", 900),
    ]
    done = program("replay", "--json", *paths)
    found = findings(done)
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["file"] for one in found] == [str(path) for path in paths]
    for one in found:
        assert set(one) == KEYS
        assert (one["kind"], one["severity"], one["onset_step"], one["benign"]) == ("spike", "warning", 900, True)


def test_the_table_is_for_people_and_the_pictures_are_drawn(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", spike=900)
    done = sentinel("replay", "--plot", tmp_path / "plots", log)
    assert done.returncode == 0
    assert re.search(r"warning +spike +900 +90\d +9\d\d +none: it healed", done.stdout)
    assert "1 log read, 1,200 rows: 1 alarm, 0 with a remedy" in done.stdout
    ElementTree.parse(tmp_path / "plots" / "log.csv.svg")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("binary.csv", bytes(range(256)) * 500, "a binary file"),
        ("noise.csv", random.Random(1).randbytes(70_000), "a binary file"),
        ("prose.txt", b"once upon a time\n" * 9, "not recognised as a log"),
        ("numbers.csv", b"1,2\n3,4\n", "numbers and no names"),
        ("endless.csv", b"x" * 3_000_000, "not recognised as a log"),
    ],
)
def test_what_is_no_log_ends_with_1_and_a_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = sentinel("replay", "--json", tmp_path / name)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(tmp_path / name) in done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_one_file_that_is_missing_does_not_keep_the_others(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", spike=900)
    done = sentinel("replay", "--json", tmp_path / "gone.csv", log)
    assert (done.returncode, len(findings(done))) == (1, 1)
    assert "gone.csv: No such file" in done.stderr


def test_a_format_that_was_named_wrongly_is_read_as_damage(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv")
    for name in ("metrics", "megatron", "tensorboard", "trainer-state"):
        done = sentinel("replay", "--format", name, log)
        assert "log.csv" in done.stderr, name
        assert "Traceback" not in done.stderr, name


def test_a_directory_is_walked_and_what_is_no_log_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "runs" / "b").mkdir(parents=True)
    log = write_csv(tmp_path / "runs" / "b" / "log.csv", spike=900)
    write_events(tmp_path / "runs" / "a", 900)
    (tmp_path / "runs" / "labels.csv").write_text("file,label\nx,healthy\n")
    (tmp_path / "runs" / "empty.log").touch()
    done = sentinel("replay", "--json", tmp_path / "runs")
    assert done.returncode == 0
    assert [one["file"] for one in findings(done)] == [str(tmp_path / "runs" / "a"), str(log)]
    assert done.stderr.count("passed over") == 2
    (tmp_path / "nothing").mkdir()
    done = sentinel("replay", tmp_path / "nothing")
    assert (done.returncode, "a directory without" in done.stderr) == (1, True)


def test_everything_that_is_no_plain_file_ends_in_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "back").symlink_to(tmp_path / "round")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        words = {
            "fifo": "not a regular file", "s": "not a regular file", "/dev/zero": "not a regular file",
            "loop": "Too many levels", "round": "a directory without", "gone/log.csv": "No such file", "x" * 300: "name too long",
        }  # fmt: skip
        done = sentinel("replay", *(tmp_path / name for name in words))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    for name, word in words.items():
        assert any(name in line and word in line for line in done.stderr.splitlines()), (name, done.stderr)
    assert "0 logs read" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    write_csv(tmp_path / "log.csv").chmod(0)
    done = sentinel("replay", tmp_path / "log.csv")
    assert (done.returncode, "log.csv: Permission denied" in done.stderr) == (1, True)


def test_logs_in_odd_dress_are_read_all_the_same(tmp_path: Path) -> None:
    """Returns, a mark at the start, Latin-1, a torn last line, semicolons, steps as floats, gzip: the same finding in each."""
    plain = write_csv(tmp_path / "plain.csv", spike=900).read_bytes()
    dresses = {
        "returns.csv": plain.replace(b"\n", b"\r\n"),
        "mark.csv": b"\xef\xbb\xbf" + plain,
        "latin.csv": plain.replace(b"step,loss", b"step,loss,caf\xe9")
        .replace(b"\n", b",\xe9\n")
        .replace(b"caf\xe9,\xe9", b"caf\xe9"),
        "torn.csv": plain + b"1201,2.0",
        "semicolons.csv": plain.replace(b".", b"@").replace(b",", b";").replace(b"@", b","),
        "floats.csv": re.sub(rb"(?m)^(\d+),", rb"\1.0,", plain),
        "packed.csv.gz": gzip.compress(plain),
        "wild.csv": plain.replace(b"\n500,", b"\n-1,2.0\n500,").replace(b"\n600,", b"\n599,2.0\n600,"),
        "printed.log": re.sub(rb"(?m)^(\d+),", rb"iter \1: loss ", plain.partition(b"\n")[2]),
    }
    for name, content in dresses.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in dresses]
    done = sentinel("replay", "--json", *paths)
    assert done.returncode == 0, done.stderr
    found = findings(done)
    assert [(one["file"], one["kind"], one["onset_step"]) for one in found] == [(str(path), "spike", 900) for path in paths]


def test_exit_codes(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv")
    assert program("replay", log).returncode == 0
    assert program("replay", log, tmp_path / "gone").returncode == 1
    for words in (["--format", "excel", log], ["--policy", tmp_path / "gone.yaml", log], [], ["--nonsense", log]):
        done = sentinel("replay", *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), words


def test_a_run_is_compared_with_another(tmp_path: Path) -> None:
    known = write_csv(tmp_path / "known.csv")
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{n},{loss + 1.8}\n" for n, loss in rows(1200, seed=2)))
    done = sentinel("replay", "--json", "--reference", known, log, log)
    assert [one["kind"] for one in findings(done)] == ["behind_reference"]
    assert "known.csv had 2" in findings(done)[0]["reason"]
    assert findings(sentinel("replay", "--json", "--reference", log, known)) == []
    done = sentinel("replay", "--reference", tmp_path / "gone.csv", log)
    assert (done.returncode, "gone.csv: No such file" in done.stderr) == (2, True)
    policy = tmp_path / "mine.yaml"
    text = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text()
    policy.write_text(text.replace("behind_reference: {", "behind_reference: {reference: gone.csv, "))
    for words in (["policy", "check", policy], ["replay", "--policy", policy, log], ["run", "--policy", policy, "--", "true"]):
        done = sentinel(*words)
        assert (done.returncode, "gone.csv: No such file" in done.stderr) == (2, True), (words, done.stderr)


def test_damage_inside_a_log_is_said_and_costs_no_more_than_itself(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", spike=900)
    lines = log.read_bytes().split(b"\n")
    lines[300] = b"\0" * 200
    lines[301] = b"\xff\xfe,,,,"
    log.write_bytes(b"\n".join(lines))
    done = sentinel("replay", "--json", "--format", "csv", log)
    assert (done.returncode, [one["onset_step"] for one in findings(done)]) == (0, [900])
    assert "2 damaged" in done.stderr


# A file being written.


def wait_for(stream: IO[str], words: str) -> str:
    """The next line that holds the words; the pipe's own end, or the suite's deadline, is the limit."""
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"the output ended without {words!r}")


@pytest.mark.parametrize("words", [["watch"], ["replay", "--follow"]], ids=" ".join)
def test_a_growing_file_is_followed_until_interrupted(tmp_path: Path, words: list[str]) -> None:
    log = tmp_path / "log.csv"
    command = [sys.executable, "-u", "-m", "sentinel", *words, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert "waiting for it" in wait_for(process.stderr, "log.csv")
            text = write_csv(tmp_path / "whole", spike=900).read_text()
            cut = text.index("\n905,") + 3
            log.write_text(text[:cut])
            assert "warning spike at step 90" in wait_for(process.stdout, "spike")
            with log.open("a") as file:
                file.write(text[cut:])
            assert "back in its band at step 9" in wait_for(process.stdout, "back in its band")
            assert log.read_text() == text
            process.send_signal(signal.SIGINT)
            assert "1 log read, 1,200 rows: 1 alarm" in wait_for(process.stdout, "log read")
            assert process.wait(DEADLINE_S) == 130
        finally:
            process.kill()


def test_files_that_come_and_go_are_followed(tmp_path: Path) -> None:
    """A directory that is empty at first; then a log in it is cut, removed, and written anew."""
    text = write_csv(tmp_path / "whole", spike=900).read_text()
    runs = tmp_path / "runs"
    runs.mkdir()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "sentinel", "watch", str(runs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            wait_for(process.stderr, "waiting for one")
            (runs / "log.csv").write_text(text)
            wait_for(process.stdout, "back in its band")
            (runs / "log.csv").write_text(text[:2000])
            assert "cut to 2000 bytes" in wait_for(process.stderr, "log.csv")
            (runs / "log.csv").unlink()
            assert "waiting for it" in wait_for(process.stderr, "not there")
            (runs / "log.csv").write_text(text.replace("3.", "3.1").replace("2.", "2.1").replace("1.", "1.1"))
            wait_for(process.stdout, "warning spike at step 90")
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()


def test_watching_what_is_no_log_ends_with_1_and_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(500))
    done = program("watch", tmp_path / "binary")
    assert (done.returncode, "a binary file" in done.stderr) == (1, True)


@pytest.mark.slow
def test_a_hundred_megabytes_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "long.csv"
    dice = random.Random(3)
    noise = [dice.gauss(0.0, 0.02) for _ in range(65_536)]
    with log.open("w") as file:
        file.write("step,loss,grad_norm,loss_scale,lr\n")
        last = 0
        while file.tell() < 100_000_000:
            part, first, last = [], last + 1, last + 50_000
            for step in range(first, last + 1):
                value = 2.0 + 300.0 / (step + 100) + noise[step & 65_535] + 3.0 * (step % 400_000 in (399_990, 399_991, 399_992))
                part.append(f"{step},{value:.6f},{0.5 + noise[step * 7 & 65_535]:.6f},,0.0003\n")
            file.write("".join(part))
    began_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", AND_ITS_PEAK, "replay", "--json", str(log)], capture_output=True, text=True)
    seconds = time.monotonic() - began_s
    peak_mib = int(done.stderr.split()[-2]) / 1024
    print(f"\n{last:,} rows of 100 MB: {seconds:.1f} s, {last / seconds:,.0f} rows/s, at most {peak_mib:.0f} MiB")
    assert done.returncode == 0
    alarmed = [one["onset_step"] for one in findings(done) if one["severity"] != "info" and one["kind"] == "spike"]
    assert set(range(399_990, last, 400_000)) <= set(alarmed)
    assert peak_mib < 400


def test_what_is_no_log_ends_in_a_sentence_and_exit_code_1(tmp_path: Path) -> None:
    pointer = tmp_path / "events.out.tfevents.1.host"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n")
    for path in (pointer, tmp_path):
        done = sentinel("replay", path)
        assert done.returncode == 1
        assert "is a Git LFS pointer" in done.stderr
        assert "git lfs pull" in done.stderr
    header = tmp_path / "header.csv"
    header.write_text("step,loss\n")
    done = sentinel("replay", header)
    assert (done.returncode, "not one step in it" in done.stderr) == (1, True)
    assert "1 could not be read" in done.stdout


def test_a_log_without_a_loss_says_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,epoch,acc\n" + "".join(f"{n},1,0.5\n" for n in range(1, 30)))
    done = sentinel("replay", path)
    assert done.returncode == 0
    assert f"{path}: no training loss in it, so none is judged (it has acc, epoch; call the loss 'loss' in a copy" in done.stderr
