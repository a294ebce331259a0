"""Ends of logs as torch 2.x, NCCL, gloo, Slurm, Python and the kernel print them."""

from __future__ import annotations

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train/train.py", line 214, in <module>\n    main()\n'
    '  File "/opt/train/train.py", line 180, in main\n    loss.backward()\n'
)
CUDA_OOM = (
    TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB "
    "of which 1.19 GiB is free. Process 41 has 77.91 GiB memory in use."
)
ILLEGAL = (
    TRACEBACK + "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)
ASSERT = (
    "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [3,0,0], thread: [64,0,0] Assertion "
    "`-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"` failed.\n" + TRACEBACK
    + "torch.AcceleratorError: CUDA error: device-side assert triggered"
)
WATCHDOG = (
    "[rank{r}]:[E1120 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=980, NumelOut=980, Timeout(ms)=600000) ran for 600020 milliseconds before "
    "timing out.\n"
    "[rank{r}]:[E1120 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Exception (either "
    "an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: {work}, last completed NCCL work: 807.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'"
)
GLOO_TIMEOUT = (
    TRACEBACK + "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for "
    "recv operation to complete"
)
FELL = "[12345.6] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
NO_DEVICE = TRACEBACK + "RuntimeError: CUDA error: no CUDA-capable device is detected"
NO_MODULE = TRACEBACK + "ModuleNotFoundError: No module named 'flash_attn'"
SYNTAX = '  File "/opt/train/train.py", line 3\n    def main(:\n             ^\nSyntaxError: invalid syntax'
USAGE = "usage: train.py [-h] --config CONFIG\ntrain.py: error: the following arguments are required: --config"
ENOSPC = TRACEBACK + "OSError: [Errno 28] No space left on device: '/data/ckpt/step-00000100/shard-0.pt'"
WRITER_FULL = TRACEBACK + (
    "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0\n"
    "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed"
)
PREEMPTED = "slurmstepd: error: *** STEP 123.0 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO PREEMPTION ***"
TORCHRUN_TERM = (
    "W1120 10:00:00.123000 41 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, shutting "
    "down workers\ntorch.distributed.elastic.multiprocessing.api.SignalException: Process 41 got signal: 15"
)
SLURM_OOM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.\n"
    "srun: error: n1: task 3: Out Of Memory"
)
KERNEL_OOM = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:91234kB, anon-rss:81234kB"
LOADER = TRACEBACK + (
    "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. \n"
    "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"
)
RESET = TRACEBACK + (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:37210"
)
PIPE = TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe"
NCCL_PEER = TRACEBACK + (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited "
    "or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a "
    "remote process exiting prematurely."
)
CHILD_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n-----"
SYMPTOMS = (RESET, PIPE, NCCL_PEER)
