"""What looks like a secret is masked, and what only sounds like one is left."""

from __future__ import annotations

import pytest

from sentinel.paging.masking import mask, one_line, plain, secret_values


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("train.py --hf-token abc123 --steps 5", "abc123"),
        ("train.py --wandb_api_key=abc123", "abc123"),
        ("HF_TOKEN=abc123 python train.py", "abc123"),
        ("AWS_SECRET_ACCESS_KEY='abc 123' x", "abc 123"),
        ('{"password": "abc123", "step": 5}', "abc123"),
        ("{'api_key': 'abc123'}", "abc123"),
        ("Authorization: Bearer abc123def456", "abc123def456"),
        ("postgres://user:abc123@host/db", "abc123"),
        ("https://hooks.slack.com/services/T0/B0/abc123", "abc123"),
        ("https://x.blob.core.windows.net/c/b?sv=2024&sr=b&sig=aB%2Fc123%3D&se=1", "aB%2Fc123"),
        ("https://x.api.powerplatform.com:443/w/1/invoke?api-version=1&sp=%2Frun&sv=1.0&sig=aBc123-_x", "aBc123"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=abc123&x=1", "abc123"),
        ("pushed with ghp_abcdefghijklmnopqrstuvwxyz0123", "ghp_abcdef"),
        ("key AKIAABCDEFGHIJKLMNOP leaked", "AKIAABCD"),
        ("cookie: session=abc123", "abc123"),
        ("x" * 200 + " MY_PAT=abc123", "abc123"),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    assert secret not in mask(text)
    assert "***" in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "loss 8.6 over 2.2 at step 379", "tokens_per_step=1024 --tokens 5", "the token was not found", "author: anna",
        "key page/4/1 done",
        "http://127.0.0.1:9093/alerts", "tokenizer=bytes", "rank 3 (node-7): RuntimeError: NCCL error: unhandled", "a@b.c",
        "sig=5 of 7", "http://x/?signal=9&design=3",
    ],
)  # fmt: skip
def test_what_is_none_stays(text: str) -> None:
    assert mask(text) == text


def test_values_of_variables_named_like_secrets_are_known() -> None:
    environ = {
        "MY_TOKEN": "abcdefgh",
        "SHORT_KEY": "abc",
        "PATH": "/usr/bin",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "API_KEY": "abcdefghij",
    }
    assert secret_values(environ) == ("abcdefghij", "abcdefgh")
    assert mask("it said abcdefghij!", secret_values(environ)) == "it said ***!"


def test_masking_a_long_line_takes_no_time() -> None:
    """Names are looked for from where a word begins, and no further than a name is long."""
    for text in ("a" * 300_000, "token" * 60_000, "secret-" * 40_000, "eyJ" + "a" * 300_000, "://" + "a" * 300_000):
        assert mask(text) == text


def test_lines_stay_lines_and_nothing_else_is_control() -> None:
    assert plain("a\tb\x1b[0m\nc\ud800\u202ed\r\ne") == "a b\\x1b[0m\nc\\ud800\\u202ed\ne"
    assert one_line("a\nb   c", 4) == "a b…"
