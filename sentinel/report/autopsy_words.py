"""How an autopsy reads: one JSON object, or a few lines for a person with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

from sentinel.detectors.crash_patterns import CrashClass
from sentinel.report.autopsy import EMPTY, NOBODY, NOTHING, Autopsy

UNREAD_SHOWN = 5


def autopsy_document(found: Autopsy) -> dict[str, Any]:
    """The keys that scripts rely on, and behind them what only some logs have."""
    document: dict[str, Any] = {
        "file": str(found.path),
        "class": None if found.crash is None else found.crash.value,
        "rank": found.rank,
        "line": found.line,
        "evidence": found.evidence,
        "retryable": found.retryable,
        "blamed_ranks": list(found.blamed),
        "reason": found.error or reason(found),
        "log": None if found.log is None else str(found.log),
        "seen_by": found.seen_by,
        "last_step": found.last_step,
        "is_cut": found.is_cut,
        "error": found.error,
    }
    if (word := found.by_policy) is not None:
        document["by_policy"] = {
            "name": word.rule, "class": word.words, "rank": word.rank, "log": str(word.log), "line": word.line,
            "evidence": word.evidence, "exclude_node": word.excludes, "retry": word.retries,
        }  # fmt: skip
    if found.unread:
        document["unread"] = list(found.unread)
    return document


def reason(found: Autopsy) -> str:
    """One sentence: what, who, and how it ended."""
    if found.is_empty:
        return "unknown: nothing of it could be read" if found.unread else EMPTY
    if found.dumps:
        return NOBODY.format(found.dumps, "" if found.dumps == 1 else "s")
    if found.crash is None:
        return NOTHING + (", as far as it was read" if found.unread else ", as far as it was searched" if found.is_cut else "")
    parts: list[str] = [found.crash.value]
    if found.rank is not None:
        parts.append(f" on rank {found.rank}")
    elif len(found.blamed) > 1:
        parts.append(f" on ranks {', '.join(map(str, found.blamed))}")
    if found.seen_by is not None:
        parts.append(f", seen by rank {found.seen_by}")
    if found.evidence:
        parts.append(f": {found.evidence}")
    if found.exit_words:
        parts.append(f" ({'it' if found.rank is None else f'rank {found.rank}'} {found.exit_words})")
    return "".join(parts)


def autopsy_text(found: Autopsy) -> str:
    """A few lines: what died, where it stands, what to do."""
    if found.error is not None:
        return f"{found.path}\n  could not be read: {found.error}"
    lines = [str(found.path), f"  {_head(found)}"]
    if found.evidence:
        lines.append(f"  {_where(found)}: {found.evidence}")
    if found.last_step is not None:
        lines.append(f"  the newest step line before it names step {found.last_step}")
    if found.is_cut:
        lines.append("  only the end of the log was searched; what stands further up is unknown")
    if found.by_policy is not None:
        lines.append(f"  by the policy: {found.by_policy.text}")
    lines += [f"  not read: {name}" for name in found.unread[:UNREAD_SHOWN]]
    if (more := len(found.unread) - UNREAD_SHOWN) > 0:
        lines.append(f"  not read: {more} more (--json names them)")
    if found.crash is not None:
        lines.append(f"  what to do: {advice(found)}")
    return "\n".join(lines)


def _head(found: Autopsy) -> str:
    if found.crash is None:
        return reason(found)
    who = (
        "which rank is to blame is unknown"
        if not found.blamed
        else f"rank {found.rank}"
        if found.rank is not None
        else "ranks " + ", ".join(map(str, found.blamed))
    )
    how = f", which {found.exit_words}" if found.exit_words and found.rank is not None else ""
    seen = f", seen by rank {found.seen_by}" if found.seen_by is not None else ""
    if not found.blamed and found.crash is CrashClass.PREEMPTION:
        return f"{found.crash.value}{seen}"  # of the whole job: no rank is to blame
    return f"{found.crash.value}: {who}{how}{seen}"


def _where(found: Autopsy) -> str:
    path = found.log or found.path
    shown = path.relative_to(found.path) if found.path in path.parents else Path(path.name)
    return f"{shown}:{found.line}" if found.line is not None else str(shown)


def advice(found: Autopsy) -> str:
    """What a person does next."""
    assert found.crash is not None
    rank = "the rank that failed" if found.rank is None else f"rank {found.rank}"
    match found.crash:
        case CrashClass.NON_FINITE:
            return "roll back to a checkpoint from before the first bad value; the newest one may already be damaged"
        case CrashClass.OUT_OF_MEMORY:
            return "relaunch; if it comes again at the same place, make the micro-batch smaller or free memory on the host"
        case CrashClass.COLLECTIVE_TIMEOUT if found.blamed:
            return "look at what the blamed ranks did when the others waited: their last lines, their stacks, their nodes"
        case CrashClass.COLLECTIVE_TIMEOUT:
            return (
                "find the rank that did not come: flight-recorder dumps, stacks (py-spy), the health of the nodes; then relaunch"
            )
        case CrashClass.CUDA_ERROR:
            return f"relaunch once; if it comes again on the GPU of {rank}, take its node out; if on another, suspect the program"
        case CrashClass.LOST_GPU:
            return f"take the node of {rank} out until its GPU was reset or the node rebooted, and relaunch without it"
        case CrashClass.CONFIGURATION:
            return "correct the command, the configuration or the environment; a relaunch alone cannot help"
        case CrashClass.PREEMPTION:
            return "relaunch from the newest checkpoint when there is room again"
        case CrashClass.DISK_FULL:
            return "make room or raise the quota, check that the newest checkpoint is whole, and relaunch"
        case CrashClass.IO_ERROR:
            return f"check the file system on the node of {rank}, and the file that is named, then relaunch"
        case CrashClass.ENGINE:
            return "Slurm could not start it: look at its controller and at the nodes that the line names, and start it again."
        case CrashClass.NETWORK:
            return (
                f"check the network of the node of {rank}: ports, cables, name service, the service that is named; then relaunch"
            )
        case CrashClass.KILLED if found.evidence is not None and found.evidence.startswith("KeyboardInterrupt"):
            return "find out who sent SIGINT (Ctrl-C, a script, a launcher that stops its ranks), and relaunch"
        case CrashClass.KILLED:
            return f"look in the kernel log of the node of {rank} at that time: the OOM killer, an Xid, a crash in native code"
        case CrashClass.ERROR:
            return "read the traceback in front of that line; relaunch only if it can pass by itself"
        case CrashClass.PEER_LOST:
            return "what ended first is not in this log: look at the logs of the other ranks and nodes"
    assert_never(found.crash)
