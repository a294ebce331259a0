"""Disasters drawn from a seed: a run of random shape, and nothing, one, several or far too many faults.

The same seed gives the same scenario on every machine. Some scenarios are such that the shipped policies can repair every
fault; those must train all their steps.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from sentinel.sim.disk import draw_blindness, draw_full_disk
from sentinel.sim.faults import ASKED, SOURCES, Fault, parse_fault
from sentinel.sim.learning import LossCurve
from sentinel.sim.policies import draw_policies
from sentinel.sim.program_changes import CHANGES
from sentinel.sim.shape import Shape

PLANS = ("healthy", "one", "several", "chaos", "hopeless")
WEIGHTS = (8, 38, 26, 20, 8)
GAP_STEPS = 110  # between repairable faults: a repair and its probation fit in between
ROUTES = ("terminal", "first", "second", "third")  # of tests/sim/paging.yaml; one that a policy does not have troubles nobody
RETRIED = ("StartAttempt", "KillAttempt", "VerifyCheckpoint", "Quarantine", "Capture", "SendPage", "RequestStop")

# {step} {rank} {every} {samples} are drawn for the run's shape, {a|b} is one of the two.
BAD_DATA = "bad_data@sample={samples}:heals={fast|slow|never}"
REPAIRABLE = (
    "kill@step={step}:rank={rank}",
    "kill@step={step}:rank={rank}",
    "hang@step={step}:rank={rank}",
    "crash@step={step}:rank={rank}",
    "keeper_kill@step={step}",
    "slow@step={step}:for={2|5|9|30}",
    "damaged_line@step={step}:length={1|3}",
    "nan_grad@step={step}:length={1|2|4|7}",
    "nan_state@step={step}",
    "spike@step={step}:length={1|2|4|12},height={0.5|2|8}",
    BAD_DATA,
    BAD_DATA,
    BAD_DATA,
)
BEYOND = (
    *REPAIRABLE,
    "exit@step={step}:code={1|5|77}",
    "exit@step={step}:code={3|4}",
    "exit@step=0:code=1,attempt={1|2|3}",
    "kill@step={step}:attempt={2|3}",
    "hang@step={step}:attempt={2|3}",
    "bit_rot@step={every}",
    "deaf@step=0:attempt={1|2|3}",
    "unstable@step={step}",
    "bit_flip@step={step}:rank={rank},height={0.8|3}",
    "sick_optimizer@step={step}:later={10|34},height={0.8|3}",
    "drift@step={step}:height={0.3|0.9}",
    "scale_collapse@step={step}:length={2|4|30}",
    "term@step={step}",
)
BAD_CHECKPOINTS = (
    "bad_numbers@step={every}:seen={norm|finite|load}",
    "bad_resume@step={every}:after={0|0|1|4}",
    "bad_resume@step={every}:after={0|1}:always",
    "bad_numbers@step={every}:seen={norm|finite|load}:always",
)
HOPELESS = (
    "crash@step={step}:always",
    "kill@step={step}:rank={rank}:always",
    "hang@step={step}:rank={rank}:always",
    "nan_state@step={step}:always",
    "exit@step=0:always",
    "exit@step={step}:code={3|4|5}:always",
    "spike@step={step}:length=3,height=4:always",
    "bit_rot@step={every}:always",
    "deaf@step=0:always",
)


@dataclass(frozen=True)
class Scenario:
    """What is simulated.

    Attributes:
        must_finish: every fault can be repaired by the policy, so the run has to train all its steps.
        lines_per_poll: bound of one look at the stream.
        hears: writes wake the supervisor; else it polls once a second, as on a network filesystem.
    """

    seed: int
    shape: Shape
    faults: tuple[Fault, ...] = ()
    observe_only: bool = False
    must_finish: bool = False
    lines_per_poll: int = 5000
    hears: bool = True

    def __str__(self) -> str:
        return "  ".join(fault.text for fault in self.faults) or "no fault"


def draw_scenario(seed: int, long_history: bool = False) -> Scenario:
    """`long_history`: the policy needs hundreds of steps before its detectors are awake, so the run is longer."""
    dice = random.Random(seed)
    shape = _draw_shape(dice, seed, long_history)
    plan = dice.choices(PLANS, WEIGHTS)[0]
    texts = _draw_faults(dice, shape, plan)
    observe_only = dice.random() < 0.06
    must_finish = plan in ("healthy", "one", "several") and not observe_only
    texts += _draw_supervisor_deaths(dice)
    while dice.random() < 0.12:
        source, seconds = dice.choice(SOURCES), dice.choice((3, 20, 90))
        texts.append(f"blind@time={dice.randrange(1, 150)}:source={source},for={seconds}")
    if dice.random() < 0.1:
        texts.append(f"fails@action={dice.choice(RETRIED)}:times={dice.randrange(1, 4)},retry={dice.choice((1, 4))}")
    texts += _draw_requests(random.Random(f"wishes {seed}"), shape)  # dice of its own: the faults of a seed stay what they were
    texts += _draw_pages(random.Random(f"pages {seed}"))
    texts += draw_policies(random.Random(f"policies {seed}"))
    if plan in ("chaos", "hopeless"):
        texts += _draw_bad_checkpoints(random.Random(f"checkpoints {seed}"), shape)
        texts += _draw_leaves(random.Random(f"leaves {seed}"))
    texts += _draw_edits(random.Random(f"edits {seed}"))
    texts += draw_blindness(random.Random(f"blindness {seed}"))
    texts += draw_full_disk(random.Random(f"disk {seed}"))
    if plan == "chaos":
        shape, sick = _draw_sick_node(random.Random(f"nodes {seed}"), shape)
        texts += sick
    if plan == "chaos" and dice.random() < 0.2:
        texts.append(f"stop@time={dice.randrange(5, 200)}")
    if plan == "chaos" and dice.random() < 0.15:  # never a page: with one channel only, nothing could be done about that
        texts.append(f"fails@action={dice.choice(RETRIED[:5])}:times=1,retry=0")
    if plan in ("chaos", "hopeless") and dice.random() < 0.3:
        texts += ["again@time=0:for=60", "again@time=0:for=20"][: dice.randrange(1, 3)]
    lines, hears = dice.choice((5000, 5000, 7)), dice.random() < 0.7
    if dice.random() < 0.15:  # one that outlasts every retry is for a person
        texts.append(f"unreadable@time={dice.randrange(1, 150)}:for={dice.choice((5, 40) if must_finish else (5, 40, 400))}")
    faults = tuple(parse_fault(text) for text in dict.fromkeys(texts))
    return Scenario(seed, shape, faults, observe_only, must_finish, lines, hears)


def _draw_shape(dice: random.Random, seed: int, long_history: bool) -> Shape:
    return Shape(
        steps=dice.randrange(700, 1100) if long_history else dice.randrange(110, 330),
        ranks=dice.choice((1, 2, 2, 4)),
        step_s=dice.choice((0.2, 0.4, 0.7, 1.1)),
        startup_s=dice.choice((1.0, 3.0, 8.0)),
        first_step_s=dice.choice((0.3, 2.0, 20.0)),
        checkpoint_every=dice.choice((10, 20, 25, 50)),
        save_s=dice.choice((0.1, 0.8, 4.0, 12.0)),
        max_skipped=dice.choice((20, 100)),
        curve=LossCurve(seed, loss_noise=dice.choice((0.003, 0.01, 0.02, 0.04))),
    )


def _draw_faults(dice: random.Random, shape: Shape, plan: str) -> list[str]:
    def step() -> int:
        return dice.randrange(2, shape.steps)

    if plan == "one":
        return [_fill(dice, shape, dice.choice(REPAIRABLE), step())]
    if plan == "several":
        places = range(dice.randrange(5, GAP_STEPS), shape.steps, GAP_STEPS)
        return [_fill(dice, shape, dice.choice(REPAIRABLE), place) for place in places]
    if plan == "chaos":
        near = step()
        where = [step() if dice.random() < 0.5 else near for _ in range(dice.randrange(2, 7))]
        return [_fill(dice, shape, dice.choice(BEYOND), place) for place in where]
    if plan == "hopeless":
        return [_fill(dice, shape, dice.choice(HOPELESS), step())]
    return []


def _fill(dice: random.Random, shape: Shape, template: str, step: int) -> str:
    """The template with everything in braces drawn."""
    start = step * shape.batch + dice.randrange(shape.batch)
    drawn = {
        "step": str(step),
        "rank": str(dice.randrange(shape.ranks)),
        "every": str(max(1, step // shape.checkpoint_every) * shape.checkpoint_every),
        "samples": f"{start}-{start + dice.randrange(40, 400)}",
    }
    return re.sub(r"\{([^}]*)\}", lambda found: drawn.get(found[1]) or dice.choice(found[1].split("|")), template)


def _draw_requests(dice: random.Random, shape: Shape) -> list[str]:
    """What people ask meanwhile. Whoever pauses or holds also resumes, and asks twice: the first may come too early."""
    texts: list[str] = []
    while dice.random() < 0.2:
        at_s, what = dice.randrange(1, 200), dice.choice(ASKED)
        to = dice.randrange(shape.steps * (shape.batch if what == "skip" else 1))
        until = f",until={10 + to % 60}" if what == "set" and to % 2 else ""
        texts.append(f"ask@time={at_s}:what={what},to={to}{until}")
        if what in ("pause", "hold"):
            texts += [f"ask@time={at_s + later}:what=resume" for later in (dice.randrange(1, 60), 120)]
    return texts


def _draw_pages(dice: random.Random) -> list[str]:
    """Routes that fail, and people who answer, or who take their time."""
    texts: list[str] = []
    while dice.random() < 0.25:
        does, seconds = dice.choice(("refuses", "hangs")), dice.choice((0, 20, 90, 400))
        texts.append(f"route@time={dice.randrange(0, 150)}:name={dice.choice(ROUTES)},does={does},for={seconds}")
    while dice.random() < 0.4:
        what, number = dice.choice(("ack", "ack", "resolve")), dice.choice((1, 1, 1, 2, 3))
        texts.append(f"ask@time={dice.randrange(1, 900)}:what={what},to={number}")
    return texts


def _draw_leaves(dice: random.Random) -> list[str]:
    """Only where a run need not finish: a checkpoint asked for in the moment in which the weights break may be the only one."""
    kind, at_s, down_s = dice.choice(("leave", "leave", "deadline")), dice.randrange(20, 260), dice.choice((5, 60))
    return [f"{kind}@time={at_s}:for={down_s}"] if dice.random() < 0.2 else []


def _draw_bad_checkpoints(dice: random.Random, shape: Shape) -> list[str]:
    """Checkpoints that are whole by their bytes and no good, mostly with a death soon after them."""
    texts: list[str] = []
    while dice.random() < 0.3:
        step = dice.randrange(shape.checkpoint_every, shape.steps)
        texts.append(_fill(dice, shape, dice.choice(BAD_CHECKPOINTS), step))
        saved = step // shape.checkpoint_every * shape.checkpoint_every
        later = min(shape.steps - 1, saved + dice.randrange(1, shape.checkpoint_every))
        texts += [f"kill@step={later}:rank=0"] if dice.random() < 0.8 else []
    return texts


def _draw_edits(dice: random.Random) -> list[str]:
    """What the next attempt runs is changed under the run."""
    texts = []
    while dice.random() < 0.1:
        texts.append(f"changed@time={dice.randrange(1, 150)}:what={dice.choice(tuple(CHANGES))}")
    return texts


def _draw_sick_node(dice: random.Random, shape: Shape) -> tuple[Shape, list[str]]:
    """Two nodes, of which one fails whatever runs on it."""
    if shape.ranks < 2 or dice.random() > 0.25:
        return shape, []
    return replace(shape, nodes=2), [f"sick_node@step={dice.randrange(2, shape.steps)}:node={dice.randrange(2)}"]


def _draw_supervisor_deaths(dice: random.Random) -> list[str]:
    if dice.random() > 0.4:
        return []
    texts = []
    for _ in range(dice.randrange(1, 4)):
        place = dice.choice(("time", "journal", "effect"))
        at = {"time": dice.randrange(1, 200), "journal": dice.randrange(1, 40), "effect": dice.randrange(1, 9)}[place]
        side = "" if place == "time" else f",side={dice.choice(('before', 'after'))}"
        texts.append(f"supervisor_kill@{place}={at}:for={dice.choice((1, 5, 40))}{side}")
    return texts
