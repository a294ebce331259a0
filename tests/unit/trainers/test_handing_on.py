"""Whether a script of the shell hands on what is added to its command: yes or no where its text shows it, else unknown."""

from __future__ import annotations

import re

import pytest

from sentinel.trainers.handing_on import hands_on

START = "python train.py --save out"
YES = {
    "positional": f'{START} "$@"',
    "all as one": f"{START} $*",
    "in braces": f'{START} "${{@}}"',
    "with a default": f"{START} ${{SENTINEL_ARGS:-}}",
    "or nothing": f'{START} ${{1+"$@"}} "$@"',
    "exec, over lines": 'set -euo pipefail\nexec torchrun --nproc-per-node 2 \\\n  train.py \\\n  --lr 1e-3 "$@"\n',
    "behind others": f'source_dir=x\nmkdir -p out && cd src && {START} "$@"',
    "a pipe and files": f'{START} "$@" > out.log 2>&1 | tee log',
    "the environment in front": f'OMP_NUM_THREADS=1 nohup nice -n 5 {START} "$@" &',
    "an eval, as documented": f'eval "{START} $SENTINEL_ARGS"',
    "a variable": f'ARGS="--lr 1 $@"\nARGS+=" --x"\n{START} $ARGS',
    "an array": f'ARGS=(\n  --lr 1  # the rate\n  "$@"\n)\n{START} "${{ARGS[@]}}"',
    "a function that is handed them": f'main() {{\n  {START} "$@"\n}}\nmain "$@"',
    "a function and the variable": f"function main {{ {START} $SENTINEL_ARGS; }}\nmain",
    "each branch": f'if [ -n "$A" ]; then {START} "$@"; else {START} --b "$@"; fi',
    "a preparation without": f'python prepare.py\n{START} "$@"',
    "an apostrophe in a comment": f'# don\'t\n{START} "$@"',
    "a log through a substitution": f'exec > >(tee log) 2>&1\n{START} "$@"',
    "a module": 'python -m pretrain --save out "$@"',
    "a here-document before": f'cat > c.json <<EOF\n{{"it\'s": "$A"}}\nEOF\n{START} "$@"',
    "lines of Windows": f'{START} \\\r\n "$@"\r\n',
}
NO = {
    "nothing": START,
    "a comment": f'{START}  # "$@"',
    "single quotes": f"{START} '$@'",
    "an escaped dollar": f'{START} "\\$@" \\$SENTINEL_ARGS',
    "only told": f'echo "$@"; {START}',
    "behind the end": f"{START}; # && $SENTINEL_ARGS",
    "another variable": f"{START} $SENTINEL_ARGS_OLD",
}
UNKNOWN = {
    "one word of them": (f"{START} $1", "hands on a piece"),
    "a slice": (f'{START} "${{@:2}}"', "hands on a piece"),
    "what is left": (f'NODES=$1\nshift\n{START} "$@"', r"takes words out of \"\$@\""),
    "set anew": (f'set -- a b\n{START} "$@"', "takes words out"),
    "another script": ('bash inner.sh "$@"', "another script, which was not read"),
    "a script that is read in": (f"source args.sh\n{START} $ARGS", "line 1 reads another script"),
    "to the wrong one": (f'python prepare.py "$@"\n{START}', "line 1 uses them for something else"),
    "one branch": (f'if [ -n "$A" ]; then {START} "$@"; else {START}; fi', "some of the lines that start train.py"),
    "a function of its own arguments": (f'main() {{ {START} "$@"; }}\nmain', 'whose "\\$@" are its own arguments'),
    "a substitution": (f"{START} $(echo $SENTINEL_ARGS)", "hands on a piece"),
    "a changed variable": (f"SENTINEL_ARGS=x\n{START} $SENTINEL_ARGS", r"changes \$SENTINEL_ARGS itself"),
    "a variable at times": (f'A="$@"\nA=x\n{START} $A', "at some times"),
    "a variable made of another": (f"A=$B\n{START} $A", "made of other variables"),
    "a loop over them": (f'for a in "$@"; do X="$X $a"; done\n{START}', "line 1 uses them for something else"),
    "a here-document that a shell reads": (
        f"cat > run <<'EOF'\n./x $SENTINEL_ARGS\nEOF\n{START}",
        "a here-document in it names them",
    ),
    "an open quote": (f'{START} "$@', 'a " is not closed'),
    "an open here-document": (f"cat <<EOF\n{START}", r"end of a here-document \(EOF\) is not there"),
    "no trainer": ("make all", "no line in it is seen to start a trainer"),
    "nothing at all": ("", "no line in it"),
}


@pytest.mark.parametrize("text", YES.values(), ids=YES)
def test_it_does(text: str) -> None:
    assert hands_on(text).verdict == "yes"


@pytest.mark.parametrize("text", NO.values(), ids=NO)
def test_it_does_not(text: str) -> None:
    found = hands_on(text)
    assert (found.verdict, found.reason) == ("no", "line 1 starts train.py with neither")


@pytest.mark.parametrize(("text", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_it_cannot_be_told(text: str, reason: str) -> None:
    found = hands_on(text)
    assert found.verdict == "unknown"
    assert re.search(reason, found.reason), found.reason


def test_in_the_variable_alone_positional_arguments_are_none() -> None:
    assert hands_on(f'{START} "$@"', is_appended=False).verdict != "yes"
    assert hands_on(f'{START} "$@" $SENTINEL_ARGS', is_appended=False).by == "variable"


@pytest.mark.parametrize(
    "text", ["${", "$(", "`", "'", "a <", "A=(", "x() {", "\\", "$", "<<", "((", "[[ $a =~ ^(x)$ ]]", "case a in b) c ;; esac"]
)
def test_no_text_is_too_odd(text: str) -> None:
    assert hands_on(f"{text}\n{START}").verdict in ("no", "unknown")
    assert hands_on(text).verdict == "unknown"
