"""Lines that show a trainer at work: what stands before the last of them was survived.

Wider than the formats that `telemetry` reads numbers from: a line of any trainer that names a step and one of the figures that
are logged with it, and a progress bar over batches. A line that speaks of a failure shows no progress, whatever step it names.
"""

from __future__ import annotations

from sentinel.client.late_regex import late_regex

PROGRESS_CHARS = 600
_WORDS = ("step", "iter", "epoch", "it/s", "s/it", "batch", "'loss'", "update")
# "iteration 120 / 400 | lm loss: 2.1", "step 20 loss 0.1", "step: 10  loss:  7.8", "iter 100: loss 2.3, time 210ms"
_STEP = late_regex(
    r"(?i)(?:^|[\s\[(|,{\"'_/-])(?:global[ _]?)?(?:step|steps|iteration|iter|batch_idx|batch|num_updates|update|it)s?[\"']?"
    r" ?[:=#]?\s{0,12}\[?(\d{1,12})(?![\d.]*[A-Za-z_])"
)
_FIGURE = late_regex(
    r"(?i)(?:loss|lr|learning[ _]rate|grad[ _]?norm|gnorm|ppl|perplexity|tok(?:en)?s?(?: per "
    r"|/)s(?:ec(?:ond)?)?(?:/gpu)?|throughput"
    r"|tflops?(?:/s)?(?:/gpu)?|mfu|samples(?: per |/)s(?:ec)?(?:ond)?|samplespersec|samples/sec|time|elapsed|dt|ms"
    r"|it/s|s/it|consumed[ _]\w+|tps|memory|accuracy|acc"
    r"|reward|step_time|iter_time)\b[\"']?\s{0,8}[:=]?\s{0,8}[-+]?\.?\d|\d ?(?:ms|it/s|s/it|tok/s|tokens/s|samples/s)\b"
)
# "step 21", "Step 21/1000", "training step 120 completed", "iteration 80 done"
_PLAIN = late_regex(
    r"(?i)^\W{0,3}(?:\w{3,12}\s?[:|\-]\s?){0,2}(?:finished |completed |done |end(?:ed)? (?:of )?)?(?:train(?:ing"
    r"|er)?[ _:])?\s?(?:global[ _])?"
    r"(?:step|iteration|iter)\s?[:=#]?\s?\d{1,12}(?:\s?(?:/|of)\s?\d{1,12})?\W{0,3}(?:$|done|complete|finished|ok\b|took|end)"
)
# tqdm and Lightning: "Epoch 0:  12%|█▏   | 120/1000 [00:12<01:30, 9.8it/s, v_num=1]"
_BAR = late_regex(r"\d{1,3}%\|.*\| *\d+/\d+ \[[\d:]+<[\d:?]+,")
_BAR_OF_OTHER_WORK = late_regex(
    r"(?i)^\W*(?:loading|download|map|tokeniz|filter|generat|sav|fetch|writ|resolv|process|sanity|valid|eval|test|upload|pack|shard|convert|read|index)"
)
_LLM_C = late_regex(r"^s:\d+ (?:trl|tel):")
_PRINTED = late_regex(r"^\s*\{'(?:loss|train_loss|epoch|grad_norm)': ")
_FAILURE = late_regex(
    r"(?i)error|exception|traceback|fail|abort|timed? ?out|fatal|kill|\bcrash|assert|terminat|interrupt|preempt"
    r"|cancel|signal|unexpected"
    r"|\bresum|\brestor|\breload|\bload(?:ed|ing)?\b|\bsav(?:e|ed|ing)\b|checkpoint|\bskip(?!ped (?:iter|step)|ped=)"
    r"|rewind|start(?:ing|ed)? (?:from|at)|begin|\bwait|stuck|hang"
)


# A trainer's last word: whatever was printed before it did not end the run
_FINISHED = late_regex(
    r"(?i)\b(?:training|run|job|pretraining) (?:is |has |was )?(?:complete|completed|finished|done)\b(?! with (?:error|fail))"
    r"|\bfinished training\b|\[after training is done\]|'train_runtime':|max_(?:steps|epochs)=\d+` reached"
    r"|\bexited successfully\b"
    r"|\bexiting program (?:at iteration|after) \d"
)
_FINISHED_WORDS = ("finish", "complete", "done", "train_runtime", "reached", "exited succ", "exiting program")


# What launchers and trainers print once, when they start: torchrun (at its start, and when its agent starts the workers anew),
# DeepSpeed's launcher, Megatron-LM's first rank
_LAUNCH = late_regex(
    r"Setting OMP_NUM_THREADS environment variable for each process to be|Starting elastic_operator with launch configs"
    r"|attempts? left; will restart worker group|\[launch\.py:\d+:main\] dist_world_size=|\busing world size: ?\d+, data-parallel"
)
_LAUNCH_WORDS = ("omp_num_threads", "elastic_operator", "restart worker group", "dist_world_size=", "using world size")

SHOWING_WORDS = (*_WORDS, *_FINISHED_WORDS, *_LAUNCH_WORDS, " trl:")
_BROKEN = late_regex(r"(?i)error|exception|fail|abort|fatal|\bnot\b(?! forget to share)|before|until|unexpected|early")


def may_show_progress(line: str) -> bool:
    """Whether the line holds a word without which no line shows progress. For whoever passes over many lines."""
    lower = line.lower()
    return any(word in lower for word in SHOWING_WORDS)


def is_progress(text: str) -> bool:
    """Whether this line, without its labels, shows that a step was made."""
    if len(text) > PROGRESS_CHARS and "iteration" not in text[:200]:
        return False
    head = text[:PROGRESS_CHARS]
    if head.startswith("  File "):
        return False
    lower = head.lower()
    if not any(word in lower for word in _WORDS) and not any(word in lower for word in _FINISHED_WORDS):
        return _LLM_C.match(head) is not None
    if "number of nan iterations" in lower or "number of skipped iterations" in lower:
        return True  # Megatron's row: its own words name what the others take for failures
    if _FINISHED.search(head) is not None and not head[:1].isspace():
        return _BROKEN.search(head) is None
    if _FAILURE.search(head):
        return False
    if _PRINTED.match(head):
        return True
    if "%|" in head:
        return _BAR.search(head) is not None and _BAR_OF_OTHER_WORK.match(head) is None
    return (_STEP.search(head) is not None and _FIGURE.search(head) is not None) or _PLAIN.match(head) is not None


def is_launch(text: str) -> bool:
    """Whether a launch begins with this line: what stands before it belongs to an earlier one."""
    return _LAUNCH.search(text[:PROGRESS_CHARS]) is not None


def is_finish(text: str) -> bool:
    """Whether this line is the last word of a trainer that came to its end."""
    return is_progress(text) and _FINISHED.search(text[:PROGRESS_CHARS]) is not None


def step_of(text: str) -> int | None:
    """The step that a line names."""
    found = _STEP.search(text[:PROGRESS_CHARS])
    return None if found is None else int(found[1])
