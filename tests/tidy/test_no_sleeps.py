"""No test waits for a fixed time. A poll may pause, in a loop that ends when it has seen what it looks for and has a deadline;
anything else that passes time (a sleep, a short wait for what is not expected) is found here, or is listed with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_MIN_S = 5.0  # a wait this long is a deadline for something expected; shorter ones pass time
UNBOUNDED = {"count", "cycle", "iter", "repeat"}
WAYS_OUT = (ast.Break, ast.Return, ast.Raise)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.While, ast.For)

ALLOWED = {
    ("tests/trainers/logged_loop.py", "time.sleep(options.step_s)"): "a stand-in for a trainer: its steps take time",
    ("tests/trainers/megatron_like.py", "time.sleep(args.step_s)"): "a stand-in for a trainer: its steps take time",
    ("tests/trainers/megatron_like.py", "time.sleep(args.save_s)"): "and so do its saves",
    ("tests/bench/busy_ranks.py", "time.sleep(max(0.0, at_least_s - (time.perf_counter() - began_s)))"): "a bench's window",
    ("tests/bench/steady_words.py", "time.sleep(pace_s / (len(PHASES) + 1))"): "a stand-in for two ranks, at a pace",
    ("tests/bench/steady_words.py", "time.sleep(max(0.0, begun_s + step * pace_s - time.monotonic()))"): "and keeps it",
    ("tests/bench/agents_world.py", "time.sleep(max(0.0, pause_s))"): "a stand-in for the agents of all nodes, at their pace",
    ("tests/trainers/megatron_deepspeed_like.py", "time.sleep(0.02)"): "so do this one's",
    ("tests/trainers/nanogpt_like.py", "time.sleep(float(config['step_s']))"): "so does this one's",
    ("tests/accept/test_hangs_blamed.py", "time.sleep(moment_s)"): "the moment of a step at which a rank is stopped is drawn",
    ("tests/accept/test_hangs_blamed.py", "time.sleep(length_s)"): "and so is how long it stays stopped",
    ("tests/cluster/ranked_loop.py", "pause.wait(step_s)"): "a stand-in for a rank: its steps take time",
    ("tests/cluster/cluster_kit.py", "self._is_over.wait(self._every_s)"): "a witness beside the test, ten times a second",
    ("tests/kubernetes/controllers.py", "self._is_over.wait(TURN_S)"): "a stand-in for a cluster's controllers: their turns",
    ("tests/kubernetes/test_kubernetes_api.py", "time.sleep(after_s)"): "how long after a file's birth the supervisor dies",
    ("tests/integration/double_trainer.py", "tick.wait(options.step_s)"): "the double's step takes its time, as training does",
    ("tests/integration/double_trainer.py", "tick.wait(slow_s)"): "a rank that is slow on purpose",
    ("tests/integration/double_trainer.py", "threading.Event().wait(takes_s)"): "a save that takes its time",
    ("tests/unit/test_clock.py", "SystemClock().wait(event, 0.001)"): "the wait itself is what is tested: it ends with the time",
}


def name_of(call: ast.expr | None) -> str:
    func = getattr(call, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def passes_time(call: ast.Call) -> bool:
    """A sleep, or a wait with a time limit that is no deadline."""
    if name_of(call) == "sleep":
        return True
    limits = [word.value for word in call.keywords if word.arg == "timeout"] or call.args[-1:]
    return name_of(call) == "wait" and bool(limits) and not is_deadline(limits[0])


def is_deadline(limit: ast.expr) -> bool:
    if isinstance(limit, ast.UnaryOp) and isinstance(limit.op, ast.USub):
        return True  # no time at all
    if isinstance(limit, ast.Constant):
        return not isinstance(limit.value, (int, float)) or limit.value <= 0 or limit.value >= DEADLINE_MIN_S
    text = ast.unparse(limit)
    return "deadline" in text.lower() or "inf" in text


def is_polling(loop: ast.AST, call: str) -> bool:
    """It can end early, because it has seen something, and must end, because of a bound: a deadline, or for a sleep a number."""
    if isinstance(loop, ast.For):
        has_bound = call == "sleep" and name_of(loop.iter) not in UNBOUNDED
        return has_bound and any(isinstance(node, WAYS_OUT) for node in within(loop))
    if not isinstance(loop, ast.While):
        return False
    inside = list(within(loop))
    asks_the_clock = is_clock_compared(loop.test)
    has_bound = asks_the_clock or any(isinstance(node, (ast.Assert, ast.If)) and is_clock_compared(node.test) for node in inside)
    asks_more = isinstance(loop.test, ast.BoolOp) or not (asks_the_clock or isinstance(loop.test, ast.Constant))
    return has_bound and (asks_more or any(isinstance(node, WAYS_OUT) for node in inside))


def is_clock_compared(test: ast.expr) -> bool:
    """`time.monotonic() < deadline`, alone or as one part of an `and`."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(is_clock_compared(part) for part in test.values)
    return isinstance(test, ast.Compare) and "monotonic()" in ast.unparse(test)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below, without the bodies of functions defined there."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from within(child)


