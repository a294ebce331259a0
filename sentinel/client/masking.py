"""What looks like a secret is taken out of what people are shown. The one place that decides it, for Sentinel and for trainers.

    masking = Masking.of(os.environ, command)
    masking.text("401 for https://ada:hunter2@host")     # '401 for https://***@host'
    masking.words(("train.py", "--hf-token", "abc123"))   # ('train.py', '--hf-token', '***')
    masking.document({"reason": "…", "command": [...]})   # every text in it

A trainer's command line, its error texts and its logs may hold keys. Nobody can know all of them, so this goes by three things:
values known to be secret (of variables and options that are named like secrets, of channels); names with a value beside them; and
the shapes that services give their keys. Numbers, steps, paths, digests and a vocabulary's tokens (`--tokenizer x`, limits in
tokens) are none: who reads a report must see them.

Journals, pages, reports and the browser's page show what this leaves. Nothing here reads the environment or a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from sentinel.client.late_regex import LateRegex, late_regex

MASK = "***"
VALUE_CHARS_MIN = 8  # a shorter value is as likely a word of the text, so it is masked only beside its name
_FORCED = (
    r"secret|passwd|password|passphrase|credentials?|cookie|auth|authorization|api[_-]?key"
    r"|(?:access|private|signing|encryption)[_-]?key|_pat|_pwd"
)
_WEAK = r"token|[_-]key"  # words of the trade as well: the value has to look like a secret
_NAMED = rf"[\w.-]{{0,64}}?(?:{_FORCED}|{_WEAK})"
_NAME = rf"(?<![\w.-]){_NAMED}"
_VALUE = r"(\"[^\"\n]*\"|'[^'\n]*'|\\\"[^\"\n]*\"|(?:(?:Bearer|Basic|Token)[ \t]+)?[^\s\"',;&}]+)"
_ASSIGNED = late_regex(rf"({_NAME})(\\?[\"']?[ \t]*(?:=>|[=:]=?)[ \t]*){_VALUE}", re.IGNORECASE)
_ESCAPES = late_regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")  # a terminal's: colours, titles
_REFERENCE = late_regex(r"\$(?:[A-Z_][A-Z0-9_]*|\{[^}]*\}?|\([^)]*\)?)\Z")  # to a variable, and no value
_OPTION = late_regex(rf"({_NAME})([ \t]+)(?!-){_VALUE}", re.IGNORECASE)
_LISTED = late_regex(  # words as repr and JSON write them
    rf"([\"'])(--?{_NAMED})(\1,[ \t]*)(\"[^\"\n]*\"|'[^'\n]*')", re.IGNORECASE
)
_OPTION_NAME = late_regex(rf"[-+~]{{0,2}}[\w./-]{{0,64}}?(?:{_FORCED}|{_WEAK})", re.IGNORECASE)
_FORCED_NAME = late_regex(rf"(?:{_FORCED})\Z", re.IGNORECASE)
# Tokens of a vocabulary and keys of a mapping: what stands behind them is no secret.
_OF_THE_TRADE = late_regex(
    r"(?:\A|[_.\-])(?:eos|bos|pad|unk|sep|cls|mask|special|image|audio|video|per|max|min|num|n|next|last|first|prev|new|extra"
    r"|begin|end|start|stop|think|prompt|added|additional|decoder_start|forced_bos|forced_eos|unexpected|invalid|unknown)[_.\-]tokens?\Z"
    r"|(?:\A|[_.\-])(?:sort|primary|foreign|cache|data|text|dict|state|state_dict|group|label|feature|image|audio|target"
    r"|input|output|column|batch|metric|metrics|model|module|param|parameter|optimizer|public|dedup|index|row|order|map|hash|store|partition"
    r"|config|message|prompt|loss|log|weight|num|rng|seed|bucket|shuffle|unexpected|missing|query)[_.\-]key\Z",
    re.IGNORECASE,
)
_BEARER = late_regex(r"\b(Bearer|Basic)[ \t]+[\w.~+/=-]{8,}")
_IN_ADDRESS = late_regex(r"://(?:[^\s/@:\"']{0,100}:(?!\d+/)[^\s@\"']{1,200}|[^\s/@\"']{1,200})@")  # a password may hold a slash
_SHAPES = late_regex(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-(?=[\w-]*\d)[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|[rs]k_(?:live|test)_\w{16,}|eyJ[\w-]{10,2000}\.[\w-]{1,4000}\.[\w-]{1,1000})"
)
_SIGNED = late_regex(r"([?&](?:amp;)?(?:sig|[\w-]{0,40}signature)=)[^\s&\"'<>]+", re.IGNORECASE)  # Azure's, Amazon's, Google's
_SLACK = late_regex(r"(hooks\.slack\.com/services/)[\w/-]+")
_BETWEEN = r"(?:\\[nr]|\s)*+"  # of a key on several lines, or on one line of JSON
_KEY_BLOCK = late_regex(  # also one that was cut off: no more than what can belong to a key
    rf"-----BEGIN [A-Z ]{{0,40}}PRIVATE KEY-----(?:{_BETWEEN}(?:[A-Za-z0-9+/=]{{16,}}+|Proc-Type:[^\n]*|DEK-Info:[^\n]*))*+"
    rf"(?:{_BETWEEN}[A-Za-z0-9+/=]*+{_BETWEEN}-----END [A-Z ]{{0,40}}PRIVATE KEY-----)?"
)
_HINT = late_regex(
    rf"{_FORCED}|{_WEAK}|bearer|basic|://|sig|hf_|gh[pousr]_|github_pat|glpat-|sk-|[rs]k_|xox|AKIA|ASIA|AIza|eyJ"
    r"|hooks\.slack|PRIVATE KEY",
    re.IGNORECASE,
)
# The same for plain ASCII, where looking for words is twenty times as fast as the pattern; it may say yes where that says no.
_NAME_WORDS = (  # every name that _NAMED matches holds one of them
    "secret", "passwd", "password", "passphrase", "credential", "cookie", "auth", "key", "_pat", "_pwd", "token",
)  # fmt: skip
_HINT_WORDS = (
    *_NAME_WORDS, "bearer", "basic", "://", "sig", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "sk-", "sk_", "rk_",
    "xox", "akia", "asia", "aiza", "eyj", "hooks.slack",
)  # fmt: skip
_NAME_REACH = 64 + len("encryption_")  # no further before such a word does a name begin that _NAMED matches
_SHAPE_WORDS = (
    "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "ASIA", "AIza", "k_live_",
    "k_test_", "eyJ",
)  # fmt: skip
_NUMBER = late_regex(r"[-+]?[\d_.,:/x%]+(?:e[-+]?\d+)?[a-z]{0,3}", re.IGNORECASE)
_WORDS_OF_A_CONFIGURATION = frozenset(
    ("none", "null", "true", "false", "required", "disabled", "enabled", "default", "optional", "anonymous")
)

# Names of environment variables, part by part, so that TOKENIZER_NAME, GIT_AUTHOR_NAME and MAX_TOKENS are none.
_SECRET_PARTS = frozenset(
    ("TOKEN", "SECRET", "SECRETS", "PASS", "PASSWD", "PASSWORD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "AUTH", "COOKIE",
     "KEY", "PAT", "PWD")
)  # fmt: skip
_SECRET_ENDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIALS")
_HARMLESS_ENDS = frozenset(
    ("FILE", "PATH", "DIR", "NAME", "URL", "URI", "TYPE", "MODE", "LEN", "LENGTH", "COUNT", "SIZE", "TTL", "TIMEOUT", "SOCK",
     "HOST", "PORT", "USER", "USERNAME", "REGION", "ALGORITHM", "BACKEND", "METHOD", "ID", "IDS")
)  # fmt: skip


class Masking:
    """What is known to be secret, beside what looks so. Its texts are masked once: a masked text comes out as it is."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """`values`: known secrets. One of fewer than VALUE_CHARS_MIN characters is left to its name and shape."""
        found = {spelt for value in values if len(value) >= VALUE_CHARS_MIN for spelt in _spellings(value)}
        self._values = tuple(sorted(found, key=lambda value: (-len(value), value)))

    @classmethod
    def of(cls, environ: Mapping[str, str], command: Sequence[str] = (), more: Iterable[str] = ()) -> Masking:
        """For a run: the secrets of the environment, those on its command line, and those that somebody else knows."""
        return cls([*secret_values(environ), *secrets_in(command), *more])

    def text(self, text: str) -> str:
        """`text` without what is, or looks like, a secret. Escapes of a terminal within one go with it: whoever shows the text
        takes them out, and would put it together again."""
        if "\x1b" in text:
            plain = _ESCAPES.sub("", text)
            masked = self._without_secrets(plain)
            if masked != plain:
                return masked
        return self._without_secrets(text)

    def _without_secrets(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        if not _may_hold_a_secret(text):
            return text
        masked = _by_shape(text)
        return masked if masked == text else _by_shape(masked)  # what one mask leaves beside it may look like another value

    def lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines of a log, seen as one text: a key may take several. Those that such a key took are one."""
        text = "\n".join(lines)
        masked = self.text(text)
        return tuple(lines) if masked == text else tuple(masked.split("\n"))

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """A command line, word by word: the value of `--api-key X`, of `--token=X` and of `env TOKEN=X` whole."""
        heads = {place: head for place, head, _ in _hidden_words(words)}
        return tuple(f"{heads[at]}{MASK}" if at in heads else self.text(word) for at, word in enumerate(words))

    def document(self, document: Any) -> Any:
        """A JSON document with every text in it masked; a list of texts may be a command line. Keys stay."""
        if isinstance(document, str):
            return self.text(document)
        if isinstance(document, Mapping):
            return {key: self._of_key(key, value) for key, value in document.items()}
        if isinstance(document, (list, tuple)):
            if not document or isinstance(document[0], (int, float)):
                return document  # a curve, a range: numbers, and many of them
            if all(isinstance(word, str) for word in document):
                return list(self.words(document))
            return [self.document(one) if isinstance(one, (str, Mapping, list, tuple)) else one for one in document]
        return document

    def _of_key(self, key: object, value: Any) -> Any:
        """`"api_key": "X"`: the key names it."""
        if isinstance(value, str) and isinstance(key, str) and _is_secret(key, value):
            return MASK
        return self.document(value)


