"""What the last lines of a log say about a death: a table of patterns, each with the program that prints it.

The first pattern that fits a line decides, so the narrower stands above the wider. The tier says how far back in the chain of
causes such a line points: a peer that lost its connection (SYMPTOM) never outranks whoever broke it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache, lru_cache

from sentinel.client.late_regex import late_regex
from sentinel.detectors.crash_words import required_words
from sentinel.detectors.engine_words import REFUSED
from sentinel.detectors.xids import UNKNOWN_XID, XIDS, Need

LINE_CHARS = 400  # of a line that are looked at


class CrashClass(StrEnum):
    """What an attempt died of, in the words that begin the finding's reason."""

    NON_FINITE = "non_finite"
    OUT_OF_MEMORY = "out of memory"
    COLLECTIVE_TIMEOUT = "collective timeout"
    CUDA_ERROR = "CUDA error"
    LOST_GPU = "lost GPU"
    CONFIGURATION = "import or configuration error"
    PREEMPTION = "preemption"
    DISK_FULL = "disk full"
    IO_ERROR = "I/O error"
    NETWORK = "network error"
    ENGINE = "engine trouble"
    KILLED = "killed by signal"
    ERROR = "error"
    PEER_LOST = "lost its peers"


class Tier(IntEnum):
    """How near a line is to the first cause; smaller outranks larger."""

    TAKEN_AWAY = 0  # the machine or the allocation went: whatever else is printed follows from it
    CAUSE = 1
    DEATH = 2  # an unknown exception, a signal: a cause, but one that says little
    TIMEOUT = 3  # somebody did not come: who waited is not who failed
    TERMINATED = 4  # SIGTERM, SIGABRT: mostly sent because of something else
    REPORTED = 5  # an error that a logger or a wrapper reports, or that the program caught: perhaps no death at all
    SYMPTOM = 6


# Known to lie outside what the run resumes from: a checkpoint is never blamed for these.
OUTSIDE = frozenset(
    {
        CrashClass.OUT_OF_MEMORY, CrashClass.COLLECTIVE_TIMEOUT, CrashClass.CUDA_ERROR, CrashClass.LOST_GPU,
        CrashClass.CONFIGURATION, CrashClass.PREEMPTION, CrashClass.DISK_FULL, CrashClass.PEER_LOST, CrashClass.NETWORK,
        CrashClass.ENGINE,
    }
)  # fmt: skip
RETRYABLE = {crash: crash is not CrashClass.CONFIGURATION for crash in CrashClass}


@dataclass(frozen=True, slots=True)
class Pattern:
    """`last`: counts only as the last exception of its log; an import that failed and was caught is no cause.

    An expression is compiled when it is first asked for. Most processes read no log of a death, and compiling all of them is a
    tenth of what a supervisor's start takes.
    """

    crash: CrashClass
    tier: Tier
    expression: str
    last: bool = False

    @property
    def fits(self) -> re.Pattern[str]:
        return _compiled(self.expression)

    @property
    def words(self) -> tuple[str, ...]:
        """Every line that it fits holds one of them, in whatever case."""
        return required_words(self.expression)


_compiled = lru_cache(maxsize=1024)(re.compile)  # more than there are expressions here


def _words(crash: CrashClass, tier: Tier, *expressions: str, last: bool = False) -> list[Pattern]:
    return [Pattern(crash, tier, expression, last) for expression in expressions]


