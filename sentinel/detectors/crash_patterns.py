"""What the last lines of a log say about a death: a table of patterns, each with the program that prints it.

The first pattern that fits a line decides, so the narrower stands above the wider. The tier says how far back in the chain of
causes such a line points: a peer that lost its connection (SYMPTOM) never outranks whoever broke it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum

LINE_CHARS = 400  # of a line that are looked at


class CrashClass(StrEnum):
    """What an attempt died of, in the words that begin the finding's reason."""

    OUT_OF_MEMORY = "out of memory"
    COLLECTIVE_TIMEOUT = "collective timeout"
    CUDA_ERROR = "CUDA error"
    LOST_GPU = "lost GPU"
    CONFIGURATION = "import or configuration error"
    PREEMPTION = "preemption"
    DISK_FULL = "disk full"
    KILLED = "killed by signal"
    ERROR = "error"
    PEER_LOST = "lost its peers"


class Tier(IntEnum):
    """How near to the beginning of the chain of causes; smaller outranks larger."""

    TAKEN_AWAY = 0  # the machine or the allocation went: whatever else is printed follows from it
    CAUSE = 1
    DEATH = 2  # an unknown exception, a signal: a cause, but one that says little
    TIMEOUT = 3  # somebody did not come: who waited is not who failed
    TERMINATED = 4  # SIGTERM, SIGABRT: mostly sent because of something else
    SYMPTOM = 5


# Known to lie outside what the run resumes from: a checkpoint is never blamed for these.
OUTSIDE = frozenset(
    {
        CrashClass.OUT_OF_MEMORY, CrashClass.COLLECTIVE_TIMEOUT, CrashClass.CUDA_ERROR, CrashClass.LOST_GPU,
        CrashClass.CONFIGURATION, CrashClass.PREEMPTION, CrashClass.DISK_FULL, CrashClass.PEER_LOST,
    }
)  # fmt: skip
RETRYABLE = {crash: crash is not CrashClass.CONFIGURATION for crash in CrashClass}


@dataclass(frozen=True, slots=True)
class Pattern:
    """`last`: counts only as the last exception of its log; an import that failed and was caught is no cause."""

    crash: CrashClass
    tier: Tier
    fits: re.Pattern[str]
    last: bool = False


def _words(crash: CrashClass, tier: Tier, *expressions: str, last: bool = False) -> list[Pattern]:
    return [Pattern(crash, tier, re.compile(expression), last) for expression in expressions]


