# ruff: noqa: E501 - lines of logs, as printed
"""Ends of launchers' logs as torch, NCCL, launchers, schedulers and trainers print them, each with the right answer.

`root` is a part of the one line that shows the cause; None where nothing failed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

STEPS = "iteration 118 / 400 | lm loss: 2.2\niteration 119 / 400 | lm loss: 2.2\niteration 120 / 400 | lm loss: 2.1\n"
TB = 'Traceback (most recent call last):\n  File "/opt/train/train.py", line 214, in <module>\n    main()\n'
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a "
    "network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
)
SYSTEM = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, unhandled system error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
    "error.\nLast error:\nsocketStartConnect: Connect to 10.0.0.3<43125> failed : Software caused connection abort"
)
GLOO = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:13734. This is typically caused "
    "by a remote worker crashing."
)
WATCHDOG = (
    "[E1120 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, "
    "OpType=ALLREDUCE, NumelIn=980, NumelOut=980, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    "[E1120 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Exception (either an error or timeout) detected by "
    "watchdog at work: 808, last enqueued NCCL work: {work}, last completed NCCL work: 807.\n"
    "[E1120 06:24:44.946457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {r}] To avoid data inconsistency, we are taking the entire "
    "process down.\nterminate called after throwing an instance of 'c10::DistBackendError'"
)
SLURM_END = (
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    "slurmstepd: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***\nsrun: error: n2: tasks 8-15: Terminated"
)


def by(label: str, text: str) -> str:
    """Every line of a text behind a label."""
    return "\n".join(f"{label}{line}" for line in text.split("\n"))


def wrapped(text: str, key: str = "message", **more: object) -> str:
    """Every line of a text as a logging agent writes it."""
    return "\n".join(json.dumps({"time": "2026-11-20T10:00:00Z", "level": "error", key: line, **more}) for line in text.split("\n"))


def _r(rank: int, text: str) -> str:
    return by(f"[rank{rank}]: ", text)


def table(*ranks: tuple[int, int]) -> str:
    """torchrun's own; the first rank is the root cause."""
    names = {-9: "  (SIGKILL)", -11: "  (SIGSEGV)", -15: "  (SIGTERM)", -6: "  (SIGABRT)"}
    entry = "[{at}]:\n  time      : 2026-11-22_22:22:14\n  host      : node-0\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 51{rank:02d}){name}\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    rows = [entry.format(at=at, rank=rank, code=code, name=names.get(code, " ")) for at, (rank, code) in enumerate(ranks)]
    return "\n".join(
        [
            'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 1032, in <module>',
            "    main()\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60,
            "t.py FAILED\n" + "-" * 60 + "\nFailures:",
            *rows[1:],
            "-" * 60 + "\nRoot Cause (first observed failure):",
            rows[0],
            "=" * 60,
        ]
    )


@dataclass(frozen=True)
class Case:
    """`rank` None: nobody can be blamed."""

    name: str
    text: str
    crash: str | None
    root: str | None
    rank: int | None = None


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.19 GiB is free."