PATTERNS: tuple[Pattern, ...] = (
    *_words(
        CrashClass.PREEMPTION, Tier.TAKEN_AWAY,
        # Slurm: slurmstepd's last word, "*** JOB 71 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***"
        r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|TIME LIMIT|NODE FAILURE|JOB REQUEUE)|DUE TO PREEMPTION|\bDUE TO TIME LIMIT\b",
        r"srun: error: Node failure on |slurm.*\bJOB NODE FAILURE\b|Node \S+ was terminated",
        # Kubernetes: a node that is drained, a pod evicted; AWS and GCP: the notice of a reclaimed machine
        r"(?i)\bspot instance interruption\b|\binstance was preempted\b|\bPreemptionByScheduler\b|\bDisruptionTarget\b",
        # LSF and PBS: the time that the job was given is over, or its place went to another
        r"\bTERM_(?:RUNLIMIT|CPULIMIT|PREEMPT|DEADLINE|WINDOW)\b|PBS: job killed: walltime \S+ exceeded limit",
        r"\bTaintManagerEviction\b|\bPreempted by \S|The node was low on resource|\breason: ?Evicted\b",
    ),
    # Slurm could not start the job, or not all of it: whatever its tasks print is that the others did not come
    *_words(CrashClass.ENGINE, Tier.CAUSE, REFUSED),
    *_words(
        CrashClass.LOST_GPU, Tier.TAKEN_AWAY,
        # NVIDIA's kernel driver: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."; Xids: `_match_xid`
        r"(?i)\bfallen off the bus\b|\bfell off the bus\b|\bGPU recovery action changed\b",
        # NVML and nvidia-smi: "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost."
        r"\bGPU is lost\b|NVML_ERROR_GPU_IS_LOST|Unable to determine the device handle for (?:gpu|GPU)",
        # CUDA runtime (cudaErrorNoDevice, cudaErrorDevicesUnavailable, cudaErrorSystemNotReady) through torch
        r"(?i)no CUDA-capable device is detected|CUDA-capable device\(s\) is/are busy or unavailable|system not yet initialized",
        r"cudaError(?:NoDevice|DevicesUnavailable|SystemNotReady|DeviceUninitialized)\b|CUDA_ERROR_(?:NO_DEVICE|SYSTEM_NOT_READY)\b",
        # torch/cuda/__init__.py at the first use of a device
        r"No CUDA GPUs are available|Found no NVIDIA driver on your system",
    ),
    *_words(
        CrashClass.NON_FINITE, Tier.CAUSE,
        # Megatron-LM: its rerun state machine, and the checks of losses and gradient buffers that go through it
        r"(?i)Unexpected result (?:tensor\()?(?:nan|[-+]?inf)\b|found (?:NaN|Inf)\b.{0,40}\b(?:loss|grad|norm|forward"
        r"|backward|param|weight)",
        # trainers' own checks: "Loss is NaN", "Loss is nan, stopping training", "non-finite loss", "loss became NaN"
        r"(?i)\b(?:(?:\w{1,24}_)?loss|grad(?:ient)?s?(?:[ _]norm)?)\b[^|]{0,24}?\b(?:is|are|was|were|became|becomes|went|turned"
        r"|got|has become) (?:to )?(?:a |not a )?(?:NaN|[-+]?inf(?:inite|inity)?\b|not (?:finite|a number)|non-?finite)",
        r"(?i)(?:\bnon-?finite|\bNaN(?: or inf(?:inite|inity)?)?|\bNaN/inf"
        r"|\binf(?:inite)?) (?:\w+ )?(?:train(?:ing)? )?(?:loss|grad(?:ient)?s?\b)",
        r"(?i)\b(?:NaN|inf)s?\b (?:\w+ ){0,2}(?:detected|encountered|found|values?) in (?:the |model )?(?:\w+ )?"
        r"(?:(?:\w{1,24}_)?loss|grad|logits|param|weight|output|activation|input)",
        r"(?i)\b(?:encountered|detected|found|got) (?:a )?(?:NaN|inf(?:inite)?|non-?finite)s?\b.{0,40}\b(?:loss|grad"
        r"|logit|param|weight|activation|tensor|(?:model|layer) (?:in|out)put)",
        # torch.autograd's anomaly mode and clip_grad_norm_(error_if_nonfinite=True)
        r"Function '\w+' returned nan values in its \d+\w* output",
        r"The total norm of order \S+ for gradients from `?parameters`? is non-finite",
        # Lightning: TerminateOnNaN (older: Trainer(terminate_on_nan)), detect_nan_parameters, EarlyStopping(check_finite=True)
        r"The loss returned in .training_step. is|Detected nan and/or inf values in `|\bis not finite\. Previous best value was",
        # Keras: TerminateOnNaN, after which `fit` returns as if nothing were amiss
        r"\bInvalid loss, terminating training\b",
        # Hugging Face and DeepSpeed: the loss scale has no further to fall; probability tensors of samplers
        r"Current loss scale already at minimum|probability tensor contains either `inf`, `nan`|Minimum loss scale reached",
        r"(?i)\b(?:loss|grad(?:ient)?s?(?:[ _]norm)?) ?[=:] ?[-+]?(?:nan|inf)\b.{0,40}\b(?:abort|stop|exit|terminat|halt)"
        r"|\bloss (?:has )?(?:diverged|exploded|blew up) to (?:NaN|[-+]?inf)",
        r"(?i)\breached (?:the |its )?(?:minimum|lowest) (?:loss[ _])?scale\b",
        # what trainers raise in words of their own: "ValueError: loss=nan, terminate", "AssertionError: loss nan"
        r"(?i)^(?:\w+\.)*(?!(?:Type|Attribute|Key|Name|Import)Error)\w*(?:Error|Exception|Exit)\b: "
        r"(?=.*\b(?:\w*_)?(?:loss(?:es)?|grad(?:ient)?s?|norm|logits?|param(?:eter)?s?|weights?|activations?|tensor|forward|backward)\b)"
        r"(?=.*(?:\bNaNs?\b|\b(?:got|exploded to|diverged to|NaN or) ?[-+`]?inf(?:init[ey])?s?\b|\bnon-?finite\b))",
        r"(?i)\bFloatingPointError\b.*(?:nan|inf|loss|grad)|\bNanLossDuringTrainingError\b",
    ),
    *_words(
        CrashClass.DISK_FULL, Tier.CAUSE,
        # The kernel's ENOSPC and EDQUOT as Python, C++ streams and torch's file writer pass them on
        r"\[Errno 28\]|\bNo space left on device\b|\[Errno 122\]|\bDisk quota exceeded\b|\bENOSPC\b|\bEDQUOT\b",
        # torch.save: "PytorchStreamWriter failed writing file data/12: file write failed"
        r"PytorchStreamWriter failed writing file",
    ),
    *_words(
        CrashClass.OUT_OF_MEMORY, Tier.CAUSE,
        # torch 2.x c10/cuda/CUDACachingAllocator.cpp; older: RuntimeError; the runtime's own cudaErrorMemoryAllocation
        r"CUDA out of memory\b|CUDA error: out of memory|OutOfMemoryError\b|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
        r"\bHIP out of memory\b|cudaErrorMemoryAllocation\b|CUDNN_STATUS_ALLOC_FAILED",
        r"\bRESOURCE_EXHAUSTED: (?:.{0,40}Out of memory|Attempting to allocate|(?:Error|Failed to) allocat)",
        # NCCL allocating its buffers: "Failed to CUDA calloc 6291456 bytes"; "Cuda failure 2 'out of memory'"
        r"Failed to CUDA (?:calloc|host alloc|malloc)|[Cc][Uu][Dd][Aa] failure (?:\d+ )?'out of memory'",
        # The kernel: "Out of memory: Killed process 41 (python)", "Memory cgroup out of memory: Killed process 41"
        r"(?i)\bout of memory: Kill(?:ed)? process\b|\boom-kill:constraint=|\binvoked oom-killer\b"
        r"|\boom_reaper: reaped process\b",
        # Slurm: slurmstepd "Detected 1 oom_kill event in StepId=7.0", srun "n1: task 3: Out Of Memory"
        r"(?i)Detected \d+ oom[-_]kill event|\btasks? [\d,\-]+: Out Of Memory|Exceeded (?:step|job) memory limit|OUT_OF_MEMORY\b",
        # Kubernetes: the container's reason; our own look at the cgroup's counter (telemetry/log_tail.py)
        r"\bOOMKilled\b|^cgroup memory\.events: oom_kill rose|\bOOM Killed\b",
        # systemd: its own killer and what it says of a unit; earlyoom
        r"\bsystemd-oomd\[\d+\]: Killed |killed by the OOM killer|with result 'oom-kill'|earlyoom.*\bsending SIG(?:TERM|KILL) to",
        # LSF and PBS
        r"\bTERM_(?:MEMLIMIT|SWAP)\b|PBS: job killed: \w*mem \S+ exceeded limit",
        # Ray's memory monitor
        r"killed due to the node running low on memory|\bOut[Oo]f[Mm]emory\b",
        # Host allocations that failed: Python, glibc, C++, torch's CPU allocator
        r"^MemoryError\b|ArrayMemoryError\b|\[Errno 12\]|\bstd::bad_alloc\b|DefaultCPUAllocator: can't allocate memory",
        r"\bCannot allocate memory\b|DefaultCPUAllocator: not enough memory",
        # torch/utils/data: a worker that the kernel killed; "Bus error ... insufficient shared memory (shm)"
        r"DataLoader worker \(pid\(?s?\)? [^)]*\)? ?(?:is|exited) .*(?:Killed|Bus error)|insufficient shared memory \(shm\)",
    ),
    *_words(
        CrashClass.CUDA_ERROR, Tier.CAUSE,
        # NCCL names the reason behind its result: "Cuda failure 700 'an illegal memory access was encountered'"
        r"[Cc]uda failure (?:\d+ )?'(?!peer)",
        # DeepEP and other libraries print the runtime's name: "Reason=cudaErrorContained:Invalid access of peer GPU memory"
        r"\bcudaError(?:Contained|IllegalAddress|LaunchFailure|LaunchTimeout|Assert|ECCUncorrectable|Hardware\w+|NvlinkUncorrectable"
        r"|MisalignedAddress|IllegalInstruction|InvalidPc|InvalidAddressSpace|MpsClientTerminated|ExternalDevice|TensorMemoryLeak|Unknown)\b",
    ),
    *_words(
        CrashClass.NETWORK, Tier.CAUSE,
        # NCCL's verbs plugin: "NET/IB : mlx5_0:1 Got async event : port error"; a port or link that the driver reports as down
        r"Got async (?:fatal )?event ?: ?(?:port error|client reregistration|local catastrophic|device fatal|GID table change)",
        r"(?i)\bNCCL (?:WARN|ERROR)\b.*\b(?:port|link)\b.{0,20}\b(?:error|down|failed|failure|lost)\b",
        r"(?i)\bmlx5_\w+\b.*\b(?:port|link) (?:is )?down\b|\bmlx5_core\b.*\bLink down\b|\bIBV_EVENT_(?:PORT_ERR"
        r"|DEVICE_FATAL|QP_FATAL)\b",
    ),
    *_words(
        CrashClass.NETWORK, Tier.TIMEOUT,
        # NCCL's verbs plugin: a peer or the path to it does not answer (status=12), a queue pair that cannot be set up
        r"NET/IB ?:? .*Got completion (?:from peer \S+ )?with (?:status|error)|\bIBV_WC_\w+_ERR\b"
        r"|transport retry counter exceeded",
        # Open MPI: a node, or the way to it, is gone
        r"\b(?:ORTE|PRTE) has lost communication with a remote daemon",
        r"(?i)Call to ibv_\w+ failed|\bibv_(?:modify_qp|reg_mr|poll_cq|create_qp|post_send)\w* failed",
    ),
    *_words(
        CrashClass.NETWORK, Tier.DEATH,
        # A service that is no rank: object stores, hubs, name servers, through requests, urllib3, botocore and their like
        r"^(?:requests|urllib3|botocore|aiohttp|httpx|httpcore|huggingface_hub|google\.api_core|azure\.core)\.[\w.]*\w+(?::|$)",
        # NVSHMEM, which connects its queue pairs by itself: "nvshmem setup connections failed", "connect EPS failed"
        r"nvshmem setup connections failed|\bconnect EPS failed|\btransport create connect failed",
        r"HTTPSConnectionPool|Max retries exceeded with url|Temporary failure in name resolution|Name or service not known",
    ),
    *_words(
        CrashClass.PEER_LOST, Tier.SYMPTOM,
        # NCCL's ncclRemoteError and what its sockets print; NCCL names a remote death an "unhandled system error" too
        r"remote process exited|ncclRemoteError|Net ?: ?(?:Call to recv|Connection closed)|ncclSystemError"
        r"|unhandled system error",
        r"socket(?:StartConnect|PollConnect|ProgressOpt|Recv|Send)\w*: |Call to (?:recv|send|connect) (?:from|to) .* failed",
        # gloo and c10d's store: "Connection closed by peer [10.0.0.3]:4711", "recvValue failed", "Broken pipe"
        r"(?i)connection (?:was )?(?:reset|closed|refused|aborted|lost) ?(?:by (?:remote )?peer)?|\bBroken pipe\b"
        r"|\bsocket closed\b",
        r"recvValue failed|sendBytes failed|Failed to recv, got 0 bytes|TCPStore.*(?:failed|broken)|store->get\(.*got error",
        r"\bRendezvous(?:Closed|Connection|State)Error\b|The connection to the C10d store has failed|\[Errno (?:32|10[34])\]",
        # NCCL's abort on ranks that have to stop waiting
        r"NCCL communicator (?:\S+ )?(?:was|has been) aborted|ncclCommAbort|Could not receive type|NCCL error: .*\babort",
        r"Observed flight recorder dump signal from another rank|Received a (?:global )?(?:timeout|dump) signal",
    ),
    # Open MPI: a rank ends the job, for its own reason or for another's
    *_words(CrashClass.ERROR, Tier.SYMPTOM, r"\bMPI_ABORT was invoked on rank \d+"),
    *_words(
        CrashClass.CUDA_ERROR, Tier.CAUSE,
        # The runtime's words through torch: "CUDA error: an illegal memory access was encountered"
        r"CUDA error: |\bCUDA (?:runtime )?error \(?\d+\)?|an illegal memory access was encountered|device-side assert triggered",
        # AMD's runtime ends the process itself: "Memory access fault by GPU node-4 (Agent handle: 0x55d0) on address 0x7f4b000."
        r"Memory access fault by GPU node-\d+|HSA_STATUS_ERROR_\w+",
        r"\bHIP error: |CUDA driver error: |\bCUDA Error: |\bCUDA unknown error\b",
        # Kernels' own assertions, "…/IndexKernel.cu:92: operator(): block: [0,0,0], thread: [1,0,0] Assertion `…` failed."
        r"\.cuh?:\d+: .*Assertion .*failed|unspecified launch failure|misaligned address|uncorrectable (?:\w+ )?error",
        # cuBLAS, cuDNN and Triton as torch passes them on; the driver's own names
        r"CUBLAS_STATUS_(?!SUCCESS)\w+|CUDNN_STATUS_(?!SUCCESS)\w+|CUFFT_\w*(?:ERROR|FAILED)|CUSPARSE_STATUS_(?!SUCCESS)\w+",
        r"Triton Error \[CUDA\]|\bCUDA_ERROR_[A-Z_]+|\bcudaError[A-Z]\w+|NVSHMEM\w* .*(?:failed|error)",
        # ECC and NVLink by other reporters
        r"(?i)\b(?:double[- ]bit|uncorrect(?:able|ed)) (?:ecc|memory|nvlink|dram|sram)|\bECC error\b"
        r"|\bNVLink\b.*\b(?:fatal|error)\b",
    ),
    *_words(
        CrashClass.CUDA_ERROR, Tier.DEATH,
        # NCCL's result; which call of CUDA it was stands behind it
        r"ncclUnhandledCudaError|unhandled cuda error",
    ),
    *_words(
        CrashClass.COLLECTIVE_TIMEOUT, Tier.TIMEOUT,
        # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
        r"Watchdog caught collective operation timeout|collective operation timeout|failure detected by watchdog",
        r"(?i)detected by watchdog at work|watchdog got stuck for|due to a collective timeout|taking the entire process down",
        r"Heartbeat monitor timed out|Timeout at NCCL work: |Terminating the process after attempting to dump debug info, due to",
        # gloo/transport/tcp/unbound_buffer.cc: "Timed out waiting 1800000ms for recv operation to complete"
        r"Timed out waiting \d+ms for (?:send|recv) operation|monitoredBarrier.*(?:timed out|timeout)"
        r"|failed to pass monitoredBarrier",
        r"Application timeout caused pair closure|Wait timed? ?out\b.*(?:gloo|barrier|collective)",
        # c10d's store and rendezvous: "Timed out after 601 seconds waiting for clients. 3/4 clients joined."
        r"Timed out after \d+ seconds waiting for clients|client socket has timed out|wait timeout after \d+ ?ms|Socket Timeout",
        r"\bRendezvousTimeoutError\b|Timed out initializing process group|\bDistStoreError\b.*[Tt]imed? ?out",
        # DeepEP's kernels and its host side: "DeepEP timeout check failed: rank = 6", "DeepEP error: timeout (dispatch CPU)"
        r"\bDeepEP (?:timeout check failed|error: timeout|(?:dispatch|combine|internode|intranode)\b.* timeout)",
        # other watchdogs: DeepSpeed, NVIDIA's resiliency extension, XLA
        r"(?i)\bno heartbeat (?:from|received)\b|\bhang detected\b|\btraining (?:is )?stuck\b|\bsoft timeout\b.*\bhard timeout\b",
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
        # hydra without its stack trace
        r"^(?:Could not override '|Primary config (?:module|directory) |Cannot find primary config |Error merging ')",
        # The interpreter and the shell: "python: can't open file", "No module named train", "train.sh: command not found"
        r"can't open file '[^']*': \[Errno 2\]|^\S*python[\d.]*: No module named |: command not found$",
    ),
    *_words(
        CrashClass.IO_ERROR, Tier.CAUSE,
        # The kernel's EIO ESTALE EREMOTEIO EROFS ENOTCONN ESHUTDOWN EHOSTDOWN EMFILE ENFILE as Python passes them on
        r"\[Errno (?:5|116|121|30|107|108|112|24|23|61|110)\]|\bInput/output error\b|\bStale file handle\b"
        r"|\bRead-only file system\b",
        r"Transport endpoint is not connected|Cannot send after transport endpoint shutdown|\bToo many open files\b"
        r"|\bRemote I/O error\b",
        # Lustre's and NFS's kernel modules
        r"LustreError: |nfs: server \S+ not responding",
        # torch.load and safetensors: a file that is cut or damaged
        r"PytorchStreamReader failed|\bSafetensorError\b|HDF5.*unable to (?:open|read)|\bUnpicklingError\b",
    ),
    *_words(
        CrashClass.KILLED, Tier.DEATH,
        # CPython's faulthandler, torch's and UCX's signal handlers, Open MPI's, glibc's own checks
        r"^Fatal Python error: (?!.*(?:_enter_buffered_busy|init_))|!!!!!!! Segfault encountered|\bCaught signal (?:4"
        r"|6|7|8|11)\b",
        r"\bSignal: (?:Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception) \(\d+\)",
        r"double free or corruption|malloc\(\): |free\(\): invalid|corrupted size vs\. prev_size"
        r"|stack smashing detected|munmap_chunk\(\)",
        # The shell, and programs that report how their child ended
        r"(?i:\bsegmentation fault\b)|\bBus error\b|\bIllegal instruction\b|\bFloating point exception\b|(?:^"
        r"|\d +)Killed(?=\s*$|\s\s|: \d| by\b)",
        r"(?i)\b(?:died with|killed by|exited on|terminated by|received|got) (?:<Signals\.|signal[ :]*(?:\d+ ?)?\(?)(?:SIG)?"
        r"(?:KILL|SEGV|BUS|ABRT|ILL|FPE|Segmentation|Aborted|9\b|11\b|7\b|6\b)",
        # torchrun's agent; where several write into one log, its place on a node names no rank
        r"failed \(exitcode: ?-(?:4|7|8|9|11)\) local_rank: ",
        r"exits with return code = -(?:4|6|7|8|9|11)\b|exited on signal (?:4|6|7|8|9|11)\b"
        r"|exit(?:ed with)? code:? ?137\b|signal: killed",
        r"DataLoader worker \(pid\(?s?\)? [^)]*\)? ?(?:is killed by signal|exited unexpectedly)",
        # Python's own name of a signal that a program sends or gets
        r"\bsignal=?:? ?<Signals\.SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE): \d+>",
    ),
    *_words(
        CrashClass.PREEMPTION, Tier.TERMINATED,
        # torch/distributed/elastic: the agent itself got SIGTERM
        r"\bsignal=?:? ?<Signals\.SIGTERM: 15>",
        r"Received (?:Signals\.)?(?:SIGTERM|15) death signal|SignalException: Process \d+ got signal: 15",
        r"(?i)\b(?:received|caught|got|after receiving) (?:signal:? )?(?:1[025] ?\(?)?(?:Signals\.)?(?:SIG(?:TERM|USR[12])|15)\b",
        # Slurm: a plain cancel, by a person or after a task's failure: it says little
        r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT",
    ),
)  # fmt: skip

