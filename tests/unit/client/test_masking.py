"""What looks like a secret is masked, and what only sounds like one is left."""

from __future__ import annotations

import json
import shlex
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sentinel.client import masking
from sentinel.client.masking import MASK, Masking, secret_values
from sentinel.paging.plain_text import one_line, plain


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    return Masking(secrets).text(text)


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
        ("Command '['python', 'up.py', '--api-key', 'abc123']' returned 1", "abc123"),
        ('{"argv": ["up.py","--hf-token","abc123"]}', "abc123"),
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
        "['train.py', '--max-tokens', '4096']", '"../etc/passwd": {"bytes": 1}', "sig=5 of 7", "http://x/?signal=9&design=3",
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


ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = st.text(st.sampled_from(ALPHABET + "_-+/."), min_size=12, max_size=48).filter(
    lambda value: any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and value[0] in ALPHABET
)
NAMES = st.sampled_from(
    ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD", "DB_PASS", "GITHUB_PAT", "PGPASSWORD"]
)
OPTIONS = st.sampled_from(["--api-key", "--hf-token", "--token", "--wandb_api_key", "--password", "--secret", "--db-credentials"])
AROUND = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


@settings(max_examples=100, deadline=None)
@given(SECRETS, NAMES, AROUND, AROUND)
def test_a_value_of_the_environment_is_masked_wherever_it_stands(secret: str, name: str, before: str, behind: str) -> None:
    masking = Masking.of({name: secret})
    for text in (f"{before}{secret}{behind}", f"{before}{secret!r}", json.dumps([before + secret]), quote_plus(secret)):
        assert secret not in masking.text(text).replace(MASK, "\0")


@settings(max_examples=100, deadline=None)
@given(SECRETS, OPTIONS, st.booleans(), AROUND)
def test_a_value_of_an_option_is_masked_there_and_where_it_turns_up(secret: str, option: str, joined: bool, around: str) -> None:
    command = ("python", "train.py", *((f"{option}={secret}",) if joined else (option, secret)), "--steps", "5")
    masking = Masking.of({}, command)
    assert secret not in " ".join(masking.words(command))
    assert masking.words(command)[-2:] == ("--steps", "5")
    for text in (shlex.join(command), f"401 for {secret}: {around}", str({"argv": list(command)}), json.dumps(command)):
        assert secret not in masking.text(text).replace(MASK, "\0")
    assert secret not in json.dumps(masking.document({"command": list(command), "reason": f"{around} {secret}"}))


PARTS = st.sampled_from(["token=", "--api-key ", "Bearer ", "://u:p@h ", "abc123def", '"', "'", "\n"])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.lists(PARTS))
@example(text="", parts=["token=", '"', "Bearer ", "\n", "--api-key ", '"'])
def test_what_is_masked_is_masked_once(text: str, parts: list[str]) -> None:
    """A page is compared with the page before it: a text that changed each time it is masked would be sent anew for ever."""
    masking = Masking(["abc123def456"])
    whole = masking.text("".join(parts) + text + "abc123def456")
    assert masking.text(whole) == whole


TELLING = st.one_of(
    st.integers(0, 10**12).map(str),
    st.floats(allow_nan=False).map(str),
    st.integers(0, 10**8).map(lambda step: f"checkpoints/step-{step:08d}"),
    st.binary(min_size=20, max_size=32).map(bytes.hex),  # of a commit, of a manifest
    st.sampled_from(["gpt2", "meta-llama/Llama-3-8B", "bf16", "</s>", "<|endoftext|>", "h.0.attn.qkv.weight"]),
)
HARMLESS = st.sampled_from(
    ["loss", "step", "tokens", "max_tokens", "tokens_per_step",
     "token_ids", "num_tokens", "tokenizer", "pad_token", "eos_token_id",
     "checkpoint", "git",
     "commit", "digest", "sort_key", "state_key", "keys", "monkey", "author", "passes", "auth_type", "lr"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(HARMLESS, TELLING, st.sampled_from(["=", ": ", " ", "=="]))
def test_what_people_need_to_read_is_left(name: str, value: str, between: str) -> None:
    option = name.replace("_", "-")
    for text in (f"{name}{between}{value}", f"train.py --{option} {value}", f"rank 3: {name}{between}{value}, next"):
        assert Masking().text(text) == text
    words = ("train.py", f"--{name}", value, f"--{name}={value}", f"{name}={value}")
    assert Masking().words(words) == words
    assert Masking().document({name: value, "words": list(words)}) == {name: value, "words": list(words)}
    assert Masking.of({name.upper(): value}).text(f"it was {value}") == f"it was {value}"


def test_variables_named_like_something_else_are_no_secrets() -> None:
    environ = {
        "GIT_AUTHOR_NAME": "Ada Lovelace", "TOKENIZER_NAME": "my-tokenizer-2", "MAX_TOKENS": "100000000",
        "TOKEN_FILE": "some/file2",
        "KEY_NAME": "production-1", "AUTH_TYPE": "kerberos5", "SORT_KEY": "timestamp2", "DB_PASSWORD": "123456789",
    }  # fmt: skip
    assert secret_values(environ) == ()


def test_a_private_key_is_masked_whole_and_nothing_behind_it() -> None:
    body = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ" + str(n) * 10 for n in range(6))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\nabc=\n-----END RSA PRIVATE KEY-----"
    assert mask(f"a\n{key}\nTraceback") == "a\n***\nTraceback"
    assert mask(json.dumps({"key": key})) == '{"key": "***"}'
    cut = key[: key.index("abc=")]
    assert Masking().lines([*cut.strip().split("\n"), "Traceback (most recent):"]) == ("***", "Traceback (most recent):")
    many = ("-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n") * 2000
    assert "AAAA" not in mask(many)


def test_quotes_stay_so_that_json_stays_json() -> None:
    assert json.loads(mask('{"password": "abc123", "step": 5}')) == {"password": "***", "step": 5}


def test_a_document_is_masked_in_place_and_its_numbers_are_left() -> None:
    plain = {"rows": [[1, 2.5], [2, None]], "max_tokens": "4096"}
    document = {"api_key": "x1", "nested": {"command": ["a", "--token", "abc123"]}, **plain}
    masked = {"api_key": "***", "nested": {"command": ["a", "--token", "***"]}, **plain}
    assert Masking().document(document) == masked


PIECES = st.sampled_from(
    ("SECRET", "passwd", "passWord", "passphrase", "credential", "cookie", "auth", "api_key", "APIKEY", "access-key", "_pat",
     "_PWD", "Token", "-key", "bearer", "BASIC", "://", "sig", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "sk-",
     "glpat-", "rk_", "sk_", "xoxb", "AKIA", "asia", "AIza", "eyJ", "hooks.slack", "PRIVATE KEY",
     "k", "K", "ſ", "ı", " ", "step 7")
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=3), max_size=6).map("".join))
def test_no_text_is_passed_over_that_the_patterns_would_look_at(text: str) -> None:
    if masking._HINT.search(text) is not None:
        assert masking._may_hold_a_secret(text)