def prepare() -> None:
    """Compile every pattern of this file, for which the first text that may hold a secret waits otherwise."""
    for pattern in tuple(globals().values()):
        if isinstance(pattern, LateRegex):
            pattern.compile()


def _by_shape(text: str) -> str:
    """One pass of every pattern. None but that of a key takes more than one line."""
    text = _KEY_BLOCK.sub(MASK, text)
    if text.isascii() or "\n" not in text:
        return _line_by_shape(text)
    return "\n".join(map(_line_by_shape, text.split("\n")))  # one letter of another alphabet, and a log would be searched slowly


def _line_by_shape(text: str) -> str:
    text = _sub_named(_ASSIGNED, _masked_value, text)
    text = _sub_named(_OPTION, _masked_option, text)
    text = _LISTED.sub(_masked_listed, text)
    if "Bearer" in text or "Basic" in text:
        text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _IN_ADDRESS.sub(f"://{MASK}@", text)
    text = _SIGNED.sub(rf"\1{MASK}", text)
    text = _SLACK.sub(rf"\1{MASK}", text)
    return _SHAPES.sub(MASK, text) if any(map(text.__contains__, _SHAPE_WORDS)) else text


def _sub_named(pattern: re.Pattern[str], masked: Callable[[re.Match[str]], str], text: str) -> str:
    """`pattern.sub(masked, text)` for a pattern that begins with _NAME. Such a name begins where letters, digits, dots and dashes
    do, and holds one of a few words; tried at every letter of 256 KB of a stream, the pattern took a tenth of a second."""
    if not text.isascii():
        return pattern.sub(masked, text)
    parts: list[str] = []
    end = 0
    for start in _starts_of_names(text):
        found = pattern.match(text, start) if start >= end else None
        if found is not None:
            parts += (text[end:start], masked(found))
            end = found.end()
    return "".join((*parts, text[end:])) if parts else text