PATTERNS: tuple[Pattern, ...] = (
    *_words(
        CrashClass.PREEMPTION, Tier.TAKEN_AWAY,
        # Slurm: slurmstepd's last word, "*** JOB 71 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***"
        r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|TIME LIMIT|NODE FAILURE|JOB REQUEUE)|DUE TO PREEMPTION",
        # Kubernetes: a node that is drained; AWS and GCP: the notice of a reclaimed machine
        r"(?i)\bspot instance interruption\b|\binstance was preempted\b|\bPreemptionByScheduler\b|\bDisruptionTarget\b",
    ),
    *_words(
        CrashClass.LOST_GPU, Tier.TAKEN_AWAY,
        # NVIDIA's kernel driver: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
        r"(?i)\bfallen off the bus\b|\bfell off the bus\b|\bXid ?(?:\([^)]{1,40}\))?: ?(?:79|154)\b",
        # NVML and nvidia-smi: "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost."
        r"\bGPU is lost\b|NVML_ERROR_GPU_IS_LOST",
        # CUDA runtime (cudaErrorNoDevice, cudaErrorDevicesUnavailable, cudaErrorSystemNotReady) through torch
        r"(?i)no CUDA-capable device is detected|CUDA-capable device\(s\) is/are busy or unavailable|system not yet initialized",
        # torch/cuda/__init__.py at the first use of a device
        r"No CUDA GPUs are available|Found no NVIDIA driver on your system",
    ),
    *_words(
        CrashClass.DISK_FULL, Tier.CAUSE,
        # The kernel's ENOSPC and EDQUOT as Python, C++ streams and torch's file writer pass them on
        r"\[Errno 28\]|\bNo space left on device\b|\[Errno 122\]|\bDisk quota exceeded\b|\bENOSPC\b",
        # torch.save: "PytorchStreamWriter failed writing file data/12: file write failed"
        r"PytorchStreamWriter failed writing file",
    ),
    *_words(
        CrashClass.OUT_OF_MEMORY, Tier.CAUSE,
        # torch 2.x c10/cuda/CUDACachingAllocator.cpp; older: RuntimeError; the runtime's own cudaErrorMemoryAllocation
        r"CUDA out of memory\b|CUDA error: out of memory|OutOfMemoryError\b|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
        # NCCL allocating its buffers: "Failed to CUDA calloc 6291456 bytes"; "Cuda failure 2 'out of memory'"
        r"Failed to CUDA (?:calloc|host alloc)|Cuda failure (?:\d+ )?'out of memory'",
        # The kernel: "Out of memory: Killed process 41 (python)", "Memory cgroup out of memory: Killed process 41"
        r"(?i)\bout of memory: Killed process\b|\boom-kill:constraint=",
        # Slurm: slurmstepd "Detected 1 oom_kill event in StepId=7.0", srun "n1: task 3: Out Of Memory"
        r"(?i)Detected \d+ oom[-_]kill event|\btask \d+: Out Of Memory|Exceeded (?:step|job) memory limit",
        # Kubernetes: the container's reason; our own look at the cgroup's counter (telemetry/log_tail.py)
        r"\bOOMKilled\b|^cgroup memory\.events: oom_kill rose",
        # Host allocations that failed: Python, glibc, C++, torch's CPU allocator
        r"^MemoryError\b|ArrayMemoryError\b|\[Errno 12\]|\bstd::bad_alloc\b|DefaultCPUAllocator: can't allocate memory",
        # torch/utils/data: a worker that the kernel killed; "Bus error ... insufficient shared memory (shm)"
        r"DataLoader worker \(pid\(?s?\)? [^)]*\)? ?(?:is|exited) .*(?:Killed|Bus error)|insufficient shared memory \(shm\)",
    ),
    *_words(
        CrashClass.PEER_LOST, Tier.SYMPTOM,
        # NCCL's ncclRemoteError and what its sockets print; NCCL names a remote death an "unhandled system error" too
        r"remote process exited|ncclRemoteError|Net ?: ?(?:Call to recv|Connection closed)|ncclSystemError",
        # gloo and c10d's store: "Connection closed by peer [10.0.0.3]:4711", "recvValue failed", "Broken pipe"
        r"(?i)connection (?:was )?(?:reset|closed|refused|aborted) ?(?:by peer)?|\bBroken pipe\b|\bsocket closed\b",
        r"recvValue failed|sendBytes failed|Failed to recv, got 0 bytes|TCPStore.*(?:failed|broken)",
        # NCCL's abort on the ranks that were told to stop waiting
        r"NCCL communicator was aborted|ncclCommAbort|Could not receive type",
    ),
    *_words(
        CrashClass.CUDA_ERROR, Tier.CAUSE,
        # The runtime's words through torch: "CUDA error: an illegal memory access was encountered"
        r"CUDA error: |\bCUDA (?:runtime )?error \(?\d+\)?|an illegal memory access was encountered|device-side assert triggered",
        # Kernels' own assertions, "…/IndexKernel.cu:92: operator(): block: [0,0,0], thread: [1,0,0] Assertion `…` failed."
        r"\.cuh?:\d+: .*Assertion .*failed|unspecified launch failure|misaligned address|uncorrectable (?:\w+ )?error",
        # cuBLAS, cuDNN and Triton as torch passes them on; the driver's Xids that name an engine or an ECC error
        r"CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|Triton Error \[CUDA\]|(?i:\bXid ?(?:\([^)]{1,40}\))?: ?\d+)",
    ),
    *_words(
        CrashClass.COLLECTIVE_TIMEOUT, Tier.TIMEOUT,
        # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
        r"Watchdog caught collective operation timeout|collective operation timeout|failure detected by watchdog",
        r"(?i)detected by watchdog at work|watchdog got stuck for|due to a collective timeout|taking the entire process down",
        # gloo/transport/tcp/unbound_buffer.cc: "Timed out waiting 1800000ms for recv operation to complete"
        r"Timed out waiting \d+ms for (?:send|recv) operation|monitoredBarrier.*(?:timed out|timeout)",
        # c10d's store and rendezvous: "Timed out after 601 seconds waiting for clients. 3/4 clients joined."
        r"Timed out after \d+ seconds waiting for clients|client socket has timed out|wait timeout after \d+ ?ms|Socket Timeout",
    ),
    *_words(
        CrashClass.CONFIGURATION, Tier.CAUSE,
        # The interpreter, uncaught
        r"^(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError)\b",
        # Configuration libraries, uncaught: hydra, omegaconf, PyYAML
        r"^(?:hydra\.errors|omegaconf\.errors|yaml\.(?:scanner|parser))\.\w+",
        last=True,
    ),
    *_words(
        CrashClass.CONFIGURATION, Tier.CAUSE,
        # argparse and click before anything ran
        r"^[\w./-]+: error: (?:the following arguments are req|unrecognized arguments|argument |ambiguous option|one of the)",
        r"^Error: (?:No such option|Missing (?:option|argument)|Invalid value for)",
        # The interpreter and the shell: "python: can't open file", "No module named train", "train.sh: command not found"
        r"can't open file '[^']*': \[Errno 2\]|^\S*python[\d.]*: No module named |: command not found$",
    ),
    *_words(
        CrashClass.PREEMPTION, Tier.TERMINATED,
        # torch/distributed/elastic: the agent itself was told to go
        r"Received (?:Signals\.)?SIGTERM death signal|SignalException: Process \d+ got signal: 15",
        # Slurm: a plain cancel, by a person or after a task's failure: it says little
        r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT",
    ),
)  # fmt: skip

# An uncaught exception's last line; torchrun's own summary and a wanted exit say nothing of the cause.
EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt)\b(?=:|$)")
SAYS_NOTHING = re.compile(r"^(?:\w+\.)*(?:ChildFailedError|SignalException|KeyboardInterrupt|CalledProcessError)\b")
# Who wrote a line: torch's excepthook and logger "[rank3]:", torchrun's tee "[default3]:", srun --label "3: "
WRITER = re.compile(r"^\s*(?:\[(?:rank|default|trainer|worker)?(\d{1,7})\]:?|(\d{1,7}):)\s?")
# … or is named in c10d's own brackets, "[PG ID 0 PG GUID 0(default_pg) Rank 1]", or by srun, whose tasks are the ranks
SELF_NAMED = re.compile(r"\[(?:PG [^\]]*)?Rank (\d{1,7})\]|\btask (\d{1,7}): Out Of Memory")
# torch 2.0-2.8: "last enqueued NCCL work: 811", "last enqueued work: 2855"
ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d{1,18})")


def match_line(line: str) -> Pattern | None:
    """The first pattern that fits; None for a line that says nothing of a death."""
    return next((pattern for pattern in PATTERNS if pattern.fits.search(line)), None)