LINES = st.sampled_from(
    ("token", "api_key", "X-Auth", "Bearer", "Basic", "my.access-key", "eos_token", "_pat", "hf_abcdefgh12345678Z",
     "sk-abc123def456ghi7", "AKIAABCDEFGHIJKLMNOP", "https://ada:hunter2@host/x", "?sig=abc", "MIIEpAIBAAKCAQEA",
     "-----BEGIN RSA PRIVATE KEY-----",
     "b" * 60 + "_token", "a" * 70, "abc123xyz", "--", "é", "ſecret", "K", " ", "=", ": ", "\n", "\t", '"', "'", ", ", "-", ".",
     "['", "']")
)  # fmt: skip


@given(st.lists(LINES, max_size=14).map("".join))
@example("b" * 64 + "secret=abc123\n" + "b" * 65 + "secret=abc123")
def test_where_a_name_may_begin_is_where_the_patterns_find_one(text: str) -> None:
    """The patterns over the whole text, which took a tenth of a second each for the end of a stream."""
    plain = masking._ASSIGNED.sub(masking._masked_value, text)
    assert masking._sub_named(masking._ASSIGNED, masking._masked_value, text) == plain
    options = masking._OPTION.sub(masking._masked_option, plain)
    assert masking._sub_named(masking._OPTION, masking._masked_option, plain) == options
    if "\n" in text and "PRIVATE" not in text:
        assert masking._by_shape(text) == "\n".join(masking._by_shape(line) for line in text.split("\n"))


def test_the_end_of_a_stream_is_tried_at_the_names_that_may_be_a_secrets_and_nowhere_else() -> None:
    row = '{"kind":"step","step":7,"loss":3.5,"grad_norm":0.9,"tokens_per_s":1204.5}\n'
    assert masking._starts_of_names(row * 3) == [at * len(row) + row.index("tokens_per_s") for at in range(3)]
    assert mask(row * 3) == row * 3


def test_every_pattern_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(masking.LateRegex, "compile", lambda self: compiled.append(self._text))
    masking.prepare()
    assert len(compiled) == sum(isinstance(value, masking.LateRegex) for value in vars(masking).values()) > 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hf_LEAK06\x1b[0mabcdefghijklmnop", "***"),
        ("API_KEY=\x1b[32m'zz99LEAK40xyz'\x1b[0m", "API_KEY='***'"),
        ("\x1b]0;title\x07password: \x1b[1mhunter2", "password: ***"),
        ("\x1b[31mred\x1b[0m and no secret", "\x1b[31mred\x1b[0m and no secret"),
    ],
)
def test_an_escape_of_a_terminal_hides_no_secret(text: str, shown: str) -> None:
    """Whoever shows the text takes the escapes out, and the secret stood there whole."""
    assert Masking().text(text) == shown


@pytest.mark.parametrize("sign", [":=", "=>", "==", "=", ":"])
def test_however_a_value_is_assigned(sign: str) -> None:
    assert "zz99LEAK" not in Masking().text(f"password {sign} 'zz99LEAK', and --api-key{sign}zz99LEAK")


def test_json_within_a_text() -> None:
    assert "zz99LEAK" not in Masking().text('{"line": "{\\"api_key\\": \\"zz99LEAK\\"}"}')


def test_a_secret_may_begin_like_a_variable_and_a_reference_to_one_is_none() -> None:
    environ = {"DB_PASSWORD": "$ecretP4ss99", "API_TOKEN": "~tilde99pass", "X_SECRET": "$TOKEN", "KEY_SECRET": "~/keys/one"}
    masking = Masking.of(environ)
    assert masking.text("a $ecretP4ss99 b ~tilde99pass") == "a *** b ***"
    kept = "TOKEN=$TOKEN; PASSWORD=${PASSWORD:-x}; $TOKEN, $(pass show key), ~/keys/one"
    assert masking.text(kept) == kept