def find_sleeps(tree: ast.AST, loops: tuple[ast.AST, ...] = ()) -> Iterator[ast.Call]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and passes_time(node) and not any(is_polling(loop, name_of(node)) for loop in loops):
            yield node
        yield from find_sleeps(node, () if isinstance(node, FUNCTIONS) else (*loops, node) if isinstance(node, LOOPS) else loops)


def test_no_test_sleeps_for_a_fixed_time() -> None:
    found = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if path.parent.name == "chaos" and not path.name.startswith("test_"):
            continue  # no tests: what `make chaos` does takes its time, a disk that is full for so long
        for call in find_sleeps(ast.parse(path.read_text(encoding="utf-8"))):
            written = ast.unparse(call)
            found.add((where, written))
            assert (where, written) in ALLOWED, f"{where}:{call.lineno} {written} passes time; wait for an event, with a deadline"
    assert found == set(ALLOWED), f"no longer there: {set(ALLOWED) - found}"


@pytest.mark.parametrize(
    "sleeping",
    [
        "time.sleep(1)",
        "run.wait(dice.uniform(0.0, 0.5))",
        "event.wait(0.3)",
        "event.wait(timeout=1)",
        "while True:\n    time.sleep(0.1)",
        "while not ready():\n    time.sleep(0.1)",
        "while time.monotonic() < deadline:\n    time.sleep(0.1)",
        "while not ready() or time.monotonic() < deadline:\n    time.sleep(0.1)",
        "for _ in range(20):\n    time.sleep(0.1)",
        "for _ in range(4):\n    try:\n        run.wait(dice.random())\n        break\n    except Timeout:\n        pass",
        "for _ in itertools.count():\n    if ready():\n        break\n    time.sleep(0.1)",
        "while time.monotonic() < deadline and not ready():\n    def later():\n        time.sleep(1)",
    ],
)
def test_what_passes_time_is_found(sleeping: str) -> None:
    assert len(list(find_sleeps(ast.parse(sleeping)))) == 1


@pytest.mark.parametrize(
    "polling",
    [
        "while time.monotonic() < deadline:\n    if ready():\n        break\n    time.sleep(0.1)",
        "while not ready() and time.monotonic() < deadline:\n    time.sleep(0.1)",
        "while not ready():\n    assert time.monotonic() < deadline\n    time.sleep(0.1)",
        "for _ in range(20):\n    if ready():\n        break\n    time.sleep(0.1)",
        "process.wait(30)",
        "event.wait(DEADLINE_S)",
        "event.wait()",
        "process.wait(max(0.0, deadline - time.monotonic()))",
    ],
)
def test_a_poll_with_a_deadline_is_not(polling: str) -> None:
    assert list(find_sleeps(ast.parse(polling))) == []