# NVIDIA's Xids, from the kernel's line with the PCI address or as schedulers, health checks and DCGM's exporter pass them on:
# "Xid 79:", "XID error code 79", "Xid errors: [79]", '"xid":79', "DCGM_FI_DEV_XID_ERRORS 79", which is 0 while there is none
_XID = (
    r"(?i)(?<![a-z])Xid(?:[ _]errors?)?(?:\{[^}]{0,400}\})?(?: ?\([^)]{1,40}\))?(?:,? (?:with )?(?:code|number))?"
    r"[\"']?[ :=#]{1,3}[\[\"']?(?!0+\b)(\d{1,3})\b"
)
_LOST_XID = Pattern(CrashClass.LOST_GPU, Tier.TAKEN_AWAY, _XID)
_OWN_XID = Pattern(CrashClass.CUDA_ERROR, Tier.CAUSE, _XID)
_NOTED_XID = Pattern(CrashClass.CUDA_ERROR, Tier.REPORTED, _XID)
RECOVERY_XID = 154
FOLLOWING_XIDS = (43, 45)  # nothing needs to be done for them, and yet something ended

# What an uncaught exception, an error of a logger or a crash in native code holds, and a line that names an Xid
_OTHER_WORDS = (
    "error", "exception", "failure", "interrupt", "failed", "timeout", "abort", "fault", "critical", "fatal", "severe", "panic",
    "assert", "what():", "xid",
)  # fmt: skip


