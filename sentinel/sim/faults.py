"""What goes wrong in a simulated run: one line per fault, the trainer's own grammar with a few kinds more.

    kill@step=120:rank=1           SIGKILL to a rank             hang@step=90:rank=1        SIGSTOP to a rank
    stuck@step=90:rank=1,phase=data,how=stopped,busy=0,stacks=1,for=0   the rank makes no progress from that phase on: it is
                                   stopped, blocked, works, or runs and shows nothing; the others wait for it; stacks=0: none
                                   offers its Python stack; busy=1: all are heard and seen late; for so many seconds (0: for good)
    crash@step=80                  the rank raises               exit@step=80:code=3        it leaves with a code of PROTOCOL.md
    bad_data@sample=1600-2000      random bytes, whenever trained on; heals=fast|slow|never says how the weights take it,
                                   and loss=6.2 what a model that has learned text makes of them, in nats
    nan_grad@step=90:length=1      so many gradients are NaN and gated          nan_state@step=90   every parameter becomes NaN
    spike@step=90:length=6,height=2   a transient that leaves no wound
    unstable@step=90:growth=1.2    the loss diverges, growing so many times a step, unless the learning rate is low
    slow@step=60:for=4             one slow step (seconds)       damaged_line@step=70       the step's line cannot be read
    bit_rot@step=100               that checkpoint rots          keeper_kill@step=40        the keeper dies, its ranks live on
    bad_numbers@step=100:seen=norm  its bytes are whole and its numbers are not: its manifest tells another norm than the stream,
                                   or elements that are not finite (finite), or only what is loaded differs (load)
    bad_resume@step=100:after=0    whoever resumes from that checkpoint dies, loading it or so many steps later
    bit_flip@step=90:rank=1,height=2   a bit of that rank's weights flips, once: the loss rises for good
    sick_optimizer@step=90:later=34,height=2   the optimizer's state is damaged; so much later the gradients explode, for good
    drift@step=90:height=0.6       from then on the loss climbs by so many nats in a hundred updates, for good
    scale_collapse@step=90:length=4   fp16: so many updates in a row overflow and are left out, each halves the loss scale
    scale_falls@step=4700:length=3000,height=64,before=4096   fp16: the loss scale halves at equal distances, by 64 in all (BLOOM)
    activations_rise@step=5000:length=15000,height=0.75   the activations' norm rises evenly by this share (OPT-175B)
    gradient_creeps@step=5000:length=30000,height=0.25    so does the gradient norm
    parameters_turn@step=9000:length=10000,height=0.05    the parameters' norm grew, and now falls by this share
    clips_more@step=9000:height=0.5   so much more of the steps is clipped; none of these five is in the loss, or ever ends
    unseen@step=90:how=client,for=120   the launcher's client and the ranks on its machine die, at once or when the attempt
                                   is stopped (how=stop); those on other machines hang unseen, for so many seconds (0: for good)
    refused@time=60:times=3,how=launch   the scheduler starts so many launches not (0: none any more), and says so: in the log of
                                   the attempt, or to the launcher (how=start)
    sick_node@step=120:node=1      from then on whatever runs on that node loses its GPU (an Xid; xid=0: the kernel says nothing),
                                   and dies 10 s later
    node_says@time=60:node=1,says=sick   from then on the check of that node says so: sick, healthy (whatever it has), unknown,
                                   or mended: healthy, and sick_node strikes there no more. Without it, a node that sick_node
                                   struck is sick, and all others are healthy
    deaf@step=0                    the trainer ignores overrides, and its receipt says so
    blind@time=60:source=metrics,for=30   a source cannot be read    term@step=50           SIGTERM to the command from outside
    unreadable@time=60:for=30      for so long no checkpoint can be read (a stale file handle), though every one is whole
    disk@time=60:left=1,for=60     somebody fills the disk: so many checkpoints more find room, until somebody makes plenty
    changed@time=60:what=code      what the next attempt runs: other code, another library, or it cannot be read (unread)
    supervisor_kill@time=60:for=5  kill -9 of sentinel, restarted so many seconds later; also @journal=N:side=before|after and
                                   @effect=N:side=before|after, at the Nth append to the journal or effect on the world
    fails@action=StartAttempt:times=2,retry=5   an action fails so often (retry=0: for good)
    leave@time=90:for=60           SIGUSR1 to sentinel, which is started again so many seconds after it has left
    deadline@time=90:for=60        the machine is taken away then, as sentinel is told at its start; and as leave
    stop@time=90                   a person stops the run        again@time=0:for=60        a person starts an ended run again
    ask@time=60:what=rollback,to=100   a person asks: pause, resume, hold, rollback, set (half the rate), clip (at 0.5; both with
                                   until=N steps), skip (length=N at `to`), ack and resolve (of incident `to`), note, uncordon and
                                   force (of node `to`)
    route@time=0:name=phone,does=hangs,for=0   pages on that route hang or are refused, for so many seconds (0: for good)

A step fault strikes before its step's forward, once per run unless it ends in `:always` (then from that step on); with
`attempt=N` it waits for that attempt. Step 0 is before the first step of an attempt, or while an inspection looks at samples.
Times count from the run's first launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sentinel.errors import UsageError
from sentinel.model import actions as a
from sentinel.model import operator_requests as w
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.readings import Phase, RequestReading
from sentinel.model.recorded import recorded_name
from sentinel.sim.declines import DECLINES
from sentinel.sim.learning import HEALING
from sentinel.sim.program_changes import CHANGES

STEP, SAMPLE, TIME, JOURNAL, EFFECT, ACTION = "step", "sample", "time", "journal", "effect", "action"

Kinds = Mapping[str, tuple[tuple[str, ...], dict[str, str]]]  # kind → where it may be placed, its options with their defaults
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "kill": ((STEP,), {"rank": "0"}),
    "hang": ((STEP,), {"rank": "0"}),
    "stuck": ((STEP,), {"rank": "0", "phase": "data", "how": "stopped", "busy": "0", "stacks": "1", "for": "0"}),
    "crash": ((STEP,), {"rank": "0"}),
    "exit": ((STEP,), {"code": "1"}),
    "bad_data": ((SAMPLE,), {"heals": "slow", "loss": "6.2"}),
    "nan_grad": ((STEP,), {"length": "1"}),
    "nan_state": ((STEP,), {}),
    "spike": ((STEP,), {"length": "6", "height": "2"}),
    "unstable": ((STEP,), {"heals": "slow", "growth": "1.2"}),
    "slow": ((STEP,), {"for": "4"}),
    "bit_flip": ((STEP,), {"rank": "0", "height": "2"}),
    "sick_optimizer": ((STEP,), {"later": "34", "height": "2"}),
    "drift": ((STEP,), {"height": "0.6"}),
    "scale_collapse": ((STEP,), {"length": "4"}),
    **{kind: ((STEP,), dict(decline.options)) for kind, decline in DECLINES.items()},
    "damaged_line": ((STEP,), {"length": "1"}),
    "bit_rot": ((STEP,), {}),
    "bad_numbers": ((STEP,), {"seen": "norm"}),
    "bad_resume": ((STEP,), {"after": "0"}),
    "keeper_kill": ((STEP,), {}),
    "sick_node": ((STEP,), {"node": "1", "xid": "1"}),
    "node_says": ((TIME,), {"node": "1", "says": "sick"}),
    "unseen": ((STEP,), {"how": "client", "for": "120"}),
    "refused": ((TIME,), {"times": "3", "how": "launch"}),
    "deaf": ((STEP,), {}),
    "term": ((STEP,), {}),
    "blind": ((TIME,), {"source": "metrics", "for": "30"}),
    "unreadable": ((TIME,), {"for": "30"}),
    "disk": ((TIME,), {"left": "1", "for": "60"}),
    "changed": ((TIME,), {"what": "code"}),
    "supervisor_kill": ((TIME, JOURNAL, EFFECT), {"for": "2", "side": "before"}),
    "fails": ((ACTION,), {"times": "1", "retry": "2"}),
    "stop": ((TIME,), {}),
    "again": ((TIME,), {"for": "60"}),
    "leave": ((TIME,), {"for": "60"}),
    "deadline": ((TIME,), {"for": "60"}),
    "ask": ((TIME,), {"what": "pause", "to": "0", "length": "32", "until": "0"}),
    "apply": ((TIME,), {"policy": "cautious"}),
    "route": ((TIME,), {"name": "terminal", "does": "refuses", "for": "0"}),
}
SOURCES = ("metrics", "heartbeats", "checkpoints", "launcher")
ACTIONS = tuple(recorded_name(kind) for kind in a.ACTIONS)
ASKED = ("pause", "resume", "hold", "rollback", "set", "skip")
SEEN = ("norm", "finite", "load")
OF_CHECKPOINTS = ("bit_rot", "bad_numbers", "bad_resume")  # they strike what is saved at their step, not the step
PHASES: tuple[Phase, ...] = ("data", "forward", "backward", "optimizer")
WORDS: dict[str, tuple[str, ...]] = {
    "phase": PHASES, "how": ("stopped", "blocked", "works", "runs"),
    "heals": tuple(HEALING), "source": SOURCES, "side": ("before", "after"), "seen": SEEN, "does": ("refuses", "hangs"),
    "says": ("sick", "healthy", "unknown", "mended"),
}  # fmt: skip
HOW = {"unseen": ("client", "stop"), "refused": ("launch", "start")}
WHAT = {"ask": (*ASKED, "clip", "ack", "resolve", "note", "uncordon", "force"), "changed": tuple(CHANGES)}


@dataclass(frozen=True, slots=True)
class Fault:
    """`text` is its identity; `at` the number of its place, `behind` the end of a sample range, `word` an action's name."""

    text: str
    kind: str
    place: str
    at: float = 0.0
    behind: int = 0
    word: str = ""
    options: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    always: bool = False

    def number(self, option: str) -> float:
        return float(self.options[option])

    @property
    def step(self) -> int:
        return int(self.at)


