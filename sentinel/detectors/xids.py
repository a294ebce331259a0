"""NVIDIA's Xids: what each asks for, and whether it means that work was lost. Read from the "Xid catalog" of NVIDIA's GPU
debug guide (docs.nvidia.com/deploy/xid-errors, column "immediate action", Ampere and newer; the spreadsheet of September 2026,
which ends with 172). What is critical is ours.

Where the driver itself names a recovery action (Xid 154 and NVML's field, from driver R565 on), that is believed instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Need(IntEnum):
    """What has to be done before the GPU can be trusted again; larger includes smaller."""

    NOTHING = 0
    ASK = 1
    RESTART_APP = 2
    RESET_GPU = 3
    REBOOT_NODE = 4
    REPLACE = 5


NEED_WORDS = {
    Need.NOTHING: "nothing needs to be done",
    Need.ASK: "NVIDIA's catalogue names no action; look at the GPU and ask NVIDIA if it comes again",
    Need.RESTART_APP: "a restart of the application is enough",
    Need.RESET_GPU: "reset the GPU (nvidia-smi --gpu-reset) before it is used again",
    Need.REBOOT_NODE: "reboot the node, and take it out if it comes again",
    Need.REPLACE: "take the node out and have the GPU looked at",
}


@dataclass(frozen=True, slots=True)
class Xid:
    """`critical`: the hardware failed under the run. Else an application's own error or a note: recorded as info, and one for
    which nobody knows an action (ASK): a warning to a person."""

    need: Need
    critical: bool
    words: str


def _each(numbers: tuple[int, ...], need: Need, critical: bool, words: str) -> dict[int, Xid]:
    return {number: Xid(need, critical, words) for number in numbers}


XIDS: dict[int, Xid] = {
    **_each((37, 38, 44, 66, 67, 93, 106, 107, 108, 121, 137, 141, 157, 160, 161), Need.NOTHING, False, "noted by the driver"),
    **_each(
        (8, 11, 25, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88, 89, *range(96, 106), *range(126, 136),
         139),
        Need.RESTART_APP, False, "an application's error, or one that a restart clears",
    ),
    13: Xid(Need.RESTART_APP, False, "graphics engine exception, mostly the application's own"),
    31: Xid(Need.RESTART_APP, False, "GPU memory page fault, mostly the application's own"),
    43: Xid(Need.NOTHING, False, "the application was stopped by its own fault"),
    45: Xid(Need.NOTHING, False, "clean-up after another error or a kill"),
    46: Xid(Need.RESET_GPU, True, "the GPU stopped processing"),
    48: Xid(Need.RESET_GPU, True, "double-bit memory error"),
    62: Xid(Need.RESET_GPU, True, "the GPU's microcontroller halted"),
    63: Xid(Need.NOTHING, False, "a memory row was remapped"),
    64: Xid(Need.RESET_GPU, True, "a memory row could not be remapped"),
    74: Xid(Need.RESET_GPU, True, "NVLink error"),
    79: Xid(Need.REBOOT_NODE, True, "the GPU has fallen off the bus"),
    92: Xid(Need.NOTHING, False, "many corrected memory errors"),
    94: Xid(Need.RESTART_APP, True, "contained memory error: the application that met it is lost"),
    95: Xid(Need.RESET_GPU, True, "uncontained memory error: every application is lost"),
    119: Xid(Need.RESET_GPU, True, "the GPU's system processor does not answer"),
    120: Xid(Need.RESET_GPU, True, "the GPU's system processor failed"),
    140: Xid(Need.RESET_GPU, True, "memory error that was not recovered"),
    142: Xid(Need.REPLACE, True, "NVIDIA asks for a support case"),
    151: Xid(Need.REBOOT_NODE, True, "the virtual machine has to be restarted"),
    **_each((109, 110, 136, 143, 155, 156, 158), Need.RESET_GPU, True, "the GPU cannot go on"),
    **_each(tuple(range(144, 151)), Need.RESET_GPU, True, "NVLink error"),
    # Reported without an immediate action, or with one that only a person can take
    54: Xid(Need.ASK, False, "auxiliary power is not connected to the GPU board"),
    78: Xid(Need.ASK, False, "vGPU start error; NVIDIA asks for other software"),
    **_each((152, 153), Need.NOTHING, False, "noted by the driver"),
    159: Xid(Need.ASK, False, "an error between processor and GPU; NVIDIA asks to look at the driver's UVM messages"),
    **_each((162, 163), Need.ASK, False, "the circuit that smooths power was engaged or disengaged"),
    **_each((164, 165), Need.ASK, False, "the circuit that smooths power wears out"),
    **_each((166, 170), Need.ASK, False, "an error of confidential computing over NVLink"),
    167: Xid(Need.ASK, False, "fatal timeout on PCIe"),
    168: Xid(Need.ASK, False, "errors in a protected region reduce the GPU's memory"),
    169: Xid(Need.ASK, False, "the GPU's security microcontroller halted"),
    171: Xid(Need.ASK, False, "uncorrectable DRAM error, which goes with Xid 48"),
    172: Xid(Need.ASK, False, "uncorrectable SRAM error, which goes with Xid 48"),
}  # fmt: skip
UNKNOWN_XID = Xid(Need.ASK, False, "not in the table of this version; see NVIDIA's catalogue")

# NVML_GPU_RECOVERY_ACTION_*; Xid 154 prints the same codes.
RECOVERY_NEEDS: dict[int, Need] = {
    0: Need.NOTHING, 1: Need.RESET_GPU, 2: Need.REBOOT_NODE, 3: Need.RESET_GPU, 4: Need.RESET_GPU, 5: Need.REBOOT_NODE,
    6: Need.RESET_GPU, 7: Need.REBOOT_NODE,
}  # fmt: skip


def need_of_recovery(code: int) -> Need:
    """A code of a later driver asks for more than is known here: the node is out."""
    return RECOVERY_NEEDS.get(code, Need.REBOOT_NODE)