def _shortest(words: list[str]) -> tuple[str, ...]:
    """Without those that hold another of them."""
    return tuple(word for word in dict.fromkeys(words) if not any(other in word for other in words if other != word))


@cache
def _places() -> dict[str, tuple[int, ...]]:
    """By a word that some pattern requires: the patterns that a line with it may fit, by their places in PATTERNS."""
    required = [pattern.words for pattern in PATTERNS]
    words = dict.fromkeys(word for of in required for word in of)
    return {word: tuple(place for place, of in enumerate(required) if word in of or not of) for word in words}


@cache
def telling_words() -> tuple[str, ...]:
    """Words without which no pattern fits, and no line says anything of a death."""
    return _shortest([*_OTHER_WORDS, *_places()])


# An uncaught exception's last line; torchrun's own summary and a wanted exit say nothing of the cause.
EXCEPTION = late_regex(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt|Failed|Timeout|Abort|Fault)\b(?=:|$)")
SAYS_NOTHING = late_regex(
    r"^(?:\w+\.)*(?:ChildFailedError|SignalException|KeyboardInterrupt|CalledProcessError|SystemExit|StopIteration|Empty|Full"
    r"|GeneratorExit|CancelledError|BdbQuit)\b"
)
# What only passes on that another program or another part failed; the reason stands in an earlier line.
WRAPPER = late_regex(
    r"^(?:\w+\.)*(?:CheckpointException|ProcessRaisedException|ProcessExitedException|RayTaskError|RayActorError|ActorDiedError"
    r"|WorkerCrashedError|TrainingFailedError|TuneError|WorkerGroupError|RunError|JobFailedError|ExceptionGroup|ChildProcessError"
    r"|MaxRetryError|RetryError|HydraException|InstantiationException)\b"
)
# torch 2.0-2.8: "last enqueued NCCL work: 811", "last enqueued work: 2855". Each group of ranks counts for itself
ENQUEUED = late_regex(
    r"(?:\[PG (?:ID \d+ PG GUID (?P<group>\w+)|(?P<own>[1-9]\d*))[^\]]{0,120}\].*?)?"
    r"last enqueued (?:NCCL )?work: (?P<number>\d{1,18})"
)
# torch's watchdog: "[PG ID 0 PG GUID 0(default_pg) Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8122,
# …". A group of an older torch is named by a number of its rank's own, unless it is the first one
TIMED_OUT = late_regex(
    r"\[(?:PG (?:ID \d+ PG GUID (?P<group>\w+)[^\]]{0,60}|0)[ ,]+)?Rank \d+\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<number>\d{1,18}),"
)
# torch's monitored barrier names who did not come: "[Rank 0]: Ranks 3, 5 failed to pass monitoredBarrier in 600000 ms"
ABSENT = late_regex(r"\bRanks? ([\d, ]{1,2000}) failed to pass monitoredBarrier")
# torchrun's agent and other launchers, as they end the workers that are left: what follows from it is nobody's own death
FORCED_KILL = late_regex(
    r"forcefully exiting via 9|closing signal SIGKILL|Forcefully terminating all other processes|Killing subprocess"
)