def parse_fault(text: str, kinds: Kinds | None = None) -> Fault:
    """One line as a fault, of `kinds` (those of the simulator). Raises UsageError naming what is wrong and what to write."""
    kinds = KINDS if kinds is None else kinds
    head, *tail = text.split(":")
    kind, at, where = head.partition("@")
    if kind not in kinds:
        raise _wrong(text, f"unknown kind {kind!r}", f"one of {', '.join(kinds)}")
    places, defaults = kinds[kind]
    place, equals, value = where.partition("=")
    if not at or not equals or place not in places:
        raise _wrong(text, f"{kind} has no place {where!r}", " or ".join(f"{kind}@{place}=…" for place in places))
    options, attempt, always = dict(defaults), 0, False
    for item in (item for part in tail for item in part.split(",")):
        key, equals, given = item.partition("=")
        if item == "always" and place == STEP:
            always = True
        elif key == "attempt" and equals and place == STEP:
            attempt = int(_number(text, key, given))
        elif key not in defaults or not equals:
            known = ", ".join([*defaults, "attempt", "always"] if place == STEP else defaults)
            raise _wrong(text, f"{kind} takes no {item!r}", known or "nothing behind its place")
        else:
            options[key] = _option(text, kind, key, given)
    if place == SAMPLE:
        start, _, end = value.partition("-")
        first, behind = _number(text, place, start), _number(text, place, end)
        if first >= behind:
            raise _wrong(text, f"the range {value} is empty", "sample=A-B with A below B")
        return Fault(text, kind, place, first, int(behind), "", options)
    if place == ACTION:
        if value not in ACTIONS:
            raise _wrong(text, f"no action is called {value!r}", f"one of {', '.join(ACTIONS)}")
        return Fault(text, kind, place, 0.0, 0, value, options)
    return Fault(text, kind, place, _number(text, place, value), 0, "", options, attempt, always)