CASES: tuple[Case, ...] = (
    # labels
    Case("srun label and torch's", STEPS + by("7: [rank7]: ", TB + OOM) + "\n" + by("0: [rank0]: ", TB + LOST), "out of memory", "CUDA out of memory", 7),
    Case("tee and torch's", STEPS + by("[default3]:[rank11]: ", TB + OOM) + "\n" + by("[default0]:[rank8]: ", TB + SYSTEM), "out of memory", "CUDA out", 11),
    Case("hosts before tee", STEPS + by("node3: [default1]:[rank25]: ", TB + "ValueError: bad shape"), "error", "ValueError: bad shape", 25),
    Case("compose", STEPS + by("worker-3 | [rank3]: ", TB + "KeyError: 'input_ids'"), "error", "KeyError: 'input_ids'", 3),
    Case("horovod hosts", STEPS + by("[host0]<stderr>:[rank2]: ", TB + "RuntimeError: bad token detected"), "error", "bad token detected", 2),
    Case("mpirun tags", STEPS + by("[1,5]<stderr>:", TB + OOM) + "\n" + by("[1,2]<stderr>:", TB + GLOO), "out of memory", "CUDA out of memory", 5),
    Case("kubectl timestamps", by("2026-11-20T10:00:00.123456789Z ", STEPS.rstrip() + "\n" + TB + "IndexError: list index out of range"), "error", "IndexError"),
    Case("kubectl prefix", by("[pod/train-worker-3/pytorch] ", STEPS.rstrip() + "\n" + by("[rank24]: ", TB + "IndexError: list index out of range")), "error", "IndexError", 24),
    Case("cri", by("2026-11-20T10:00:00.123456789Z stderr F ", by("[rank4]: ", TB + OOM)), "out of memory", "CUDA out of memory", 4),
    Case("padded srun labels", STEPS + by(" 3: ", TB + OOM) + "\n" + by("12: ", TB + LOST), "out of memory", "CUDA out of memory", 3),
    Case("ray", by("(RayTrainWorker pid=41, ip=10.0.0.3) ", by("[rank3]: ", TB + OOM)), "out of memory", "CUDA out of memory", 3),
    Case("pdsh addresses", STEPS + by("10.0.0.7: [rank9]: ", TB + "AssertionError: loss mask is empty"), "error", "AssertionError", 9),
    Case("lightning label", STEPS + by("[rank: 1] ", TB + "ValueError: bad shape"), "error", "ValueError: bad shape", 1),
    # out of memory
    Case("old torch", STEPS + by("[rank0]: ", TB + "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total capacity)"), "out of memory", "Tried to allocate", 0),
    Case("cublas alloc", STEPS + TB + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    Case("nccl calloc", STEPS + by("[rank6]: ", TB + "torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 608 bytes"), "out of memory", "Failed to CUDA calloc", 6),
    Case("slurm oom kill", STEPS + "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\nsrun: error: n1: task 3: Out Of Memory\n" + SLURM_END, "out of memory", "oom_kill event", 3),
    Case("kernel", STEPS + "[12345.6] Memory cgroup out of memory: Killed process 4711 (python) total-vm:91234kB, anon-rss:81234kB", "out of memory", "Memory cgroup out of memory"),
    Case("kubernetes oom", STEPS + "Last State: Terminated\n  Reason: OOMKilled\n  Exit Code: 137", "out of memory", "OOMKilled"),
    Case("loader killed", STEPS + by("[rank2]: ", TB + "_queue.Empty\n\nDuring handling of the above exception, another exception occurred:\n\n" + TB + "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "), "out of memory", "is killed by signal: Killed", 2),
    Case("shm", STEPS + by("[rank2]: ", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."), "out of memory", "insufficient shared memory", 2),
    Case("host alloc", STEPS + by("[rank1]: ", TB + "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"), "out of memory", "DefaultCPUAllocator", 1),
    Case("fork", STEPS + TB + "OSError: [Errno 12] Cannot allocate memory", "out of memory", "[Errno 12]"),
    # CUDA
    Case("illegal access by the watchdog", STEPS + by("[rank3]:", "[E1120 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered") + "\n" + by("[rank0]: ", TB + LOST), "CUDA error", "illegal memory access", 3),
    Case("device assert", STEPS + "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [3,0,0], thread: [64,0,0] Assertion `-sizes[i] <= index` failed.\n" + by("[rank1]: ", TB + "RuntimeError: CUDA error: device-side assert triggered"), "CUDA error", "Assertion", 1),
    Case("cublas", STEPS + by("[rank1]: ", TB + "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), "CUDA error", "CUBLAS_STATUS_EXECUTION_FAILED", 1),
    Case("cudnn", STEPS + by("[rank1]: ", TB + "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), "CUDA error", "CUDNN_STATUS", 1),
    Case("ecc", STEPS + by("[rank1]: ", TB + "RuntimeError: CUDA error: uncorrectable ECC error encountered"), "CUDA error", "uncorrectable ECC", 1),
    Case("nvlink", STEPS + by("[rank1]: ", TB + "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution"), "CUDA error", "NVLink", 1),
    Case("deepep", STEPS + by("[rank1]: ", TB + "RuntimeError: Failed: CUDA error /opt/DeepEP/csrc/kernels/intranode.cu:123 'cudaErrorContained'\nReason=cudaErrorContained:Invalid access of peer GPU memory over nvlink or a hardware error"), "CUDA error", "cudaErrorContained", 1),
    Case("deepep reason only", STEPS + "rank 1 Reason=cudaErrorContained:Invalid access of peer GPU memory over nvlink\n" + by("[rank0]: ", TB + SYSTEM), "CUDA error", "cudaErrorContained"),
    Case("nccl's cuda failure", STEPS + "n1:41:99 [1] enqueue.cc:1234 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'", "CUDA error", "Cuda failure 700"),
    Case("triton", STEPS + TB + "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered", "CUDA error", "Triton Error"),
    # GPUs
    Case("xid 79", STEPS + "[123.4] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n" + by("[rank1]: ", TB + "RuntimeError: CUDA error: unspecified launch failure"), "lost GPU", "Xid (PCI", 1),
    Case("xid 79 bare", STEPS + "node3: Xid 79: GPU fell off\n" + by("[rank1]: ", TB + LOST), "lost GPU", "Xid 79:"),
    Case("xid 79 bare number", STEPS + "kernel: NVRM: Xid 79:\n" + by("[rank1]: ", TB + LOST), "lost GPU", "Xid 79:"),
    Case("xid 74", STEPS + "Xid 74: NVLink error\n" + by("[rank0]: ", TB + LOST), "CUDA error", "Xid 74"),
    Case("xid 94", STEPS + "NVRM: Xid (PCI:0000:3b:00): 94, Contained: CE User Channel (0x9). RST: No, D-RST: No\n" + by("[rank0]: ", TB + LOST), "CUDA error", "94"),
    Case("three lines", STEPS + "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:20b0) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.", "lost GPU", "fallen off the bus"),
    Case("no device", STEPS + TB + "RuntimeError: No CUDA GPUs are available", "lost GPU", "No CUDA GPUs"),
    Case("nvml", STEPS + "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU", "lost GPU", "GPU is lost"),
    # timeouts
    Case("nccl timeout", STEPS + "\n".join(by(f"[rank{r}]:", WATCHDOG.format(r=r, work=811)) for r in range(4)), "collective timeout", "[Rank 0] Watchdog caught"),
    Case("nccl timeout, one behind", STEPS + "\n".join(by(f"[rank{r}]:", WATCHDOG.format(r=r, work=809 if r == 2 else 811)) for r in range(4)), "collective timeout", "[Rank 0] Watchdog caught", 2),
    Case("two labels on timeouts", STEPS + "\n".join(by(f"{r}: [rank{r}]:", WATCHDOG.format(r=r, work=811)) for r in range(4)), "collective timeout", "[Rank 0] Watchdog caught"),
    Case("barrier", STEPS + by("[rank0]: ", TB + "RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 600000 ms"), "collective timeout", "failed to pass", 3),
    Case("heartbeat", STEPS + by("[rank1]:", "[E1120 06:24:44.9 ProcessGroupNCCL.cpp:1300] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."), "collective timeout", "got stuck for"),
    Case("store", STEPS + TB + "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.", "collective timeout", "601 seconds"),
    Case("rendezvous", TB + "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (n1, 29500).", "collective timeout", "client socket has timed out"),
    Case("port error long before", STEPS + "n3:41:99 [0] NCCL WARN NET/IB : mlx5_2:1 Got async event : port error\n" + "\n".join(by(f"[rank{r}]:", WATCHDOG.format(r=r, work=811)) for r in range(2)), "network error", "port error"),
    Case("ib completion", STEPS + "n3:41:99 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<44> with status=12 opcode=32601 len=0 vendor err 129 (Recv)\n" + by("[rank0]: ", TB + LOST), "network error", "status=12"),
    # exits of launchers
    Case("segfault by table", STEPS + by("[rank0]: ", TB + GLOO) + "\n" + table((3, -11), (0, -15)), "killed by signal", "exitcode  : -11", 3),
    Case("sigkill by table", STEPS + table((2, -9), (0, -15)), "killed by signal", "exitcode  : -9", 2),
    Case("wordless exit by table", STEPS + table((2, 1), (0, -15)), "error", "exitcode  : 1", 2),
    Case("srun segfault", STEPS + "srun: error: n2: task 9: Segmentation fault (core dumped)\n" + SLURM_END, "killed by signal", "task 9: Segmentation", 9),
    Case("srun killed", STEPS + "srun: error: n2: task 9: Killed\n" + SLURM_END, "killed by signal", "task 9: Killed", 9),
    Case("srun exit code", STEPS + "srun: error: n2: task 9: Exited with exit code 1\n" + SLURM_END, "error", "task 9: Exited", 9),
    Case("mpirun", STEPS + "mpirun noticed that process rank 5 with PID 4711 on node n2 exited on signal 9 (Killed).", "killed by signal", "process rank 5", 5),
    Case("mpi segfault", STEPS + "[n1:12345] *** Process received signal ***\n[n1:12345] Signal: Segmentation fault (11)\n[n1:12345] Signal code: Address not mapped (1)", "killed by signal", "Signal: Segmentation fault"),
    Case("mpi abort", STEPS + by("[rank3]: ", TB + "ValueError: bad shape") + "\nMPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "error", "ValueError: bad shape", 3),
    Case("deepspeed", STEPS + "[2026-11-20 10:00:00,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n[2026-11-20 10:00:01,123] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9", "killed by signal", "return code = -9"),
    Case("deepspeed with a cause", STEPS + by("[rank3]: ", TB + "ValueError: bad shape") + "\n[2026-11-20 10:00:01,123] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = 1", "error", "ValueError: bad shape", 3),
    Case("lightning child", STEPS + by("[rank1]: ", TB + "ValueError: bad shape") + "\n[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes to avoid zombies", "error", "ValueError: bad shape", 1),
    Case("accelerate", STEPS + TB + "ValueError: bad shape\nTraceback (most recent call last):\n  File \"/usr/bin/accelerate\", line 8, in <module>\n    sys.exit(main())\n  File \"/opt/accelerate/commands/launch.py\", line 1, in simple_launcher\nsubprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.", "error", "ValueError: bad shape"),
    Case("accelerate segfault", STEPS + "Traceback (most recent call last):\n  File \"/opt/accelerate/commands/launch.py\", line 1, in simple_launcher\nsubprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGSEGV: 11>.", "killed by signal", "SIGSEGV"),
    Case("spawn", STEPS + "Traceback (most recent call last):\n  File \"/opt/torch/multiprocessing/spawn.py\", line 140, in join\n    raise ProcessRaisedException(\ntorch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n" + TB + "ValueError: bad shape", "error", "ValueError: bad shape"),
    Case("spawn signal", STEPS + "Traceback (most recent call last):\n  File \"/opt/torch/multiprocessing/spawn.py\", line 130, in join\ntorch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV", "killed by signal", "signal SIGSEGV", 1),
    Case("shell", STEPS + "./run.sh: line 12:  4711 Segmentation fault      (core dumped) python train.py", "killed by signal", "Segmentation fault"),
    Case("bare killed", STEPS + "Killed", "killed by signal", "Killed"),
    Case("bus error", STEPS + "Fatal Python error: Bus error\n\nThread 0x00007f (most recent call first):\n  File \"/opt/x.py\", line 3 in read", "killed by signal", "Bus error"),
    Case("glibc", STEPS + "double free or corruption (!prev)\nAborted (core dumped)", "killed by signal", "double free"),
    Case("ucx", STEPS + "[n1:4711:0:4711] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)", "killed by signal", "Caught signal 11"),
    # preemption
    Case("slurm time limit", STEPS + "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***", "preemption", "TIME LIMIT"),
    Case("slurm node failure", STEPS + "srun: error: Node failure on n7\nslurmstepd: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n" + by("[rank0]: ", TB + LOST), "preemption", "Node failure on n7"),
    Case("sigterm to the agent", STEPS + "W1120 10:00:00.123000 41 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, shutting down workers\n" + TB + "torch.distributed.elastic.multiprocessing.api.SignalException: Process 41 got signal: 15", "preemption", "SIGTERM death signal"),
    # files and services
    Case("disk full", STEPS + by("[rank0]: ", TB + "OSError: [Errno 28] No space left on device: '/data/ckpt/x.pt'"), "disk full", "[Errno 28]", 0),
    Case("writer full", STEPS + by("[rank0]: ", TB + "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598\n\nDuring handling of the above exception, another exception occurred:\n\n" + TB + "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed"), "disk full", "PytorchStreamWriter", 0),
    Case("stale handle", STEPS + by("[rank4]: ", TB + "OSError: [Errno 116] Stale file handle: '/data/tokens.bin'"), "I/O error", "[Errno 116]", 4),
    Case("eio", STEPS + by("[rank4]: ", TB + "OSError: [Errno 5] Input/output error"), "I/O error", "[Errno 5]", 4),
    Case("s3", STEPS + by("[rank4]: ", TB + "ConnectionResetError: [Errno 104] Connection reset by peer\n\nDuring handling of the above exception, another exception occurred:\n\n" + TB + "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL"), "network error", "botocore", 4),
    Case("unicode on one rank, finaliser on another", STEPS + by("4175: [rank4175]: ", TB + "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 12: invalid start byte") + "\n" + by("5124: [rank5124]: ", 'Traceback (most recent call last):\n  File "/usr/lib/python3.12/multiprocessing/util.py", line 303, in _run_finalizers\n    finalizer()\nFileNotFoundError: [Errno 2] No such file or directory: \'/tmp/pymp-x1\''), "error", "UnicodeDecodeError", 4175),
    Case("the same without labels", STEPS + TB + "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff\n" + 'Traceback (most recent call last):\n  File "/usr/lib/python3.12/multiprocessing/util.py", line 303, in _run_finalizers\n    finalizer()\nFileNotFoundError: [Errno 2] No such file or directory: \'/tmp/pymp-x1\'', "error", "UnicodeDecodeError"),
    Case("checkpoint writer", STEPS + "ERROR:megatron.core.dist_checkpointing.strategies.filesystem_async:Local process encountered an error: unexpected pos 704 vs 598\n" + by("[rank0]: ", TB + "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1])"), "error", "unexpected pos 704"),
    # Python
    Case("direct cause", STEPS + by("[rank1]: ", TB + "KeyError: 'text'\n\nThe above exception was the direct cause of the following exception:\n\n" + TB + "RuntimeError: could not build a batch"), "error", "KeyError: 'text'", 1),
    Case("during handling", STEPS + by("[rank1]: ", TB + "KeyError: 'text'\n\nDuring handling of the above exception, another exception occurred:\n\n" + TB + "ValueError: cannot log the failure"), "error", "KeyError: 'text'", 1),
    Case("worker's traceback in a traceback", STEPS + by("[rank2]: ", TB + "ValueError: Caught ValueError in DataLoader worker process 3.\nOriginal Traceback (most recent call last):\n  File \"/opt/torch/utils/data/_utils/worker.py\", line 351, in _worker_loop\n    data = fetcher.fetch(index)\nValueError: sample 12 is empty"), "error", "sample 12 is empty", 2),
    Case("custom exception", STEPS + by("[rank2]: ", TB + "my.trainer.TooManyBadSamples: 12 in a row"), "error", "TooManyBadSamples", 2),
    Case("ignored in a destructor", STEPS + by("[rank2]: ", TB + "ValueError: bad shape\nException ignored in: <function Pool.__del__ at 0x7f>\n" + TB + "AttributeError: 'NoneType' object has no attribute 'x'"), "error", "ValueError: bad shape", 2),
    Case("configuration", "usage: train.py [-h] --config CONFIG\ntrain.py: error: the following arguments are required: --config", "import or configuration error", "arguments are required"),
    Case("import", by("[rank0]: ", TB + "ModuleNotFoundError: No module named 'flash_attn'"), "import or configuration error", "flash_attn", 0),
    Case("caught, then trained, then another", by("[rank1]: ", TB + "RuntimeError: temporary failure") + "\n" + "".join(f"iteration {n} / 400 | lm loss: 2.1\n" for n in range(100, 120)) + by("[rank2]: ", TB + "RuntimeError: terminal failure"), "error", "terminal failure", 2),
    Case("a step of others behind the cause", STEPS + by("[rank5]: ", TB + OOM) + "\niteration 121 / 400 | lm loss: 2.1\n" + by("[rank0]: ", TB + LOST), "out of memory", "CUDA out of memory", 5),
    # values that are no numbers
    Case("megatron rerun", STEPS + by("[rank126]: ", TB + "RuntimeError: Rank 126, node n7, device 6, iteration 121: Unexpected result nan (message='found NaN in local grad norm for bucket #0 in backward pass before data-parallel communication collective')"), "non_finite", "Unexpected result nan", 126),
    Case("megatron inf", STEPS + by("3: [rank3]: ", TB + "RuntimeError: Rank 3, node n7, device 3, iteration 121: Unexpected result inf (message='found Inf in local grad norm for bucket #0')"), "non_finite", "found Inf", 3),
    Case("megatron older", STEPS + TB + "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3, node: n7", "non_finite", "found NaN", 3),
    Case("megatron loss", STEPS + TB + "AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3, node: n7", "non_finite", "found NaN", 3),
    Case("plain check", STEPS + "Loss is nan, stopping training\n", "non_finite", "Loss is nan"),
    Case("plain exception", STEPS + by("[rank0]: ", TB + "ValueError: Loss is NaN at step 121"), "non_finite", "Loss is NaN", 0),
    Case("lightning terminate", STEPS + TB + "ValueError: The loss returned in `training_step` is nan.", "non_finite", "training_step"),
    Case("lightning early stopping", STEPS + "Monitored metric train_loss = nan is not finite. Previous best value was 2.103. Signaling Trainer to stop.", "non_finite", "is not finite"),
    Case("anomaly mode", STEPS + by("[rank0]: ", TB + "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output."), "non_finite", "returned nan", 0),
    Case("clip", STEPS + TB + "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.", "non_finite", "non-finite"),
    Case("deepspeed scale", STEPS + TB + "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "non_finite", "already at minimum"),
    Case("fairseq", STEPS + TB + "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.", "non_finite", "Minimum loss scale"),
    # nothing failed
    Case("finished", STEPS + "[after training is done] datetime: 2026-11-20 10:00:00\n", None, None),
    Case("still running", STEPS, None, None),
    Case("caught and gone on", by("[rank1]: ", TB + "RuntimeError: temporary failure") + "\n" + STEPS, None, None),
    Case("settings that name failures", "  check_for_nan_in_loss_and_grad .................. True\n  distributed_timeout_minutes ..................... 10\n  exit_signal_handler ............................. False\n" + STEPS, None, None),
    Case("warnings at the end", STEPS + "Training finished.\n[rank0]:[W1120 10:00:00.1 TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=4): Connection reset by peer\n", None, None),
    Case("oom in a warning", STEPS + "WARNING: CUDA out of memory, retrying with a smaller batch\n" + STEPS, None, None),
    Case("teardown after the end", STEPS + "Training completed.\n[rank0]:[W1120 ProcessGroupNCCL.cpp:1250] Warning: WARNING: destroy_process_group() was not called before program exit\n", None, None),
)  # fmt: skip

_MORE: tuple[tuple[str, str, str | None, int | None, str | None], ...] = (
    # realistic mixed ones
    ("torchtitan nan", "[rank0]:[titan] 2026-11-20 10:00:00,123 - root - INFO - step: 10  loss:  7.8  grad_norm:  1.2  memory: 1GiB\n"+by("[rank0]: ",TB+"RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite"),"non_finite",0,"non-finite"),
    ("nemo", "Training epoch 0, iteration 12/999 | lr: 3e-07 | global_batch_size: 512 | reduced_train_loss: 11.03\n[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/opt/NeMo/x.py\", line 3, in f\n[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried","out of memory",5,"CUDA out"),
    ("hydra", "Error executing job with overrides: []\nTraceback (most recent call last):\n  File \"x.py\", line 2, in main\nomegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct\n    full_key: lr\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n","import or configuration error",None,"ConfigAttributeError"),
    ("eaddrinuse", "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"x.py\", line 2, in main\n[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use","error",0,"EADDRINUSE"),
    ("sigterm in mid", STEPS+"[rank0]: Received signal SIGTERM, saving a checkpoint\nsaved\n","preemption",0,"SIGTERM"),
    ("assertion c", STEPS+"python: ../csrc/x.cpp:123: void f(): Assertion `n > 0' failed.\nAborted (core dumped)\n","error",None,"Assertion"),
    ("terminate", STEPS+"terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad thing happened\nAborted (core dumped)","error",None,"what()"),
    ("terminate oom", STEPS+"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc","out of memory",None,"bad_alloc"),
    ("nccl invalid usage", by("[rank1]: ",TB+"torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1970, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000"),"error",1,"invalid usage"),
    ("nccl internal", STEPS+by("[rank1]: ",TB+"torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1970, internal error - please report this issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check failed."),"error",1,"internal error"),
    ("threads exception", STEPS+by("[rank1]: ","Exception in thread Thread-3 (prefetch):\n"+TB+"OSError: [Errno 116] Stale file handle")+"\n"+by("[rank1]: ",TB+"RuntimeError: prefetcher died"),"I/O error",1,"Errno 116"),
    ("exc group", STEPS+by("[rank1]: ","  + Exception Group Traceback (most recent call last):\n  |   File \"x.py\", line 1, in f\n  | ExceptionGroup: two failed (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"x.py\", line 3, in g\n    | ValueError: bad shape\n    +------------------------------------"),"error",1,"ValueError: bad shape"),
    ("deepspeed overflow", STEPS+TB+"Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.","non_finite",None,"already at minimum"),
    ("timeouterror py", STEPS+by("[rank1]: ",TB+"TimeoutError: [Errno 110] Connection timed out"),"I/O error",1,"Errno 110"),
    ("json logger", STEPS+by("[rank1]: ",TB+"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),"error",1,"JSONDecodeError"),
    ("k8s evicted", STEPS+"The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi","preemption",None,"low on resource"),
    ("command terminated", STEPS+"command terminated with exit code 137","killed by signal",None,"137"),
    ("oom killer exact", STEPS+"python invoked oom-killer: gfp_mask=0x1100cca, order=0\n","out of memory",None,"oom-killer"),
    ("hip", STEPS+by("[rank1]: ",TB+"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB"),"out of memory",1,"HIP out"),
    ("rank words", STEPS+"rank 3: RuntimeError: CUDA error: misaligned address","CUDA error",3,"misaligned"),
    ("logger err exc", STEPS+"2026-11-20 10:00:00,123 - __main__ - ERROR - Training failed: CUDA out of memory. Tried to allocate 2 GiB","out of memory",None,"CUDA out"),
    ("logger err generic", STEPS+"2026-11-20 10:00:00,123 - __main__ - ERROR - Training failed: bad things","error",None,"bad things"),
    ("many err then none", "".join(f"ERROR: harmless thing {n}\n" for n in range(3))+STEPS,None,None,None),
    ("agent restarts", STEPS+by("[rank1]: ",TB+"ValueError: bad shape")+"\nI1120 10:00:00.1 41 torch/distributed/elastic/agent/server/api.py:900] [default] worker group FAILED. 3/3 attempts left; will restart worker group\n"+STEPS,None,None,None),
    ("silence after SIGUSR", STEPS+"*** JOB 12 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***","preemption",None,"CANCELLED"),
    ("gloo timeouts", STEPS+by("[rank0]: ",TB+"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"),"collective timeout",None,"Timed out"),
    ("ft launcher", STEPS+"[2026-11-20] [ERROR] [ft_launcher@n1] Did not get subsequent heartbeat. Waited 45.00 seconds. (rank=3)\n","error",None,"heartbeat"),
    ("cuda init", TB+"RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment","CUDA error",None,"CUDA unknown"),
    ("driver too old", TB+"RuntimeError: The NVIDIA driver on your system is too old (found version 11040).","error",None,"too old"),
    ("nan not inf", STEPS+by("[rank1]: ",TB+"AssertionError: loss is not finite: nan"),"non_finite",1,"not finite"),
    ("hf nan", STEPS+by("[rank1]: ",TB+"ValueError: NaN loss detected"),"non_finite",1,"NaN loss"),
    ("nan encountered", STEPS+by("[rank1]: ",TB+"RuntimeError: Encountered NaN in gradients at step 5"),"non_finite",1,"NaN in"),
    ("grad norm nan", STEPS+by("[rank1]: ",TB+"ValueError: grad norm is nan"),"non_finite",1,"nan"),
    ("NaN or Inf found in input tensor", STEPS+by("[rank1]: ",TB+"RuntimeError: NaN or Inf found in input tensor."),"non_finite",1,"NaN or"),
    ("nan in loss", STEPS+by("[rank1]: ",TB+"FloatingPointError: Loss became infinite or NaN at iteration=121!"),"non_finite",1,"infinite"),
    ("sigkill sent", STEPS+"[2026-11-20 10:00:00] worker rank 3 died with signal SIGKILL\n"+by("[rank0]: ",TB+LOST),"killed by signal",None,"SIGKILL"),
    ("docker json", '{"log":"[rank3]: Traceback (most recent call last):\\n","stream":"stderr","time":"2026-11-20T10:00:00Z"}\n{"log":"[rank3]:   File \\"x.py\\", line 2, in f\\n","stream":"stderr","time":"2026"}\n{"log":"[rank3]: KeyError\\n","stream":"stderr","time":"2026"}',"error",3,"KeyError"),
    ("colours", STEPS+"\x1b[31m[rank3]: Traceback (most recent call last):\x1b[0m\n[rank3]:   File \"x\", line 2\n\x1b[31m[rank3]: ValueError: bad\x1b[0m","error",3,"ValueError"),
    ("rich", STEPS+"╭───── Traceback (most recent call last) ─────╮\n│ x.py:12 in f │\n│ ❱ 12 raise RuntimeError('CUDA error: no') │\n╰──────╯\nValueError: bad shape","error",None,"ValueError: bad"),
    ("nccl port", STEPS+"n1:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 port error detected\n"+"\n".join(by(f"[rank{r}]:", WATCHDOG.format(r=r, work=811)) for r in range(2)),"network error",None,"port error"),
    ("megatron sigterm", STEPS+"exiting program after receiving SIGTERM.","preemption",None,"SIGTERM"),
    ("megatron exit interval", STEPS+" [2026] exiting program at iteration 1000\n",None,None,None),
    ("caught upload", STEPS+"WARNING: upload failed\n"+TB+"ValueError: upload\nINFO: continuing without upload\n",None,None,None),
    ("caught upload2", STEPS+TB+"ValueError: upload\n2026-11-20 10:00:00 INFO retrying in 5 s\n",None,None,None),
    ("killed lines in text", STEPS+"INFO: killed stale lock\n",None,None,None),
    ("hf hub retry", "Retrying in 1s [Retry 1/5].\n'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out.\"))' thrown while requesting HEAD\n"+STEPS,None,None,None),
    ("slurm multi", STEPS+"".join(f"{r}: [rank{r}]:[E1120 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8)\n" for r in range(3))+"srun: error: n1: task 2: Aborted (core dumped)\n"+SLURM_END,"collective timeout",None,"[Rank 0] Watchdog"),
    ("torchelastic error file", STEPS+"[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x\", line 1\n[rank1]: RuntimeError: boom\n"+table((1,1),(0,-15)),"error",1,"boom"),
    ("two causes: first", STEPS+by("[rank2]: ",TB+"ValueError: first")+"\n"+by("[rank6]: ",TB+"ValueError: second"),"error",2,"first"),
    ("print exc twice", STEPS+by("[rank2]: ",TB+"ValueError: same\n"+TB+"ValueError: same"),"error",2,"same"),
    ("peer lost all", STEPS+by("[rank0]: ",TB+LOST)+"\n"+by("[rank1]: ",TB+LOST),"lost its peers",None,"remote process exited"),
    ("peer lost one silent", STEPS.replace("iteration","[rank2]: iteration")+"[rank2]: x\n"+by("[rank0]: ",TB+LOST)+"\n"+by("[rank1]: ",TB+LOST),"lost its peers",2,"remote process exited"),
    ("AttributeError in config", TB+"AttributeError: 'Namespace' object has no attribute 'lr'","error",None,"AttributeError"),
    ("nvrm two", STEPS+"NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE\nNVRM: Xid (PCI:0000:3b:00): 45, pid=1\n"+by("[rank1]: ",TB+"RuntimeError: CUDA error: uncorrectable ECC error encountered"),"CUDA error",1,"48"),
    ("xid13 then error", STEPS+by("[rank1]: ",TB+"RuntimeError: CUDA error: an illegal memory access was encountered"),"CUDA error",1,"illegal"),
    ("timeouts, exception wrapped", STEPS+by("[rank0]: ",TB+"torch.distributed.DistBackendError: [Rank 0] Watchdog caught collective operation timeout: x\n\nDuring handling of the above exception, another exception occurred:\n\n"+TB+"RuntimeError: checkpoint failed"),"collective timeout",None,"Watchdog caught"),
    ("no progress nothing", "hello\nworld\n",None,None,None),
    ("srun labels fanout", STEPS+by("5: ",TB+OOM)+"\n"+"\n".join(by(f"{r}: ",TB+LOST) for r in range(5))+"\nsrun: error: n1: task 5: Exited with exit code 1\n"+SLURM_END,"out of memory",5,"CUDA out"),
    ("nemo lightning", "[NeMo I 2026-11-20 10:00:00 x:1] hi\nEpoch 0: :  12%|█▏   | 120/1000 [00:12<01:30, v_num=1, reduced_train_loss=2.3]\n[rank3]: Traceback (most recent call last):\n[rank3]:   File \"x\", line 1\n[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n","CUDA error",3,"illegal"),
    ("watchdog w/ cuda err first in peers", STEPS+by("[rank0]:",WATCHDOG.format(r=0,work=811))+"\n"+_r(1,TB+"RuntimeError: CUDA error: unspecified launch failure"),"CUDA error",1,"unspecified"),
    ("gpu announced then watch", STEPS+"[rank1]: NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU Fault\n"+by("[rank0]:",WATCHDOG.format(r=0,work=811)),"CUDA error",1,"31"),
    ("ckpt corrupted", _r(0,TB+"RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"),"I/O error",0,"PytorchStreamReader"),
    ("size mismatch", _r(0,TB+"RuntimeError: Error(s) in loading state_dict for GPT:\n\tsize mismatch for wte.weight: copying a param with shape torch.Size([50304, 768])"),"error",0,"loading state_dict"),
    ("assert tokens", STEPS+_r(9,TB+"AssertionError"),"error",9,"AssertionError"),
    ("index OOR", STEPS+_r(9,TB+"IndexError: index 512 is out of bounds for dimension 0 with size 512"),"error",9,"IndexError"),
    ("tokenizer", _r(2,TB+"ValueError: Unable to locate tokenizer file"),"error",2,"Unable to locate"),
    ("permission", _r(2,TB+"PermissionError: [Errno 13] Permission denied: '/data/x'"),"error",2,"Errno 13"),
    ("loader timeouts", STEPS+_r(2,TB+"RuntimeError: DataLoader timed out after 60 seconds"),"error",2,"timed out"),
    ("loader exited", STEPS+_r(2,TB+"RuntimeError: DataLoader worker (pid(s) 4711, 4712) exited unexpectedly"),"killed by signal",2,"exited unexpectedly"),
    ("loader killed by segv", STEPS+_r(2,TB+"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Segmentation fault. "),"killed by signal",2,"Segmentation"),
    ("lustre", STEPS+"LustreError: 11-0: work-OST0001-osc-ffff: operation ost_read to node 10.0.0.1@o2ib failed: rc = -107\n"+_r(2,TB+"OSError: [Errno 108] Cannot send after transport endpoint shutdown"),"I/O error",None,"LustreError"),
    ("nvlink nccl", STEPS+"n1:1:2 [3] NCCL WARN NVLink error detected on GPU 3\n"+_r(0,TB+SYSTEM),"CUDA error",None,"NVLink"),
    ("ib rec", STEPS+"n1:1:2 [3] NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n"+"\n".join(by(f"[rank{r}]:",WATCHDOG.format(r=r,work=811)) for r in range(2)),"network error",None,"error 12"),
    ("heartbeat mon", STEPS+by("[rank4]:","[F1120 06:24:44.9 ProcessGroupNCCL.cpp:1306] [PG ID 0 PG GUID 0(default_pg) Rank 4] [PG 0 Rank 4] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress"),"collective timeout",None,"got stuck"),
    ("dump signal only then", STEPS+by("[rank0]:","[E1120 06:24:44.9 ProcessGroupNCCL.cpp:1300] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 3 and we will try our best to dump the debug info.")+"\n"+by("[rank3]:",WATCHDOG.format(r=3,work=811)),"collective timeout",None,"[Rank 3] Watchdog"),
    ("rdzv", "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.","lost its peers",None,"C10d"),
    ("rdzv timeouts", "Traceback (most recent call last):\n  File \"x\", line 1\ntorch.distributed.elastic.rendezvous.api.RendezvousTimeoutError","collective timeout",None,"RendezvousTimeoutError"),
    ("ckpt disk full and peers", STEPS+_r(3,TB+"OSError: [Errno 122] Disk quota exceeded")+"\n"+_r(0,TB+GLOO),"disk full",3,"Errno 122"),
    ("compile", STEPS+_r(0,TB+"torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Triton Error [CUDA]: invalid argument"),"CUDA error",0,"Triton Error"),
    ("import err libs", _r(0,TB+"ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),"import or configuration error",0,"libcudart"),
    ("undefined symbol", _r(0,TB+"ImportError: /x/flash_attn.so: undefined symbol: _ZN3c10"),"import or configuration error",0,"undefined"),
    ("nan rerun persist", STEPS+"[rank3]: RuntimeError: Rank 3, node n1, device 3, iteration 121: Unexpected result nan (message='found NaN in local forward loss calculation')","non_finite",3,"Unexpected"),
    ("megatron check large", STEPS+_r(3,TB+"RuntimeError: Rank 3, node n1, device 3, iteration 121: Unexpected result 12.3 (message='found unexpectedly large grads in bucket #0')"),"error",3,"unexpectedly large"),
    ("sig abort", STEPS+"Fatal Python error: Aborted\n\nThread 0x0 (most recent call first):\n","killed by signal",None,"Aborted"),
    ("keyboard", STEPS+TB+"KeyboardInterrupt\n","killed by signal",None,"KeyboardInterrupt"),
    ("system exit", STEPS+TB+"SystemExit: 3\n",None,None,None),
    ("torchrun sigterm'd peers; root exit 1 with error", STEPS+_r(2,TB+"FileNotFoundError: [Errno 2] No such file or directory: '/data/shard_12.bin'")+"\nW1122 22:22:14.038000 28309 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 28514 closing signal SIGTERM\n"+table((2,1),(0,-15),(1,-15)),"error",2,"shard_12"),
    ("error in tmp data", STEPS+_r(2,TB+"FileNotFoundError: [Errno 2] No such file or directory: '/tmp/data/shard_12.bin'")+"\n"+_r(3,TB+"ValueError: later"),"error",2,"shard_12"),
    ("megatron rerun in a warning", STEPS+"WARNING:megatron.core.rerun_state_machine:Unexpected result tensor(nan) on rank 3 at iteration #121 invocation #1 (message='loss is NaN')\nExiting now.\n"+_r(0,TB+LOST),"non_finite",3,"Unexpected result"),
    ("json message", wrapped(STEPS.rstrip()+"\n"+_r(2,TB+OOM)),"out of memory",2,"CUDA out"),
    ("json with a rank", wrapped(STEPS.rstrip())+"\n"+wrapped(TB+"ValueError: bad \"shape\"",rank=3)+"\n"+wrapped(TB+GLOO,rank=0),"error",3,"bad"),
    ("json of pods", wrapped(STEPS.rstrip(),"log",kubernetes={"pod_name":"worker-0"})+"\n"+"\n".join(f"{a}\n{b}" for a,b in zip(wrapped(TB+"KeyError: 'x'","log",kubernetes={"pod_name":"worker-1"}).split("\n"),wrapped(TB+"KeyError: 'x'","log",kubernetes={"pod_name":"worker-0"}).split("\n"),strict=True)),"error",None,"KeyError"),
    ("json of google cloud", wrapped(STEPS.rstrip()+"\n"+_r(2,TB+OOM),"textPayload",insertId="a1"),"out of memory",2,"CUDA out"),
    ("json of journald", wrapped(STEPS.rstrip(),"MESSAGE")+"\n"+wrapped("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.","MESSAGE",_HOSTNAME="n1"),"lost GPU",None,"fallen off"),
    ("json in json", wrapped(wrapped(STEPS.rstrip()+"\n"+_r(2,TB+OOM)),"log",stream="stderr"),"out of memory",2,"CUDA out"),
    ("json with the traceback in one member", wrapped(STEPS.rstrip())+"\n"+wrapped("training failed",rank=4,exc_info=TB+"ValueError: bad shape"),"error",4,"bad shape"),
    ("json with an xid beside its message", wrapped(STEPS.rstrip())+"\n"+wrapped("GPU error",xid=79,gpu="0000:3b:00.0"),"lost GPU",None,"GPU error"),
    ("second launch died before its first step", STEPS+_r(1,TB+OOM)+"\n"+table((1,1),(0,-15))+"\nWARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1\n"+_r(5,TB+"RuntimeError: CUDA error: an illegal memory access was encountered"),"CUDA error",5,"illegal memory"),
    ("the agent started the workers anew", _r(1,TB+"ValueError: bad shape")+"\nINFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"+_r(2,TB+"ModuleNotFoundError: No module named 'x'"),"import or configuration error",2,"No module"),
    ("another node starts late", _r(1,TB+OOM)+"\nWARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1\n"+_r(9,TB+LOST),"out of memory",1,"CUDA out"),
    ("two launches, then steps", _r(1,TB+OOM)+"\nStarting elastic_operator with launch configs:\n"+STEPS,None,None,None),
    ("deepep barrier", STEPS+"".join(f"DeepEP timeout check failed: rank = {r}, thread = 0, value = 0)\n" for r in (6,2)),"collective timeout",None,"DeepEP timeout"),
    ("deepep host", STEPS+_r(4,TB+"RuntimeError: DeepEP error: timeout (dispatch CPU)"),"collective timeout",None,"dispatch CPU"),
    ("deepep trap", STEPS+"DeepEP dispatch NVL receiver timeout, channel: 6, RDMA: 0, nvl: 0, src NVL: 5, head: 315, tail: 315\nterminate called after throwing an instance of 'EPException'\n  what():  Failed: CUDA error /w/deep_ep.cpp:83 'unspecified launch failure'","CUDA error",None,"unspecified"),
    ("nvshmem", "/w/ibrc.cpp:1433: non-zero status: 7 connect EPS failed \n/w/init.cu:1007: non-zero status: 7 nvshmem setup connections failed \n","network error",None,"connect EPS"),
    ("a rank that is none", STEPS+by("[rank=-1]: ",TB+OOM),"out of memory",None,"CUDA out"),
    ("peers after the end", STEPS+"Training completed\n"+_r(3,TB+"RuntimeError: NCCL communicator was aborted on rank 3."),None,None,None),
    ("peers after the end of another kind", STEPS+"Training completed\n"+_r(3,TB+OOM),"out of memory",3,"CUDA out"),
    ("json metrics are steps", "".join(json.dumps({"step":n,"loss":2.1,"message":"ok"})+"\n" for n in range(5))+wrapped("CUDA error: caught, retrying")+"\n"+json.dumps({"step":6,"loss":2.1,"message":"ok"}),None,None,None),
)  # fmt: skip

CASES += tuple(Case(name, text, crash, root, rank) for name, text, crash, rank, root in _MORE)

# A start and a few steps as launchers, NCCL, Megatron-LM, DeepSpeed and wandb print them: warnings, and nothing failed
HEALTHY = """[W1120 10:00:00.1 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol).
/opt/torch/cuda/__init__.py:128: UserWarning: CUDA initialization: x
WARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1
2026-11-20 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
2026-11-20 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:1515] Unable to register cuBLAS factory
  check_for_nan_in_loss_and_grad .................. True
  nccl_communicator_config_path ................... None
  distributed_timeout_minutes ..................... 10
  error_injection_rate ............................ 0
  exit_on_missing_checkpoint ...................... False
n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
n1:1:2 [0] NCCL INFO Channel 00/16 : 0 1 2 3
n1:1:2 [0] NCCL INFO NVLS multicast support is not available on dev 0
WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt
    will not load any checkpoints and will start from random
wandb: WARNING Path /x is not writable, using system temp directory.
wandb: Network error (ConnectTimeout), entering retry loop.
W0000 tokenizer mismatch detected
[2026-11-20 10:00:00,123] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
(min, max) time across ranks (ms):
    load-checkpoint ................................: (0.67, 0.70)
 iteration        1/  100 | consumed samples: 32 | elapsed time per iteration (ms): 812.3 | lm loss: 1.1E+01 | loss scale: 1.0 | grad norm: 0.5 | number of skipped iterations: 0 | number of nan iterations: 0 |
 validation loss at iteration 1 | lm loss value: 1.1E+01 | lm loss PPL: 5.0E+04 |
saving checkpoint at iteration 1 to /ckpt in torch_dist format
  successfully saved checkpoint from iteration 1 to /ckpt
 iteration        2/  100 | consumed samples: 64 | elapsed time per iteration (ms): 812.3 | lm loss: 1.1E+01 |
[exiting program at iteration 100] datetime: 2026-11-20
wandb: Waiting for W&B process to finish... (success).
[rank0]:[W1120 10:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL
"""