def may_tell(line: str) -> bool:
    """Whether the line holds a word without which no pattern fits. For whoever passes over many lines."""
    lower = line.lower()
    return any(word in lower for word in telling_words())


@lru_cache(maxsize=8192)  # ranks print the same lines
def match_line(line: str) -> Pattern | None:
    """The first pattern that fits; None for a line that says nothing of a death."""
    if (xid := _match_xid(line)) is not None:
        return xid
    lower = line.lower()
    places = {place for word, of in _places().items() if word in lower for place in of}
    return next((PATTERNS[place] for place in sorted(places) if PATTERNS[place].fits.search(line) is not None), None)


def _match_xid(line: str) -> Pattern | None:
    """An Xid by its number: hardware that is lost, an error of the application, or what follows from another. None for a note of
    hardware that goes on (63: a row was remapped)."""
    found = _LOST_XID.fits.search(line) if "xid" in line.lower() else None
    if found is None or "fallen off" in line:
        return None
    number = int(found[1])
    xid = XIDS.get(number, UNKNOWN_XID)
    if number == RECOVERY_XID or (xid.critical and xid.need >= Need.REBOOT_NODE):
        return _LOST_XID
    if xid.critical or xid.need is Need.RESTART_APP:
        return _OWN_XID
    return None if xid.need is Need.NOTHING and number not in FOLLOWING_XIDS else _NOTED_XID