def _option(text: str, kind: str, key: str, given: str) -> str:
    words = WHAT.get(kind) if key == "what" else HOW.get(kind, WORDS["how"]) if key == "how" else WORDS.get(key)
    if key in ("name", "policy"):
        if not given.replace("-", "").replace("_", "").isalnum():
            raise _wrong(text, f"{key}={given!r} is no name", f"{key}=terminal")
    elif words is None:
        _number(text, key, given)
    elif given not in words:
        raise _wrong(text, f"{key}={given!r}", f"{key}={'|'.join(words)}")
    return given


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise _wrong(text, f"{key}={value!r} is not a number", f"digits, for example {key}=30") from None
    if not 0.0 <= number < 1e9:
        raise _wrong(text, f"{key}={value!r} is out of range", "a number from 0 on")
    return number


def _wrong(text: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"fault {text!r}: {what}; write {remedy}")


def request_of(fault: Fault) -> RequestReading:
    """What a simulated person asks: the `ask` fault as a request, and `apply`."""
    if fault.kind == "apply":
        return RequestReading(fault.text, "a person", w.ApplyPolicy(fault.options["policy"]))
    to, until = int(fault.number("to")), int(fault.number("until")) or None
    requests: dict[str, w.OperatorRequest] = {
        "pause": w.PauseRun(),
        "resume": w.ResumeRun(),
        "hold": w.HoldRun(),
        "rollback": w.RollBack(to),
        "set": w.ChangeSettings(SettingsInForce(lr_scale=0.5), ("lr_scale",), until),
        "clip": w.ChangeSettings(SettingsInForce(clip_norm=0.5), ("clip_norm",), until),
        "ack": w.Acknowledge(to),
        "resolve": w.Resolve(to),
        "uncordon": w.Readmit(f"node{to}"),
        "force": w.Readmit(f"node{to}", force=True),
        "note": w.Remark("a word for the record"),
        "skip": w.LeaveOut(SampleRange(to, to + max(1, int(fault.number("length"))))),
    }
    return RequestReading(fault.text, "a person", requests[fault.options["what"]])