def _starts_of_names(text: str) -> list[int]:
    """Of ASCII text: where the stretches of letters, digits, dots and dashes begin that hold one of _NAME_WORDS."""
    small = text.lower()
    starts: set[int] = set()
    for word in _NAME_WORDS:
        at = small.find(word)
        while at >= 0:
            start, farthest = at, max(0, at - _NAME_REACH)
            while start > farthest and (small[start - 1].isalnum() or small[start - 1] in "_.-"):
                start -= 1
            starts.add(start)
            at = small.find(word, at + 1)
    return sorted(starts)


def _may_hold_a_secret(text: str) -> bool:
    """Whether a text is worth the patterns that find secrets: most are not, and a journal has hundreds of thousands."""
    if not text.isascii():  # of other alphabets, a few letters count as ours where case does not matter
        return _HINT.search(text) is not None
    small = text.lower()
    return any(map(small.__contains__, _HINT_WORDS))


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables that are named like secrets, longest first. A path is none: it says where one lies."""
    found = {value for name, value in environ.items() if is_secret_name(name) and _may_stand_anywhere(value, is_forced(name))}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def is_secret_name(name: str) -> bool:
    """Whether an environment variable is named like a secret."""
    parts = [part for part in re.split(r"[^A-Z0-9]+", name.upper()) if part]
    if not parts or parts[-1] in _HARMLESS_ENDS or _OF_THE_TRADE.search(name) is not None:
        return False
    return any(part in _SECRET_PARTS for part in parts if len(parts) > 1 or part != "PWD") or parts[-1].endswith(_SECRET_ENDS)


def is_forced(name: str) -> bool:
    """Whether the name alone says that it is a secret, whatever its value looks like."""
    return _FORCED_NAME.search(name) is not None or name.upper().endswith(("TOKEN", "PASS"))


def secrets_in(command: Sequence[str]) -> tuple[str, ...]:
    """Values of options of a command line that are named like secrets, which may turn up elsewhere without their names."""
    values = [value for _, _, value in _hidden_words(command)]
    values += [found[3].strip("\"'") for word in command for found in _ASSIGNED.finditer(word) if _is_secret(found[1], found[3])]
    return tuple(value for value in values if _may_stand_anywhere(value, has_forced_name=True))


def _hidden_words(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Of each word that holds a secret by its name: where it stands, what of it is shown, and the secret."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and _OPTION_NAME.fullmatch(name) and value and _is_secret(name, value):
            yield at, f"{name}=", value
        elif at and not word.startswith("--") and word and _is_option(words[at - 1]) and _is_secret(words[at - 1], word):
            yield at, "", word


def _is_option(word: str) -> bool:
    return word.startswith("-") and _OPTION_NAME.fullmatch(word) is not None


def _is_secret(name: str, value: str) -> bool:
    """Whether the value beside this name is one. `name` may have dashes or a path of a configuration before it."""
    bare = name.lstrip("-+~")
    found = _OPTION_NAME.fullmatch(bare)
    if found is None or _OF_THE_TRADE.search(bare) is not None:
        return False
    value = value.strip("\"'")
    if not value or value == MASK or value.lower() in _WORDS_OF_A_CONFIGURATION or value.startswith(("<", "{", "[")):
        return False  # `<|pad|>` and `{"a": 1}` are no values
    if _REFERENCE.match(value) is not None:
        return False  # nor is `$TOKEN`
    if _FORCED_NAME.search(bare) is not None:
        return True
    if _NUMBER.fullmatch(value) is not None or len(value) < 6:
        return False
    return bare.lower().endswith("token") or _is_mixed(value)


def _is_mixed(value: str) -> bool:
    """Letters and digits: what `--sort-key step` never is."""
    return len(value) >= VALUE_CHARS_MIN and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _may_stand_anywhere(value: str, has_forced_name: bool) -> bool:
    """Whether every place of a text that holds it is masked. Not a number, which is a step or a loss elsewhere; nor a path."""
    is_place = value.startswith(("/", "./", "~/")) or _REFERENCE.match(value) is not None
    if len(value) < VALUE_CHARS_MIN or is_place or _NUMBER.fullmatch(value) is not None:
        return False
    return value.lower() not in _WORDS_OF_A_CONFIGURATION and (has_forced_name or _is_mixed(value))


def _masked_value(found: re.Match[str]) -> str:
    if not _is_secret(found[1].strip("\"'"), found[3]):
        return found[0]
    quote_mark = found[3][0] if found[3][0] in "\"'" else ""  # what was JSON stays JSON
    return f"{found[1]}{found[2]}{quote_mark}{MASK}{quote_mark}"


def _masked_option(found: re.Match[str]) -> str:
    """`--hf-token abc123` is an option and its value; `the token was` are words."""
    return _masked_value(found) if found[1].startswith("-") else found[0]


def _masked_listed(found: re.Match[str]) -> str:
    """`['train.py', '--hf-token', 'abc123']`, as errors of subprocess show a command."""
    quote_mark, name, between, value = found.groups()
    return f"{quote_mark}{name}{between}{value[0]}{MASK}{value[0]}" if _is_secret(name, value) else found[0]


def _spellings(value: str) -> set[str]:
    """As it is, and as an address, JSON and Python's repr write it."""
    return {value, quote(value), quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
